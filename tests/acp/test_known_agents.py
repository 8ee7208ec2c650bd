"""The table of known agents."""

from __future__ import annotations

import re

import pytest

from agentnb import Agent
from agentnb.acp.known_agents import known_agents
from agentnb.errors import SettingsError


def test_each_row_has_start_install_and_sign_in() -> None:
    for name, row in known_agents().items():
        assert row.command and row.install, name
        assert re.fullmatch(r"[a-z]+", name), name


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="opencode"):
        Agent(acp="opencde")


def test_no_row_hands_a_key_over_by_itself() -> None:
    for name, row in known_agents().items():
        assert not [variable for variable in row.env if "KEY" in variable or "TOKEN" in variable], name
