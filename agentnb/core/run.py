"""A run: the fold over its events.

`Run.apply` is the only thing that changes a Run, one event at a time; to everybody else it is read-only.
The live run, the one loaded from its log and the one folded from replayed events are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from agentnb.core import events as e
from agentnb.core.call_window import CallWindow
from agentnb.core.compaction import Compacted
from agentnb.core.counters import Counters
from agentnb.core.fold import HANDLERS
from agentnb.core.messages import Message, ToolResult
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.rounds import WorkflowRound
from agentnb.core.run_state import RunState
from agentnb.core.todos import Todo
from agentnb.core.usage import NOTHING_USED, Usage
from agentnb.core.view import View
from agentnb.errors import TraceError


class Run(RunState):
    """One run of an agent, as far as it has come."""

    __slots__ = ()

    @classmethod
    def from_events(cls, events: Iterable[e.AnyEvent]) -> Run:
        """The run these events make."""
        run = cls()
        for event in events:
            run.apply(event)
        return run

    @property
    def id(self) -> str:
        """Its name; begins with date and time, so that names sort by age."""
        return self._id

    @property
    def parent_id(self) -> str | None:
        """The run that started this one as a part of itself."""
        return self._parent_id

    @property
    def agent(self) -> str:
        """The name of the agent."""
        return self._agent

    @property
    def model(self) -> str:
        """The name of the model, ``provider:model``."""
        return self._model

    @property
    def system(self) -> str:
        """The system prompt."""
        return self._system

    @property
    def prompt(self) -> str:
        """What the person asked for."""
        return self._prompt

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools as the model was told of them."""
        return self._tools

    @property
    def settings(self) -> dict[str, Any]:
        """The agent's settings that decide the course of a run."""
        return dict(self._settings)

    @property
    def max_rounds(self) -> int | None:
        """How many rounds it may take."""
        return self._settings.get("max_rounds")

    @property
    def continued_from(self) -> str | None:
        """The id of the run whose conversation it goes on with."""
        return self._continued_from

    @property
    def inherited(self) -> int:
        """How many of its messages are that conversation's."""
        return self._inherited

    @property
    def events(self) -> View[e.AnyEvent]:
        """All events so far."""
        return self._views.events

    @property
    def messages(self) -> View[Message]:
        """The conversation: what is stored, without what was only said in passing."""
        return self._views.messages

    @property
    def pending(self) -> View[Message]:
        """What the person has said that the model has not been sent yet."""
        return self._views.pending

    @property
    def rounds(self) -> View[WorkflowRound]:
        """One record a turn of the loop, the failed ones included."""
        return self._views.rounds

    @property
    def todos(self) -> tuple[Todo, ...]:
        """The todo list as it was last seen, in its order."""
        return self._todos

    @property
    def carried_todos(self) -> tuple[Todo, ...]:
        """The conversation's list, if this run keeps none and only hands it on."""
        return self._carried_todos

    @property
    def conversation_todos(self) -> tuple[Todo, ...]:
        """The list that the next run of the conversation goes on with."""
        return self._todos or self._carried_todos

    @property
    def has_unseen_todos(self) -> bool:
        """Whether others have changed the list, or hung it before the run, and the model has not been sent that yet."""
        return self._todos_unseen

    @property
    def counters(self) -> Counters:
        """What is counted for policies: to be read only."""
        return self._counters

    @property
    def calls(self) -> CallWindow:
        """The last calls, for whoever looks for repeats: to be read only."""
        return self._calls

    @property
    def loops(self) -> View[e.LoopDetected]:
        """Where it was found to repeat itself."""
        return View(self._loops)

    @property
    def usage(self) -> Usage:
        """Tokens and money of all its model calls."""
        return NOTHING_USED if self._usage is None else self._usage

    @property
    def cost(self) -> float | None:
        """US dollars, None when the price of any call is unknown."""
        return self.usage.cost

    @property
    def spent(self) -> float:
        """US dollars for those of its model calls of which the price is known."""
        return self._counters.spent

    @property
    def calls_made(self) -> int:
        """Tool calls that were let run so far."""
        return self._counters.calls

    @property
    def calls_this_turn(self) -> int:
        """Of these, those since the person last spoke."""
        return self._counters.calls_this_turn

    @property
    def compacted(self) -> Compacted | None:
        """How its conversation is sent now, if it was compacted."""
        return self._compacted

    @property
    def times_recovered(self) -> int:
        """How often another process went on with it, after one had died."""
        return self._counters.times_recovered

    @property
    def status(self) -> e.Status:
        """running, waiting_on_user, completed, limited, stopped, cancelled, interrupted or failed."""
        return self._status

    @property
    def waiting(self) -> tuple[WaitingOnUser, ...]:
        """The questions that are open, oldest first: while there is one the run is ``waiting_on_user``.

        A run whose process died keeps those that it died with; one that came to an end has none.
        """
        return self._waiting

    @property
    def stop_reason(self) -> str | None:
        """Why it ended: natural, max_rounds, cancelled, error and so on; None while it runs."""
        return self._stop_reason

    @property
    def error(self) -> e.RunError | None:
        """What went wrong, if it failed."""
        return self._error

    @property
    def limit(self) -> e.LimitReached | None:
        """The limit that ended it, if one did."""
        return self._limit

    @property
    def warnings(self) -> View[str]:
        """What the person should know, in order."""
        return View(self._warnings)

    @property
    def text(self) -> str:
        """The last words of the model."""
        return self._text

    @property
    def started_at(self) -> datetime | None:
        """When it began, UTC."""
        return self._started_at

    @property
    def ended_at(self) -> datetime | None:
        """When it ended, UTC."""
        return self._ended_at

    @property
    def seconds(self) -> float:
        """How long it took; 0 until it has ended."""
        return self._seconds

    @property
    def should_continue(self) -> bool:
        """Whether it has not ended yet."""
        return self._status in ("running", "waiting_on_user")

    @property
    def last_round(self) -> WorkflowRound:
        """The newest round, open or finished; IndexError before there is one."""
        return self._rounds[-1]

    @property
    def last_finished_round(self) -> WorkflowRound | None:
        """The round before the open one; between rounds the last."""
        rounds = self._rounds
        if not rounds:
            return None
        if rounds[-1].status != "running":
            return rounds[-1]
        return rounds[-2] if len(rounds) > 1 else None

    @property
    def round_number(self) -> int:
        """The number of the open round, counted from 1; between rounds that of the next."""
        rounds = self._rounds
        return len(rounds) + (not rounds or rounds[-1].status != "running")

    @property
    def last_round_had_tool_results(self) -> bool:
        """Whether the round before the open one (or the last, between rounds) ran tools."""
        last = self.last_finished_round
        return last is not None and bool(last.records)

    @property
    def is_answered(self) -> bool:
        """Whether it has come to an answer: its last round is words alone, and nothing cut it short; or the model was asked for
        what it had when a limit was reached.
        """
        if not self._rounds or self._rounds[-1].records:
            return False
        return self._status == "completed" or (
            self._status == "limited" and self._rounds[-1].is_final and bool(self._rounds[-1].text.strip())
        )

    @property
    def open_round(self) -> WorkflowRound | None:
        """The round that is going on, if any."""
        last = self._rounds[-1] if self._rounds else None
        return last if last is not None and last.status == "running" else None

    def has_call_id(self, call_id: str) -> bool:
        """Whether a call of this conversation already has this id."""
        return call_id in self._results

    def result_of(self, call_id: str) -> ToolResult | None:
        """The answer to this call of the conversation; None if there is none, or no such call."""
        return self._results.get(call_id)

    def apply(self, event: e.AnyEvent) -> None:
        """Take in the next event. Only the log does this."""
        if event.seq != len(self._events):
            raise TraceError(f"Event {event.seq} of run {event.run_id} came where {len(self._events)} was due")
        HANDLERS[type(event)](self, event)
        self._events.append(event)

    def mark_interrupted(self) -> None:
        """Say of a run loaded from a log without an end that its process died."""
        if self.should_continue:
            self._status = "interrupted"
            self._stop_reason = "interrupted"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Run):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in RunState.__slots__ if name != "_views")

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        why = f", {self._stop_reason}" if self._stop_reason else ""
        count = len(self._rounds)
        return f"<Run {self._id} {self._status}{why}, {count} round{'' if count == 1 else 's'}>"
