"""An external agent in the settings of an `Agent`: its name, its model and its mode."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol

from agentnb.acp.known_agents import KnownAgent, agent_of
from agentnb.advice import Install
from agentnb.core.request import Request
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import FINAL_ANSWER, UNCHECKED
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.guidance.sets import GuidanceSet
from agentnb.models.model import StreamItem
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.ending import natural_stop, person_spoke, refused
from agentnb.policies.verdict import Policy, Stop

PROVIDER = "acp"


class Place(Protocol):
    """Environment for an agent that nobody supervises: settings other than the person's, and optionally a sandbox."""

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts that replace those in the agent's entry."""

    @property
    def sockets(self) -> Path | None:
        """Folder of the sockets by which an agent in a sandbox reaches its model, or None without a sandbox."""

    def around(self, agent: KnownAgent) -> KnownAgent:
        """Return the agent's entry, adapted to this environment. Blocks. Raises `SettingsError`."""


@dataclass(frozen=True, slots=True)
class ExternalAgent:
    """An external agent in the role of a model, before its run."""

    agent: str
    model: str = ""
    mode: str = ""
    place: Place | None = None
    """The environment, or None for the person's own settings."""

    def __post_init__(self) -> None:
        agent_of(self.agent)
        if find_spec("acp") is None:
            advice = Install("agentnb[acp]", lead="Install it")
            raise SettingsError("External agents need the package agent-client-protocol, which is not installed", advice)

    @classmethod
    def of(cls, word: str, mode: str = "") -> ExternalAgent:
        """Parse ``NAME`` or ``NAME:MODEL``. Raises `SettingsError`."""
        agent, _, model = word.partition(":")
        return cls(agent, model, mode)

    @property
    def name(self) -> str:
        """``acp:AGENT``, followed by its model if given."""
        return ":".join(filter(None, (PROVIDER, self.agent, self.model)))

    @property
    def known(self) -> KnownAgent:
        """The agent's entry in the table."""
        return agent_of(self.agent)

    def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Raise `SettingsError`: external agents answer only within runs of their own."""
        raise SettingsError(f"{self.name} cannot answer single requests", "Run it as an agent: Agent(acp=...)")


@dataclass(frozen=True, slots=True)
class EndWithTurn:
    """Policy for external agents: the run ends with their turn."""

    name: ClassVar[str] = PROVIDER

    def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
        """Return the functions that the loop calls."""
        return PolicyBundle((person_spoke, refused, cut_off, unchecked, natural_stop, *limits))


def is_external(run: RunFacts) -> bool:
    """True if an external agent does the work of a run."""
    return run.model.startswith(f"{PROVIDER}:")


CUT_OFF = frozenset({"max_tokens", "max_turn_requests", "cancelled"})
"""Stop reasons, in the protocol, for an incomplete turn."""


def cut_off(run: Run) -> Stop | None:
    """Stop the run if the agent ended its turn early."""
    last = run.last_round
    return Stop(last.stop_reason, "stopped") if not last.records and last.stop_reason in CUT_OFF else None


def unchecked(run: Run) -> Stop | None:
    """Complete the run as unchecked if the agent's final text may be an error."""
    if run.last_round.records or not run.last_round.metadata.get(UNCHECKED):
        return None
    return Stop(UNCHECKED, round_status="natural_completion")


SHAPES_REQUESTS: Mapping[str, Any] = {
    "model": "", "system": None, "guidance": "matrix", "policy": None, "history": "auto", "instructions": True,
    "output": None, "extensions": (), "todos": True, "max_tokens": None,
}  # fmt: skip
"""Settings that have no effect on external agents, with their default values."""


def beyond_reach(given: Mapping[str, Any], settings: Mapping[str, Any] = SHAPES_REQUESTS) -> list[str]:
    """Return the names of settings of an `Agent` that have no effect on external agents. ``settings``: the default values."""
    names = [name for name, usual in settings.items() if given.get(name, usual) != usual]
    return [*names, "on_limit"] if given.get("on_limit") == FINAL_ANSWER else names


def check_reach(given: Mapping[str, Any], settings: Mapping[str, Any] = SHAPES_REQUESTS) -> None:
    """Raise `SettingsError` for a setting of an `Agent` that has no effect on external agents; see `beyond_reach`."""
    for name in beyond_reach(given, settings):
        agent, leave_out = f"{PROVIDER}:{given['acp']}", "name a model in place of acp to run one of agentnb's own agents"
        problem, how = f"{name} does not reach {agent}, which builds its requests itself", f"Omit {name}"
        if name == "on_limit":
            problem = f"on_limit={FINAL_ANSWER!r} does not reach {agent}, because agentnb cannot stop its tool calls"
            how = "Use stop or raise"
        raise SettingsError(problem, f"{how}, or {leave_out}")
