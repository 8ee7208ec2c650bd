"""Table of known agents: commands, modes that ask for permission, and what they report."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from agentnb.errors import SettingsError, suggest_names
from agentnb.tools.tool import Effect

AS_ERRORS = "error"
UsageForm: TypeAlias = Literal["none", "turn", "last_request", "session", "requests"]
"""Scope of the usage at the end of a turn; ``requests``: each request is reported in a message."""
CostForm: TypeAlias = Literal["none", "session", "process"]
"""Scope of a cost: the session (even if loaded) or, as far as is known, the process."""


class KnownAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent that supports the protocol."""

    command: tuple[str, ...]
    install: str = ""
    sign_in: str = ""
    env: dict[str, str] = {}
    """Environment variables for its start."""
    keys: tuple[str, ...] = ()
    """Names of the person's variables that are passed to it."""
    hosts: tuple[str, ...] = ()
    """Hosts of its model and of its sign-in. In an experiment, it reaches only its hosts and the addresses in its variables."""
    providers: dict[str, tuple[str, ...]] = {}
    """Further hosts, by the provider before the slash in the name of a model."""
    home: str = ""
    """Variable for the folder of its settings, if ``HOME`` alone does not determine it."""
    tried: str = ""
    """Tested version."""
    asks_in: str = ""
    """Mode in which it asks before it writes and executes; empty if it always asks or has no such mode."""
    asks: bool = True
    """True if there is such a mode."""
    asks_about: tuple[Effect, ...] = ()
    """Effects of calls about which it always asks in that mode, as far as tested; see the table in ``docs/agents.md``."""
    sandbox: str = ""
    """Sentence about the agent's own sandbox or mode that restricts other effects, if it has one."""
    offers_functions: bool = True
    """True if it shows the notebook's functions to its model. In codex and vibe, the model must search for them;
    copilot accepts none.
    """
    terminals: bool = False
    """True if agentnb runs its commands."""
    usage: UsageForm = "none"
    cost: CostForm = "none"
    errors: str = ""
    """Sign of provider errors: ``error`` for protocol errors, otherwise a pattern for its final text.

    Empty if untested; its runs then end unchecked.
    """
    lacks: tuple[str, ...] = ()
    """Text about facts that the agent does not report."""


@cache
def known_agents() -> dict[str, KnownAgent]:
    """Return the table of agents, by name."""
    data = tomllib.loads(Path(__file__).with_name("known_agents.toml").read_text(encoding="utf-8"))
    return {name: msgspec.convert(row, KnownAgent) for name, row in data.items()}


def agent_of(name: str) -> KnownAgent:
    """Return the agent with this name. Raises `SettingsError`, listing the most similar names, if there is none."""
    agent = known_agents().get(name)
    if agent is None:
        raise SettingsError(f"There is no known agent {name!r}", suggest_names(name, known_agents()))
    return agent
