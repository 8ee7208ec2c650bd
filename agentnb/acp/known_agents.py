"""The agents that are known, as data: how each is started, in which mode it asks, and what it reports."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from agentnb.errors import SettingsError, near

AS_ERRORS = "error"
UsageForm: TypeAlias = Literal["none", "turn", "last_request", "session", "requests"]
"""What the numbers of a turn's end are about; ``requests``: each request is told of with a message."""
CostForm: TypeAlias = Literal["none", "session", "process"]
"""What a cost is the sum of: the session, also if it was loaded, or the process as far as is known."""


class KnownAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent that speaks the protocol."""

    command: tuple[str, ...]
    install: str = ""
    sign_in: str = ""
    env: dict[str, str] = {}
    """Variables that it is started with."""
    keys: tuple[str, ...] = ()
    """Names of the person's variables that reach it."""
    home: str = ""
    """The variable that names the folder of its settings, if ``HOME`` does not decide alone."""
    tried: str = ""
    """The version that was tried."""
    asks_in: str = ""
    """The mode in which it asks before it writes and executes; empty if it always does, or has none."""
    asks: bool = True
    """Whether there is such a mode."""
    offers_functions: bool = True
    """Whether it shows its model the functions of the notebook. Those of codex and vibe have to search; copilot takes none."""
    terminals: bool = False
    """Whether it has agentnb run its commands."""
    usage: UsageForm = "none"
    cost: CostForm = "none"
    errors: str = ""
    """How it reports an error of its provider: ``error``, as one of the protocol, else a pattern of its last words.

    Empty if that was not tried: its runs end unchecked.
    """
    lacks: tuple[str, ...] = ()
    """What it does not report, in words."""


@cache
def known_agents() -> dict[str, KnownAgent]:
    """Return the table of this package, by name."""
    data = tomllib.loads(Path(__file__).with_name("known_agents.toml").read_text(encoding="utf-8"))
    return {name: msgspec.convert(row, KnownAgent) for name, row in data.items()}


def agent_of(name: str) -> KnownAgent:
    """Return the agent of this name. Raises `SettingsError`, with the most similar names."""
    agent = known_agents().get(name)
    if agent is None:
        raise SettingsError(f"No agent is known as {name!r}", near(name, known_agents()))
    return agent
