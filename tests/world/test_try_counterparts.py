"""The counterparts that are tried: each names its packages with their versions."""

from __future__ import annotations

import re

import pytest
from try_counterparts import counterparts

from agentnb.acp.known_agents import known_agents

RANGE = re.compile(r"@[~^]?\d|[<>=~]=?\d|<\d")


def test_each_counterpart_names_its_packages_with_versions(subtests: pytest.Subtests) -> None:
    rows = counterparts(nightly=True)
    assert len({row["name"] for row in rows}) == len(rows)
    assert len(counterparts(["mcp_server"])) >= 25
    for row in rows:
        with subtests.test(row["name"]):
            packages = [*row.get("npm", ()), *row.get("pypi", ())]
            assert packages
            assert [package for package in packages if not RANGE.search(package)] == []


def test_each_external_agent_is_tried_at_its_listed_version() -> None:
    known = known_agents()
    rows = counterparts(["acp_agent"])
    assert {row["name"] for row in rows} == set(known)
    for row in rows:
        tried = known[row["name"]].tried
        assert [*row.get("npm", ()), *row.get("pypi", ())][0].endswith((f"@{tried}", f"=={tried}"))
        assert row["mode"] and row["model"]  # docs/agents.md: each takes both over the protocol
        assert {"mode set", "model set"}.isdisjoint(row.get("known", {}))
