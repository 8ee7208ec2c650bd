"""Output schemas in provider requests: sent if the provider's own server accepts them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentnb import Agent, Output
from agentnb.models.providers.anthropic import takes_schema
from agentnb.models.registry import REMOTE, make_model, wire_form
from agentnb.testing import LoopbackServer

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"birds": {"type": "integer"}},
    "required": ["birds"],
    "additionalProperties": False,
}
OPEN: dict[str, Any] = {"type": "object", "properties": {"birds": {"type": "integer"}}, "required": ["birds"]}
LIST: dict[str, Any] = {"type": "array", "items": CLOSED}
FITS = '{"birds": 12}'


def sends(provider: str, schema: dict[str, Any], url: str = "") -> bool:
    """Return True if the wire form of a request has the schema in a field of its own."""
    request = Agent("simulated:disciplined", output=schema).first_request("go")
    name = f"{provider}:m" + (f"?url={url}" if url else "")
    body = json.loads(wire_form(name, request) or b"")
    return any(field in body for field in ("response_format", "text", "output_config"))


def test_provider_receives_only_schemas_it_accepts(subtests: pytest.Subtests) -> None:
    for provider, taken in {
        "anthropic": [CLOSED, LIST],
        "openai": [CLOSED, OPEN],
        "openai-responses": [CLOSED, OPEN],
        "ollama": [],
    }.items():
        for schema in (CLOSED, OPEN, LIST):
            with subtests.test(provider, schema=schema["type"]):
                assert sends(provider, schema) == (schema in taken)
    assert not sends("openai", CLOSED, url="http://localhost:8000/v1")


def test_anthropic_accepts_only_plain_keywords_and_closed_objects(subtests: pytest.Subtests) -> None:
    for schema, taken in (
        (CLOSED, True),
        ({"anyOf": [CLOSED, {"type": "null"}]}, True),
        ({"anyOf": [OPEN, {"type": "null"}]}, False),
        ({**CLOSED, "properties": {"birds": {"type": "integer", "minimum": 0}}}, False),
        ({**CLOSED, "$defs": {"place": OPEN}}, False),
        ({**CLOSED, "properties": {"minimum": {"$ref": "#/$defs/a"}}, "$defs": {"a": CLOSED}}, True),
        ({"type": "array", "items": True}, False),
    ):
        with subtests.test(str(schema)):
            assert takes_schema(schema) is taken


def test_output_schema_is_enforced_with_every_provider(subtests: pytest.Subtests) -> None:
    for provider in REMOTE:
        with subtests.test(provider), LoopbackServer(["Twelve.", FITS]) as server:
            run = Agent(server.model(provider, max_tokens=50), output=OPEN).run_sync("go")
            assert (run.output, len(run.rounds)) == ({"birds": 12}, 2)
            assert [received.problems for received in server.requests] == [(), ()]


def test_schema_given_at_model_creation_is_sent() -> None:
    with LoopbackServer([FITS]) as server:
        model = make_model(server.model("openai"), output_schema=OPEN)
        assert Agent(model, output=Output(CLOSED)).run_sync("go").output == {"birds": 12}
    assert server.requests[0].body["response_format"]["json_schema"]["schema"] == OPEN
