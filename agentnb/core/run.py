"""The facts of a run: the fold over its events.

Only `RunFacts.apply` changes them, one event at a time; for all other code they are read-only. `agentnb.detect.run.Run` adds
what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import takewhile
from types import MappingProxyType
from typing import Any, Self

from agentnb.core import events as e
from agentnb.core.call_window import CallWindow
from agentnb.core.compaction import Compacted
from agentnb.core.counters import Counters
from agentnb.core.fold import HANDLERS, close_conversation
from agentnb.core.messages import Message, ToolResult
from agentnb.core.output import answer_of, logged_schema, read_output
from agentnb.core.questions import AskedQuestion, WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.rounds import WorkflowRound
from agentnb.core.todos import Todo
from agentnb.core.usage import NOTHING_USED, NestedUsage, Usage
from agentnb.core.view import View
from agentnb.core.work_facts import WorkFacts
from agentnb.errors import TraceError


class RunFacts(WorkFacts):
    """One run, up to its latest event, as far as it is a matter of fact."""

    __slots__ = ("_output_type",)

    def __init__(self) -> None:
        super().__init__()
        self._output_type: Callable[[Any], Any] | None = None
        """Makes an instance of the agent's type; no event says it, and two runs are equal whatever it is."""

    @classmethod
    def from_events(cls, events: Iterable[e.AnyEvent]) -> Self:
        """Return the run that these events make."""
        run = cls()
        for event in events:
            run.apply(event)
        return run

    @property
    def id(self) -> str:
        """The name of the run; it begins with date and time, so that names sort by age."""
        return self._id

    @property
    def parent_id(self) -> str | None:
        """Id of the parent run, if this is a nested run."""
        return self._parent_id

    @property
    def kind(self) -> str:
        """What kind of run it is: agent, workflow, plan, judge, or a word of an extension."""
        return "agent" if self._opening is None else self._opening.run_kind

    @property
    def tags(self) -> tuple[str, ...]:
        """Free words by which you find it again."""
        return () if self._opening is None else self._opening.tags

    @property
    def origin(self) -> e.Origin | None:
        """Where it was read from, if another product recorded it."""
        return None if self._opening is None else self._opening.origin

    @property
    def forked_from(self) -> e.ForkedFrom | None:
        """The run and the round that it was forked from, if it was."""
        return None if self._opening is None else self._opening.forked_from

    @property
    def conversation(self) -> str:
        """Id of the first run of its conversation, which may be this one."""
        return self._id if self._opening is None else self._opening.conversation or self._id

    @property
    def guidance(self) -> Mapping[str, str]:
        """The texts of its guidance set by part; empty for runs of older versions, and with guidance off."""
        return MappingProxyType({} if self._opening is None else self._opening.guidance)

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
        """The person's prompt."""
        return self._prompt

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them."""
        return self._tools

    @property
    def settings(self) -> dict[str, Any]:
        """The agent's settings that affect the course of a run."""
        return dict(self._settings)

    @property
    def max_rounds(self) -> int | None:
        """Maximum number of rounds."""
        return self._settings.get("max_rounds")

    @property
    def continued_from(self) -> str | None:
        """Id of the run whose conversation this one continues."""
        return self._continued_from

    @property
    def inherited(self) -> int:
        """Number of messages inherited from that conversation."""
        return self._inherited

    @property
    def events(self) -> View[e.AnyEvent]:
        """All events so far."""
        return self._views.events

    @property
    def messages(self) -> View[Message]:
        """The stored conversation, without ephemeral text."""
        return self._views.messages

    @property
    def pending(self) -> View[Message]:
        """Messages of the person that have not been sent to the model yet."""
        return self._views.pending

    @property
    def rounds(self) -> View[WorkflowRound]:
        """All rounds, including failed ones."""
        return self._views.rounds

    @property
    def todos(self) -> tuple[Todo, ...]:
        """The todo list as it was last seen, in its order."""
        return self._todos

    @property
    def carried_todos(self) -> tuple[Todo, ...]:
        """The conversation's todo list, if this run keeps none and only passes it on."""
        return self._carried_todos

    @property
    def conversation_todos(self) -> tuple[Todo, ...]:
        """The todo list that the next run of the conversation continues."""
        return self._todos or self._carried_todos

    @property
    def has_unseen_todos(self) -> bool:
        """Whether the list was changed from outside, or set before the run, and the model has not been sent it yet."""
        return self._todos_unseen

    @property
    def counters(self) -> Counters:
        """What was called and spent; do not change it."""
        return self._counters

    @property
    def calls(self) -> CallWindow:
        """The last tool calls, for finding repeats; do not change them."""
        return self._calls

    @property
    def loops(self) -> View[e.LoopDetected]:
        """The loops that were found: where the run repeats itself."""
        return View(self._loops)

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all model calls, those of nested runs included."""
        inside = self._nested.usage
        if inside is None:
            return NOTHING_USED if self._usage is None else self._usage
        return inside if self._usage is None else self._usage + inside

    @property
    def own_usage(self) -> Usage:
        """Tokens and cost of its own model calls, without those of nested runs."""
        return NOTHING_USED if self._usage is None else self._usage

    @property
    def usage_inside(self) -> Usage | None:
        """Tokens and cost of all nested runs; None if no model was called in one."""
        return self._nested.usage

    @property
    def nested_usage(self) -> Mapping[str, NestedUsage]:
        """Usage of each nested run, at any depth, by its id; the empty id has dollars that earlier versions logged together."""
        return MappingProxyType(self._nested.by_run)

    @property
    def cost(self) -> float | None:
        """US dollars, those of nested runs included; None if the price of any model call is unknown."""
        return self.usage.cost

    @property
    def own_cost(self) -> float | None:
        """US dollars of its own model calls, without nested runs; None if the price of any is unknown."""
        return self.own_usage.cost

    @property
    def spent(self) -> float:
        """US dollars for the model calls with a known price, those of nested runs included."""
        return self._counters.spent + self._counters.spent_inside

    @property
    def own_spent(self) -> float:
        """US dollars for its own model calls with a known price, without nested runs."""
        return self._counters.spent

    @property
    def calls_made(self) -> int:
        """Number of tool calls admitted so far."""
        return self._counters.calls

    @property
    def calls_this_turn(self) -> int:
        """Number of tool calls admitted since the person last spoke."""
        return self._counters.calls_this_turn

    @property
    def compacted(self) -> Compacted | None:
        """How the conversation is sent now, if it was compacted."""
        return self._compacted

    @property
    def times_recovered(self) -> int:
        """How often another process resumed the run after one had died."""
        return self._counters.times_recovered

    @property
    def status(self) -> e.Status:
        """running, waiting_on_user, completed, limited, stopped, cancelled, interrupted, unknown or failed."""
        return self._status

    @property
    def waiting(self) -> tuple[WaitingOnUser, ...]:
        """The open questions, oldest first: while there is one, the run is ``waiting_on_user``.

        A run whose process died keeps its open questions; a run that has ended has none.
        """
        places = [*self._waiting.values()]  # at once: another thread may fold the next event meanwhile
        return tuple([self._questions[place].question for place in places])

    @property
    def questions(self) -> View[AskedQuestion]:
        """All questions to the person, oldest first, with their answers."""
        return View(self._questions)

    def questions_of(self, index: int) -> list[AskedQuestion]:
        """Return the questions that were asked in the round with this index, oldest first."""
        # From the end: a live card asks for the last round many times a second.
        later = takewhile(lambda one: one.round >= index, reversed(self._questions))
        return [one for one in later if one.round == index][::-1]

    @property
    def is_suspended(self) -> bool:
        """Whether it waits for an answer without a process: `recover` resumes it."""
        return self._suspended

    @property
    def stop_reason(self) -> str | None:
        """Why the run ended: natural, max_rounds, cancelled, error and so on; None while it runs."""
        return self._stop_reason

    @property
    def error(self) -> e.RunError | None:
        """What went wrong, if the run failed."""
        return self._error

    @property
    def limit(self) -> e.LimitReached | None:
        """The limit that ended the run, if one did."""
        return self._limit

    @property
    def warnings(self) -> View[str]:
        """Warnings to the person, in order."""
        return View([str(warned) for warned in self._warned])

    @property
    def warned(self) -> View[e.Warned]:
        """Return the same as events, with their advice as values."""
        return View(self._warned)

    @property
    def text(self) -> str:
        """The last text of the model; of a workflow, the result that it names, or the output of the step that ran last."""
        return self._text or self._work.text

    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON Schema that the answer is held to; None if it is free text."""
        return logged_schema(self._settings)

    @property
    def output(self) -> Any:
        """The answer as data, if the agent has an ``output`` and the answer fits it; of a workflow its ``output``; else None.

        An instance of the agent's type in a run that was started with it. A run from its log knows only the schema, and gives
        plain data: dicts, lists, texts and numbers.
        """
        if self._work.result is not None:
            return self._work.result.output
        schema = self.output_schema
        if schema is None or not self.is_answered:
            return None
        found = read_output(answer_of(self._rounds[-1], self._text), schema)
        if found.problems or self._output_type is None:
            return None if found.problems else found.value
        try:
            return self._output_type(found.value)
        except (Exception, SystemExit):  # whatever a validator raises: a final answer at a limit is not checked
            return None

    @property
    def started_at(self) -> datetime | None:
        """When the run began, UTC."""
        return self._started_at

    @property
    def ended_at(self) -> datetime | None:
        """When the run ended, UTC."""
        return self._ended_at

    @property
    def seconds(self) -> float | None:
        """Seconds the run took; 0 until it has ended, None where that is unknown."""
        return self._seconds

    @property
    def should_continue(self) -> bool:
        """Whether the run has not ended yet."""
        return self._status in ("running", "waiting_on_user")

    @property
    def last_round(self) -> WorkflowRound:
        """The newest round, open or finished; IndexError before there is one."""
        return self._rounds[-1]

    @property
    def last_finished_round(self) -> WorkflowRound | None:
        """The round before the open one; between rounds, the last one."""
        rounds = self._rounds
        if not rounds:
            return None
        if rounds[-1].status != "running":
            return rounds[-1]
        return rounds[-2] if len(rounds) > 1 else None

    @property
    def round_number(self) -> int:
        """The number of the open round, counted from 1; between rounds, of the next one."""
        rounds = self._rounds
        return len(rounds) + (not rounds or rounds[-1].status != "running")

    @property
    def last_round_had_tool_results(self) -> bool:
        """Whether the round before the open one (or the last, between rounds) ran tools."""
        last = self.last_finished_round
        return last is not None and last.records != ()

    @property
    def is_answered(self) -> bool:
        """Whether the run has an answer.

        Either it completed with a text-only reply that was not cut short, or the model gave a final answer at a limit. A trace
        that does not record its end has one if its last reply is text only. A run in steps has one if it completed and a step
        gave something.
        """
        if not self._rounds:
            return self._status == "completed" and bool(self._work.text)
        if not all(record.is_server_side for record in self._rounds[-1].records):
            return False
        return self._status in ("completed", "unknown") or (
            self._status == "limited" and self._rounds[-1].is_final and bool(self._rounds[-1].text.strip())
        )

    @property
    def open_round(self) -> WorkflowRound | None:
        """The round that is running, if any."""
        rounds = self._rounds
        return rounds[-1] if rounds and rounds[-1].status == "running" else None

    def has_call_id(self, call_id: str) -> bool:
        """Return whether a call of this conversation already has this id."""
        return call_id in self._results

    def result_of(self, call_id: str) -> ToolResult | None:
        """Return the result of this call of the conversation; None if there is no result, or no such call."""
        return self._results.get(call_id)

    def apply(self, event: e.AnyEvent) -> None:
        """Take in the next event. Only the log does this."""
        if event.seq != len(self._events):
            raise self.out_of_order(event)
        HANDLERS[type(event)](self, event)
        self._events.append(event)

    def out_of_order(self, event: e.AnyEvent) -> TraceError:
        """Return the error for an event that is not the next."""
        return TraceError(f"Event {event.seq} of run {event.run_id} came where {len(self._events)} was due")

    def read_output_as(self, output_type: Callable[[Any], Any] | None) -> None:
        """Have `output` make an instance of a type from the plain data."""
        self._output_type = output_type

    def mark_interrupted(self) -> None:
        """Mark a run as interrupted: its log has no end, because its process died. A suspended run is left waiting."""
        if self.should_continue and not self._suspended:
            self._status = "interrupted"
            self._stop_reason = "interrupted"
            close_conversation(self)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        why = f", {self._stop_reason}" if self._stop_reason else ""
        steps = self._work.steps
        count, word = (len(self._rounds), "round") if self._rounds or not steps else (len(steps), "step")
        return f"<Run {self._id} {self._status}{why}, {count} {word}{'' if count == 1 else 's'}>"
