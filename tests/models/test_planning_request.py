"""A planner's request: fields for the simulated model are not sent to providers."""

from __future__ import annotations

import pytest

from agentnb.core.messages import user
from agentnb.core.request import Request, ToolSpec
from agentnb.models.registry import REMOTE, wire_form

TOOLS = (ToolSpec("fetch", "Fetch a table.", {"type": "object", "properties": {}}),)


def test_providers_receive_unchanged_requests(subtests: pytest.Subtests) -> None:
    planning = {"query": "a planned query", "results": [{"name": "a secret result"}]}
    for provider in REMOTE:
        with subtests.test(provider):
            plain, request = (Request("", (user("Plan."),), TOOLS, settings) for settings in ({}, {"planning": planning}))
            body = wire_form(f"{provider}:m", request)
            assert body and body == wire_form(f"{provider}:m", plain)
            assert b"plann" not in body and b"secret" not in body
