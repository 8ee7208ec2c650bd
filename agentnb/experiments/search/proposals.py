"""Proposals of a search: made by a model or a function, each stored before it is tried, so that it is paid for only once."""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from agentnb.agent.agent import Agent
from agentnb.core.redaction import redact
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError, StoreError
from agentnb.experiments.results.experiment_folder import NO_ROOM, Records
from agentnb.experiments.results.rows import Row
from agentnb.experiments.search.candidates import Proposal
from agentnb.experiments.search.search_budget import BudgetReached
from agentnb.guidance.sets import GuidanceSet
from agentnb.models.model import Model
from agentnb.runtime.budget import Budget
from agentnb.runtime.host.run_options import RunOptions
from agentnb.store.store import Store

FILE = "proposals.jsonl"
MAX_EXAMPLES, MAX_PROMPT, MAX_ANSWER = 6, 1_500, 600
"""Maximum number of runs that a proposer sees, and of characters of each prompt and answer."""


class Example(msgspec.Struct, frozen=True):
    """Run of the best candidate so far on a task of the search."""

    task: str
    prompt: str
    value: float | None
    """Value of the primary, or None if unknown."""
    ended: str
    """Status of the run, or the reason why it was cut short."""
    calls: tuple[str, ...] = ()
    """Names of the called tools."""
    answer: str = ""


class Trial(msgspec.Struct, frozen=True):
    """Proposal with its result on the tasks of the search."""

    proposal: Proposal | None
    """None if the proposer made no proposal."""
    accepted: bool
    why: str
    candidate: str = ""
    """Name of the guidance set; empty without a candidate."""
    difference: float | None = None
    """Candidate minus the best before it, by task, at the last look: selected, therefore not an estimate of the gain."""


class ProposalRequest(msgspec.Struct, frozen=True):
    """Input of a proposer."""

    guidance: GuidanceSet
    """Best set so far."""
    examples: tuple[Example, ...]
    tried: tuple[Trial, ...]


class Proposed(msgspec.Struct, frozen=True, omit_defaults=True):
    """Output of a proposer."""

    proposal: Proposal | None
    why: str = ""
    """Reason for a missing proposal."""
    cost: float | None = 0.0
    """US dollars, or None if unknown."""


class ProposalRecord(msgspec.Struct, frozen=True):
    """Line of the file of proposals."""

    place: int
    """Position from 0."""
    best: str
    """Version of the set that it changes."""
    made: Proposed


Proposer: TypeAlias = Callable[[ProposalRequest, float | None], Awaitable[Proposed]]
"""Makes a proposal; the number is its maximum cost in US dollars, None without a limit."""


@dataclass(slots=True)
class Proposals:
    """Proposals of a search in order: first those of its file, then new ones."""

    path: Path | None
    """None for memory only."""
    make: Proposer
    _known: dict[int, ProposalRecord] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            for line in self.path.read_bytes().split(b"\n"):
                with suppress(ValueError):  # blank or truncated
                    record = msgspec.json.decode(line, type=ProposalRecord)
                    self._known[record.place] = record

    @property
    def cost(self) -> float:
        """US dollars of all proposals, as far as known."""
        return sum(record.made.cost or 0.0 for record in self._known.values())

    async def get(self, place: int, request: Callable[[], ProposalRequest], best: str, limit: float | None) -> Proposed:
        """Return the proposal at this position; make and store it unless the file has one for the same set.

        Raises `BudgetReached` if the limit leaves nothing for a new one.
        """
        record = self._known.get(place)
        if record is None or record.best != best:
            if limit is not None and limit <= 0:
                raise BudgetReached
            record = ProposalRecord(place, best, await self.make(request(), limit))
            if self.path is not None:
                _append(self.path, msgspec.json.encode(record))
            self._known[place] = record
        return record.made


def _append(path: Path, line: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(b"\n" + line + b"\n")  # ends a truncated line
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}", NO_ROOM) from error


def by_function(function: Callable[[ProposalRequest], Any]) -> Proposer:
    """Return the proposer of a function of the request, plain or async, that returns a `Proposal` or a mapping."""

    async def make(request: ProposalRequest, limit: float | None) -> Proposed:
        value = function(request)
        if inspect.isawaitable(value):
            value = await value
        if value is None:
            return Proposed(None, "nothing was proposed")
        try:
            return Proposed(msgspec.convert(msgspec.to_builtins(value), Proposal))
        except msgspec.ValidationError as error:
            raise SettingsError(
                f"propose= returned {value!r}: {error}", 'Return {"part": "todos_text", "line": "Call the tool now."}'
            ) from error

    return make


def proposer_agent(model: str | Model) -> Agent:
    """Return the agent that proposes."""
    system = files("agentnb.experiments.search").joinpath("propose.md").read_text(encoding="utf-8").strip()
    return Agent(model=model, system=system, guidance="off", output=Proposal, instructions=False, name="proposer")


def by_model(model: str | Model, store: Store | None, tags: Sequence[str]) -> Proposer:
    """Return the proposer of a language model, whose runs are stored."""
    agent = proposer_agent(model)

    async def make(request: ProposalRequest, limit: float | None) -> Proposed:
        options = RunOptions(store=store, show=False, tags=tuple(tags), can_ask=False, approve="never", budget=Budget(limit))
        run = await agent.run(_request_text(request), options)
        if isinstance(run.output, Proposal):
            return Proposed(run.output, cost=run.cost)
        return Proposed(None, f"the proposer ended without a proposal: {run.stop_reason or run.status}", run.cost)

    return make


def _request_text(request: ProposalRequest) -> str:
    """Return the request as one JSON object, so that no text of a run can end its block."""
    parts = {name: text for name, text in request.guidance.parts.items() if text}
    tried = [
        {**msgspec.to_builtins(trial.proposal), "accepted": trial.accepted, "why": trial.why}
        for trial in request.tried
        if trial.proposal is not None
    ]
    data = {"guidance": parts, "runs": msgspec.to_builtins(request.examples), "tried": tried}
    return f"```json\n{msgspec.json.encode(data).decode()}\n```"


def examples_of(rows: Iterable[Row], primary: str, prompts: dict[str, str], records: Records) -> tuple[Example, ...]:
    """Return the proposer's view of runs, the worst first."""
    ordered = sorted(rows, key=lambda row: (row.value(primary) is None, row.value(primary) or 0.0))
    return tuple(_example(row, primary, prompts[row.task], records) for row in ordered[:MAX_EXAMPLES])


def _example(row: Row, primary: str, prompt: str, records: Records) -> Example:
    run = _run_of(row, records)
    calls = () if run is None else tuple(record.call.name for round_ in run.rounds for record in round_.records)
    answer = "" if run is None else redact(run.text)[:MAX_ANSWER]
    return Example(row.task, redact(prompt)[:MAX_PROMPT], row.value(primary), row.reason or row.status, calls, answer)


def _run_of(row: Row, records: Records) -> Run | None:
    if not row.run_id:
        return None
    try:
        return records.run(row.run_id)
    except AgentnbError:  # its log is gone: the row has the end
        return None
