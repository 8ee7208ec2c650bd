"""Proposals of a search, made by a model or a function. Each is stored before it is tried, and so is paid for only once."""

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
"""Maximum number of runs that a proposer sees, and maximum characters of each prompt and answer."""


class Example(msgspec.Struct, frozen=True):
    """A run of the best candidate so far on a task of the search."""

    task: str
    prompt: str
    value: float | None
    """The value of the primary, or None if unknown."""
    ended: str
    """The status of the run, or why it was cut short."""
    calls: tuple[str, ...] = ()
    """Names of the tools that were called."""
    answer: str = ""


class Trial(msgspec.Struct, frozen=True):
    """A proposal and its result on the tasks of the search."""

    proposal: Proposal | None
    """The proposal, or None if the proposer made none."""
    accepted: bool
    why: str
    candidate: str = ""
    """Name of the guidance set; empty if there is no candidate."""
    difference: float | None = None
    """Candidate minus the previous best, by task, at the last look. Used for selection, so it does not estimate the gain."""


class ProposalRequest(msgspec.Struct, frozen=True):
    """The input of a proposer."""

    guidance: GuidanceSet
    """The best set so far."""
    examples: tuple[Example, ...]
    tried: tuple[Trial, ...]


class Proposed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The output of a proposer."""

    proposal: Proposal | None
    why: str = ""
    """Why there is no proposal."""
    cost: float | None = 0.0
    """US dollars, or None if unknown."""


class ProposalRecord(msgspec.Struct, frozen=True):
    """A line in the file of proposals."""

    place: int
    """Position from 0."""
    best: str
    """Version of the set that the proposal changes."""
    made: Proposed


Proposer: TypeAlias = Callable[[ProposalRequest, float | None], Awaitable[Proposed]]
"""Makes a proposal. The number is the maximum cost in US dollars, or None for no limit."""


@dataclass(slots=True)
class Proposals:
    """The proposals of a search in order: first those in its file, then new ones."""

    path: Path | None
    """Path of the file, or None to keep proposals in memory only."""
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
        """US dollars spent on all proposals, as far as is known."""
        return sum(record.made.cost or 0.0 for record in self._known.values())

    async def get(self, place: int, request: Callable[[], ProposalRequest], best: str, limit: float | None) -> Proposed:
        """Return the proposal at this position; make and store it now unless the file has one for the same set.

        Raises `BudgetReached` if the limit leaves nothing for a new proposal.
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
    """Return a proposer that calls a plain or async function of the request, which returns a `Proposal` or a mapping."""

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
    """Return a proposer that asks a language model and stores its runs."""
    agent = proposer_agent(model)

    async def make(request: ProposalRequest, limit: float | None) -> Proposed:
        options = RunOptions(store=store, show=False, tags=tuple(tags), can_ask=False, approve="never", budget=Budget(limit))
        run = await agent.run(_request_text(request), options)
        if isinstance(run.output, Proposal):
            return Proposed(run.output, cost=run.cost)
        return Proposed(None, f"the proposer ended without a proposal: {run.stop_reason or run.status}", run.cost)

    return make


def _request_text(request: ProposalRequest) -> str:
    """Return the request as a single JSON object, so that text from a run cannot end its block."""
    parts = {name: text for name, text in request.guidance.parts.items() if text}
    tried = [
        {**msgspec.to_builtins(trial.proposal), "accepted": trial.accepted, "why": trial.why}
        for trial in request.tried
        if trial.proposal is not None
    ]
    data = {"guidance": parts, "runs": msgspec.to_builtins(request.examples), "tried": tried}
    return f"```json\n{msgspec.json.encode(data).decode()}\n```"


def examples_of(rows: Iterable[Row], primary: str, prompts: dict[str, str], records: Records) -> tuple[Example, ...]:
    """Return the proposer's view of runs, worst first."""
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
