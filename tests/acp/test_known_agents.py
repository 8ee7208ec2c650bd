"""The table of known agents."""

from __future__ import annotations

import re

import pytest

from agentnb import Agent
from agentnb.acp.known_agents import known_agents
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
