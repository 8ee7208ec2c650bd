"""The table of known agents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentnb import Agent
from agentnb.acp.known_agents import known_agents
from agentnb.acp.reach import NOUNS
from agentnb.errors import SettingsError


def test_each_known_agent_has_start_and_install_commands() -> None:
    for name, row in known_agents().items():
        assert row.command and row.install, name
        assert re.fullmatch(r"[a-z]+", name), name


def test_unknown_agent_name_is_refused_with_a_suggestion() -> None:
    with pytest.raises(SettingsError, match="opencode"):
        Agent(acp="opencde")


def test_no_known_agent_receives_keys_by_default() -> None:
    for name, row in known_agents().items():
        assert not [variable for variable in row.env if "KEY" in variable or "TOKEN" in variable], name


def test_page_names_what_each_agent_asks_about() -> None:
    lines = (Path(__file__).parents[2] / "docs/agents.md").read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")] for line in lines if re.match(r"\| `[a-z]+` \d", line)]
    page = {cell[1]: (cell[2].strip("`"), cell[3].partition(";")[0]) for cell in cells}
    known = {name: row for name, row in known_agents().items() if row.tried}
    assert {first.split("`")[1] for first in page} == set(known)
    for name, row in known.items():
        mode, asked = page[f"`{name}` {row.tried}"]
        assert asked == ", ".join(NOUNS[effect] for effect in row.asks_about), name
        assert mode == row.asks_in or not row.asks_in, name
