"""An agent of others as the settings of an `Agent` name it: which one, with which model, in which of its modes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from agentnb.acp.known_agents import KnownAgent, agent_of
from agentnb.core.request import Request
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import FINAL_ANSWER
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.guidance.sets import GuidanceSet
from agentnb.models.model import StreamItem
from agentnb.policies.bundle import PolicyBundle
from agentnb.policies.ending import natural_stop, person_spoke, refused
from agentnb.policies.verdict import Policy, Stop

PROVIDER = "acp"


class Place(Protocol):
    """Where an agent runs that nobody watches: with other settings than the person's, and perhaps with walls around it."""

    @property
    def is_in_sandbox(self) -> bool:
        """Whether there are walls."""

    def around(self, agent: KnownAgent) -> KnownAgent:
        """Return the row of the agent as it starts there. Blocks. Raises `SettingsError`."""


@dataclass(frozen=True, slots=True)
class ForeignAgent:
    """An agent of others, before a run. It stands where a model does."""

    agent: str
    model: str = ""
    mode: str = ""
    place: Place | None = None
    """Where it runs; None for the person's own settings."""

    def __post_init__(self) -> None:
        agent_of(self.agent)

    @classmethod
    def of(cls, word: str, mode: str = "") -> ForeignAgent:
        """Return the agent of ``NAME`` or ``NAME:MODEL``. Raises `SettingsError`."""
        agent, _, model = word.partition(":")
        return cls(agent, model, mode)

    @property
    def name(self) -> str:
        """``acp:AGENT``, with its model if one was named."""
        return ":".join(filter(None, (PROVIDER, self.agent, self.model)))

    @property
    def known(self) -> KnownAgent:
        """Its row of the table."""
        return agent_of(self.agent)

    def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Refuse a request: an agent is asked within a run of its own."""
        raise SettingsError(f"{self.name} answers no single request", "Run it: Agent(acp=...)")


@dataclass(frozen=True, slots=True)
class AsItEnds:
    """The policy of such an agent: the run ends with its turn."""

    name: ClassVar[str] = PROVIDER

    def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
        """Return the functions that the loop calls."""
        return PolicyBundle((person_spoke, refused, cut_off, unchecked, natural_stop, *limits))


def is_of_others(run: RunFacts) -> bool:
    """Return whether an agent of others does the work of a run."""
    return run.model.startswith(f"{PROVIDER}:")


CUT_OFF = frozenset({"max_tokens", "max_turn_requests", "cancelled"})
"""Reasons of the protocol for a turn that is not whole."""
UNCHECKED = "unchecked"
"""The key of a reply's metadata, and the stop reason, of a turn whose end says nothing of errors."""


def cut_off(run: Run) -> Stop | None:
    """Stop if the agent ended its turn before it was done."""
    last = run.last_round
    return Stop(last.stop_reason, "stopped") if not last.records and last.stop_reason in CUT_OFF else None


def unchecked(run: Run) -> Stop | None:
    """Complete the run as unchecked if the agent may have reported an error as its last words."""
    if run.last_round.records or not run.last_round.metadata.get(UNCHECKED):
        return None
    return Stop(UNCHECKED, round_status="natural_completion")


SHAPES_REQUESTS: Mapping[str, Any] = {
    "model": "", "system": None, "guidance": "matrix", "policy": None, "history": "auto", "instructions": True,
    "output": None, "extensions": (), "todos": True, "max_tokens": None,
}  # fmt: skip
"""Settings that cannot reach such an agent, with their usual values."""


def check_reach(given: Mapping[str, Any], settings: Mapping[str, Any] = SHAPES_REQUESTS) -> None:
    """Raise `SettingsError` for a setting of an `Agent` that cannot reach an agent of others.

    ``settings``: the usual values.
    """
    for name, usual in settings.items():
        if given[name] != usual:
            problem = f"{name} does not reach {PROVIDER}:{given['acp']}, which shapes its requests itself"
            raise SettingsError(problem, f"Leave {name} out, or run an agent of agentnb: leave acp out")
    if given.get("on_limit") == FINAL_ANSWER:
        problem = f"on_limit={FINAL_ANSWER!r} does not reach {PROVIDER}:{given['acp']}, which cannot be held from calling tools"
        raise SettingsError(problem, "Use stop or raise, or run an agent of agentnb: leave acp out")
