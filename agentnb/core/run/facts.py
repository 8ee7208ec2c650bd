"""The facts of a run: its state, changed only by the fold (`agentnb.core.run.fold`), and read access for other code.

`agentnb.detect.run.Run`, the run that users hold, adds the interpretation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from agentnb.advice import Invocation
from agentnb.core.compaction_records import Compacted
from agentnb.core.guidance import GuidanceTexts
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.outcome import Assessment, Outcome, Source, deciding_assessment, with_threshold
from agentnb.core.messages import JsonObject, Message, ToolResult, join_parts
from agentnb.core.questions import AskedQuestion, WaitingOnUser
from agentnb.core.request import ToolRole, ToolSpec, role_of
from agentnb.core.run.agent_state import AgentState, AgentStateMachine, PlanPosition
from agentnb.core.run.call_window import CallWindow
from agentnb.core.run.counters import Counters
from agentnb.core.run.rounds import BROKEN_OFF, WorkflowRound
from agentnb.core.run.run_output import Output, answer_of, logged_schema, read_output
from agentnb.core.run.step_outputs import StepOutputs, as_text
from agentnb.core.run.work_records import PlanRecord, StepCall, StepRecord, progress_of
from agentnb.core.todos import Todo
from agentnb.core.usage import NOTHING_USED, UNKNOWN, NestedTotals, NestedUsage, Usage
from agentnb.core.view import View

_NOT_STARTED = e.RunStarted(seq=0, at=None, run_id="", schema=e.SCHEMA, prompt=Message("user", ()), agent="", model="")


def _read(path: str, doc: str) -> Any:
    """Return a read-only attribute for this path of the run, typed by its annotation."""
    return property(attrgetter(path), doc=doc)


class _Views(msgspec.Struct, gc=False):
    """Read-only views of a run's lists, created once because the loop uses them constantly."""

    events: View[e.AnyEvent]
    messages: View[Message]
    pending: View[Message]
    rounds: View[WorkflowRound]


class RunFacts:
    """The facts of a run up to its latest event."""

    # Lists that usually remain empty start as tuples: the garbage collector visits each list and set of every open run.

    __slots__ = (
        *("_opening", "_prompt", "_tools", "_roles", "_settings", "_guidance", "_given_guidance", "_inherited", "_output_type"),
        *("_events", "_messages", "_pending", "_rounds", "_last_round", "_views", "_call_places", "_inner_places", "_results"),
        *("_max_rounds", "_compacted", "_streamed", "_recovered", "_todos", "_carried_todos", "_todos_done", "_todos_unseen"),
        *("_counters", "_calls", "_loops", "_usage", "_nested", "_text", "_warned"),
        *("_status", "_paused", "_suspended", "_waiting", "_questions", "_grants"),
        *("_stop_reason", "_error", "_failed_at", "_limit", "_started_at", "_ended_at", "_seconds"),
        *("_steps", "_outputs", "_result", "_step_calls", "_open_step_calls", "_back_edges", "_variables"),
        *("_plans", "_model_calls", "_findings", "_drawn", "_context_type", "_contexts", "_entity", "_assessments", "_labels"),
        *("_threshold", "_agent_states"),
    )

    def __init__(self) -> None:
        self._opening = _NOT_STARTED
        self._start_settings()
        self._start_conversation()
        self._start_course()
        self._start_work()

    def _start_settings(self) -> None:
        self._tools: tuple[ToolSpec, ...] = ()
        self._roles: dict[str, ToolRole] = {}
        """Role of each tool."""
        self._settings: JsonObject = {}
        self._max_rounds: int | None = None
        self._guidance = self._given_guidance = GuidanceTexts()
        self._prompt = self._context_type = self._entity = ""
        self._contexts: tuple[str, ...] = ()
        self._output_type: Callable[[Any], Any] | None = None
        """Constructor of the agent's type: stored in no event, and without effect on the equality of runs."""

    def _start_conversation(self) -> None:
        self._events: list[e.AnyEvent] = []
        self._messages: list[Message] = []
        self._pending: list[Message] = []
        self._rounds: list[WorkflowRound] = []
        self._last_round: WorkflowRound  # the last of these, if any
        self._views = _Views(View(self._events), View(self._messages), View(self._pending), View(self._rounds))
        self._inherited = 0
        self._call_places: dict[str, int] = {}
        self._inner_places: dict[str, tuple[int, ...]] = {}
        """Positions of the records of the last reply's calls, and of inner calls, by call id."""
        self._results: dict[str, ToolResult | None] = {}
        """Result of each call in the conversation, or None if it has none yet."""
        self._compacted: Compacted | None = None
        self._streamed: Sequence[e.ReplyStreamed] = ()
        """The logged parts of an incomplete streamed reply."""
        self._text = ""
        self._todos: tuple[Todo, ...] = ()
        self._carried_todos: tuple[Todo, ...] = ()
        self._todos_done: set[tuple[int, str]] | None = None
        self._todos_unseen = False

    def _start_course(self) -> None:
        self._recovered = False  # resumed by another process, no round begun since
        self._counters = Counters()
        self._calls = CallWindow()
        self._loops: Sequence[e.LoopDetected] = ()
        self._usage: Usage | None = None  # of the run's own model calls
        self._nested = NestedTotals()
        self._status: e.Status = "running"
        self._agent_states = AgentStateMachine()
        self._paused = self._suspended = False
        self._waiting: dict[str, int] = {}  # positions of the open questions in `_questions`, by id, oldest first
        self._questions: list[AskedQuestion] = []
        self._grants: dict[str, w.GrantGiven] = {}
        """The grants in force, by id."""
        self._warned: Sequence[e.Warned] = ()
        self._stop_reason: str | None = None
        self._error: e.RunError | None = None
        self._failed_at = ""
        self._limit: e.LimitReached | None = None
        self._started_at: datetime | None = None
        self._ended_at: datetime | None = None
        self._seconds: float | None = 0.0

    def _start_work(self) -> None:
        self._steps: dict[str, StepRecord] = {}
        self._outputs = StepOutputs()
        self._result: w.ResultGiven | None = None
        """The named result of a workflow; None until it is produced, and for all other runs."""
        self._step_calls: list[StepCall] = []
        self._open_step_calls: dict[str, tuple[int, ...]] = {}
        """Positions of the step calls without a result, and of the calls made by their tools, by id."""
        self._back_edges: dict[str, int] = {}
        self._variables: JsonObject = {}
        self._plans: dict[str, PlanRecord] = {}
        self._model_calls: Sequence[w.ModelCalled] = ()
        self._findings: Sequence[w.FindingMade] = ()
        self._drawn: w.GuidanceDrawn | None = None
        self._assessments: tuple[Assessment, ...] = ()
        self._labels: tuple[Assessment, ...] = ()
        """Manual assessments, stored beside the log; they do not affect the equality of runs."""
        self._threshold: float | None = None
        """The minimum recorded score to pass, if chosen by the reader of the run."""

    # Initial state

    opening: e.RunStarted = _read("_opening", "The first event.")
    id: str = _read("_opening.run_id", "The run's id. It begins with the date and time, so that ids sort by age.")
    parent_id: str | None = _read("_opening.parent_id", "Id of the parent run, if this is a nested run.")
    kind: str = _read("_opening.run_kind", "Kind of run: agent, workflow, plan, judge, or an extension's own.")
    tags: tuple[str, ...] = _read("_opening.tags", "Free-form labels for finding the run.")
    origin: e.Origin | None = _read("_opening.origin", "The source of a run recorded by another product.")
    forked_from: e.ForkedFrom | None = _read("_opening.forked_from", "The run and round that it was forked from, if any.")
    agent: str = _read("_opening.agent", "The name of the agent.")
    model: str = _read("_opening.model", "The name of the model, ``provider:model``.")
    system: str = _read("_opening.system", "The system prompt.")
    prompt: str = _read("_prompt", "The person's prompt.")
    continued_from: str | None = _read("_opening.continued_from", "Id of the run whose conversation this run continues.")
    inherited: int = _read("_inherited", "Number of messages from the continued conversation.")
    tools: tuple[ToolSpec, ...] = _read("_tools", "The tools as the model sees them.")

    @property
    def guidance(self) -> Mapping[str, str]:
        """Text of the guidance set in force, by part; empty for runs of older versions and if guidance is off."""
        return MappingProxyType(self._guidance.texts)

    guidance_in_force: GuidanceTexts = _read(
        "_guidance", "The current guidance set: the initial one, or one drawn or set since."
    )
    given_guidance: GuidanceTexts = _read(
        "_given_guidance", "The guidance set at the start or at the last recovery, before any draw."
    )
    invocation: Invocation | None = _read(
        "_opening.invocation", "Options of the cell or command that started the run, or None for Python."
    )

    @property
    def profile(self) -> str:
        """The profile that selects its model: speed, balanced or quality; empty outside of contexts."""
        return str(self._settings.get("profile") or "")

    context_type: str = _read("_context_type", "The context type, if any.")
    contexts: tuple[str, ...] = _read("_contexts", "All context types so far, in order.")
    first_entity: str = _read("_opening.entity", "Id of the entity at the start.")
    entity: str = _read("_entity", "Id of the entity, such as a project.")

    @property
    def conversation(self) -> str:
        """Id of the first run of the conversation, possibly this run."""
        return self._opening.conversation or self._opening.run_id

    @property
    def settings(self) -> JsonObject:
        """The agent's settings that affect the course of the run."""
        return dict(self._settings)

    max_rounds: int | None = _read("_max_rounds", "Maximum number of rounds.")

    # Conversation and progress

    events: View[e.AnyEvent] = _read("_views.events", "All events so far.")
    messages: View[Message] = _read("_views.messages", "The stored conversation, without ephemeral text.")
    pending: View[Message] = _read("_views.pending", "Messages from the person not yet sent to the model.")
    rounds: View[WorkflowRound] = _read("_views.rounds", "All rounds, including failed ones.")
    todos: tuple[Todo, ...] = _read("_todos", "The latest todo list, in order.")
    carried_todos: tuple[Todo, ...] = _read("_carried_todos", "The conversation's todo list, if this run only passes it on.")
    has_unseen_todos: bool = _read(
        "_todos_unseen",
        "True if the list was changed from outside or set before the run, and the model has not seen it yet.",
    )
    calls: CallWindow = _read("_calls", "The latest tool calls, for detecting repeats; read-only.")

    @property
    def loops(self) -> View[e.LoopDetected]:
        """The detected loops: ranges of rounds that repeat each other."""
        return View(self._loops)

    compacted: Compacted | None = _read("_compacted", "The current compaction of the conversation, if any.")
    status: e.Status = _read(
        "_status",
        "running, waiting_on_user, completed, limited, stopped, cancelled, interrupted, unknown or failed.",
    )
    is_suspended: bool = _read("_suspended", "True if it waits for an answer without a process; `recover` resumes it.")

    @property
    def agent_state(self) -> AgentState | None:
        """The agent's state: thinking, executing_tool, executing_plan or waiting_on_user.

        ``None`` before the first round or step, and after a run that ended without text for the person.
        """
        return self._agent_states.state if self._status != "interrupted" else None

    @property
    def plan_position(self) -> PlanPosition | None:
        """Progress of the running plan, or None if no plan is running.

        Holds the number of the current step, from 1, and the total number of steps.
        """
        return self._agent_states.position

    stop_reason: str | None = _read(
        "_stop_reason", "Why the run ended: natural, max_rounds, cancelled, error and so on; None while it runs."
    )
    error: e.RunError | None = _read("_error", "The error, if the run failed.")
    failed_at: str = _read("_failed_at", "The part whose error ended the run: model, store, reply or agentnb; else empty.")
    limit: e.LimitReached | None = _read("_limit", "The limit that ended the run, if any.")

    @property
    def warnings(self) -> View[str]:
        """Warnings to the person, in order."""
        return View([str(warned) for warned in self._warned])

    @property
    def warned(self) -> View[e.Warned]:
        """The warnings as events, with their advice as values."""
        return View(self._warned)

    @property
    def questions(self) -> View[AskedQuestion]:
        """All questions to the person with their answers, oldest first."""
        return View(self._questions)

    started_at: datetime | None = _read("_started_at", "Start time, UTC.")
    ended_at: datetime | None = _read("_ended_at", "End time, UTC.")
    seconds: float | None = _read("_seconds", "Duration of the run in seconds; 0 until it has ended, None if unknown.")

    # Outcome

    @property
    def assessments(self) -> View[Assessment]:
        """All assessments of the outcome, by the trace, expectations and labels. `assessment` is the decisive one."""
        return View(self._given_assessments)

    @property
    def assessment(self) -> Assessment | None:
        """The assessment that decides the outcome, or None."""
        return deciding_assessment(self._given_assessments)

    @property
    def _given_assessments(self) -> list[Assessment]:
        threshold = self._threshold
        recorded = (
            self._assessments
            if threshold is None
            else [with_threshold(assessment, threshold) for assessment in self._assessments]
        )
        return [*recorded, *self._labels]

    @property
    def outcome(self) -> Outcome:
        """Success at the task: passed, failed or unknown. Never derived from the status."""
        assessment = self.assessment
        return "unknown" if assessment is None else assessment.outcome

    @property
    def score(self) -> float | None:
        """The score that decides the outcome, such as a reward, or None."""
        assessment = self.assessment
        return None if assessment is None else assessment.score

    @property
    def outcome_from(self) -> Source | None:
        """Source of the outcome: trace, expectation or label, in ascending priority, or None."""
        assessment = self.assessment
        return None if assessment is None else assessment.source

    def set_labels(self, labels: Iterable[Assessment]) -> None:
        """Replace the manual assessments. Called only by readers of labels."""
        self._labels = tuple(labels)

    def set_threshold(self, threshold: float) -> None:
        """Set the minimum recorded score to pass. Called only by readers of traces."""
        self._threshold = threshold

    @property
    def waiting(self) -> tuple[WaitingOnUser, ...]:
        """The open questions, oldest first; while there are any, the run is ``waiting_on_user``.

        A run whose process died keeps its open questions; a finished run has none.
        """
        positions = [*self._waiting.values()]  # a copy: another thread may fold the next event meanwhile
        return tuple([self._questions[position].question for position in positions])

    def questions_of(self, index: int) -> list[AskedQuestion]:
        """Return the questions asked in the round with this index, oldest first."""
        # From the end: a live card requests the last round many times a second.
        later = takewhile(lambda asked: asked.round >= index, reversed(self._questions))
        return [asked for asked in later if asked.round == index][::-1]

    @property
    def grants(self) -> View[w.GrantGiven]:
        """The grants in force, oldest first; they allow calls without a question."""
        return View([*self._grants.values()])

    @property
    def has_grants(self) -> bool:
        """True if grants are in force."""
        return bool(self._grants)

    @property
    def conversation_todos(self) -> tuple[Todo, ...]:
        """The todo list for the next run of the conversation."""
        return self._todos or self._carried_todos

    @property
    def should_continue(self) -> bool:
        """True until the run has ended."""
        return self._status in ("running", "waiting_on_user")

    last_round: WorkflowRound = _read("_last_round", "The newest round, open or finished; AttributeError before the first.")

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
    def streamed_reply(self) -> tuple[Message, JsonObject] | None:
        """The logged part of an incomplete reply, and its metadata, or None."""
        if not self._streamed:
            return None
        parts = join_parts(part for event in self._streamed for part in event.parts)
        return Message("assistant", parts), {name: value for event in self._streamed for name, value in event.metadata.items()}

    @property
    def open_round(self) -> WorkflowRound | None:
        """The round that is running, if any."""
        rounds = self._rounds
        return rounds[-1] if rounds and rounds[-1].status == "running" else None

    @property
    def round_number(self) -> int:
        """Number of the open round, from 1; between rounds, of the next round."""
        rounds = self._rounds
        return len(rounds) + (not rounds or rounds[-1].status != "running")

    has_call_id: Callable[[str], bool] = _read(
        "_results.__contains__", "Return True if a call of this conversation already has this id."
    )
    place_of_call: Callable[[str], int | None] = _read(
        "_call_places.get", "Return the position of a call in the reply of the newest round, or None for any other call."
    )
    result_of: Callable[[str], ToolResult | None] = _read(
        "_results.get", "Return the result of this call of the conversation, or None without a result or such a call."
    )

    # Usage

    counters: Counters = _read("_counters", "Counts of calls and spending; read-only.")
    failed_calls: int = _read("_counters.failed_calls", "Number of tool calls, by the model and by steps, that failed.")
    blocked_calls: int = _read("_counters.blocked_calls", "Number of calls refused by a gate, a limit or the person.")
    calls_made: int = _read("_counters.calls", "Number of tool calls admitted so far.")
    calls_this_turn: int = _read("_counters.calls_this_turn", "Number of tool calls admitted since the person last spoke.")
    times_recovered: int = _read("_counters.times_recovered", "Number of times another process resumed the run.")
    own_spent: float = _read(
        "_counters.spent", "US dollars for the run's own model calls with a known price, without nested runs."
    )
    usage_inside: Usage | None = _read("_nested.usage", "Tokens and cost of all nested runs, or None if they called no model.")

    @property
    def nested_usage(self) -> Mapping[str, NestedUsage]:
        """Usage of each nested run, at any depth, by its id.

        The empty id holds the total dollars logged by earlier versions.
        """
        return MappingProxyType(self._nested.by_run)

    @property
    def model_calls(self) -> View[w.ModelCalled]:
        """Model calls outside the rounds, such as those of a planner or a judge."""
        return View(self._model_calls)

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all model calls, including nested runs."""
        nested_usage = self._nested.usage
        if nested_usage is None:
            return NOTHING_USED if self._usage is None else self._usage
        return nested_usage if self._usage is None else self._usage + nested_usage

    @property
    def own_usage(self) -> Usage:
        """Tokens and cost of the run's own model calls, excluding nested runs."""
        return NOTHING_USED if self._usage is None else self._usage

    cost: float | None = _read(
        "usage.cost", "US dollars including nested runs, or None if the price of any model call is unknown."
    )

    own_cost: float | None = _read(
        "own_usage.cost",
        "US dollars of the run's own model calls, without nested runs, or None if the price of any is unknown.",
    )

    @property
    def spent(self) -> float:
        """US dollars for model calls with a known price, including nested runs."""
        return self._counters.spent + self._counters.spent_inside

    # Steps, plans and findings

    @property
    def step_records(self) -> Mapping[str, StepRecord]:
        """The current state of each step, by path."""
        return MappingProxyType(self._steps)

    @property
    def step_calls(self) -> View[StepCall]:
        """Tool calls of steps in order of their start; calls of the model are in the rounds."""
        return View(self._step_calls)

    steps: Mapping[str, JsonObject] = _read(
        "_outputs.steps", 'Outputs of a workflow\'s steps: ``run.steps["par"]["outputs"]["gen_1"]["output"]``.'
    )

    @property
    def back_edges(self) -> Mapping[str, int]:
        """Number of times each jump back to an earlier step was taken, by ``from -> to``."""
        return MappingProxyType(self._back_edges)

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables of a task file: its initial ones, and those set by its tasks."""
        return MappingProxyType(self._variables)

    @property
    def plans(self) -> Mapping[str, PlanRecord]:
        """The current state of each plan, by id."""
        return MappingProxyType(self._plans)

    @property
    def is_plan_rejected(self) -> bool:
        """True if the last plan was rejected."""
        return bool(self._plans) and next(reversed(self._plans.values())).status == "rejected"

    @property
    def findings(self) -> View[w.FindingMade]:
        """Findings of detectors during the run."""
        return View(self._findings)

    drawn: w.GuidanceDrawn | None = _read("_drawn", "The last draw of a guidance set, with its propensity, or None.")

    def open_step_call(self, call_id: str) -> StepCall | None:
        """Return the step call with this id if it has no result, or None."""
        path = self._open_step_calls.get(call_id, ())
        return self._step_calls[path[0]] if len(path) == 1 else None

    @property
    def step_count(self) -> int:
        """Number of steps that began or were skipped, including those in blocks, excluding jumps."""
        return sum(record.kind != "goto" for record in self._steps.values())

    @property
    def substitutes(self) -> int:
        """Number of steps that failed and used a substitute."""
        return sum(record.is_substituted for record in self._steps.values())

    def open_outputs(self, block: str) -> Mapping[str, JsonObject]:
        """Return the outputs of an open block's children so far, by id; empty for a finished block."""
        return self._outputs.inside(block)

    @property
    def step_context(self) -> JsonObject:
        """A copy of the step outputs as plain data: ``steps`` by id, and the ``order`` in which they were first completed."""
        return self._outputs.snapshot()

    @property
    def progress(self) -> e.Progress | None:
        """Number of finished steps out of those known so far, and titles of the open steps; None if there are no steps."""
        return progress_of(self._steps.values())

    # Answer

    @property
    def text(self) -> str:
        """The model's last text; for a workflow, its named result or the output of the step that ran last."""
        return self._text or self._text_of_work

    @property
    def _text_of_work(self) -> str:
        """The named result of a workflow, or the ``answer`` of a task file; otherwise the output of the last step."""
        if self._result is not None:
            return self._result.text or as_text(self._result.output)
        return as_text(self._variables.get("answer")) or self._outputs.text

    @property
    def output_schema(self) -> JsonObject | None:
        """The JSON Schema for the answer, or None for free text."""
        return logged_schema(self._settings)

    @property
    def output(self) -> Any:
        """The answer as data, if the agent has an ``output`` and the answer fits it; for a workflow, its ``output``; otherwise
        None.

        An instance of the agent's type if the run was started with it. A run read from its log has only the schema, and returns
        plain data: dicts, lists, strings and numbers.
        """
        output = self._plain_output
        if output.problems or self._output_type is None:
            return output.value
        try:
            return self._output_type(output.value)
        except (Exception, SystemExit):  # anything a validator raises: a final answer at a limit is not validated
            return None

    @property
    def plain_output(self) -> Any:
        """`output` as plain data, even if the run was started with the agent's type."""
        return self._plain_output.value

    @property
    def _plain_output(self) -> Output:
        """The output as plain data, or a problem if there is no output."""
        if self._result is not None:
            return Output(self._result.output)
        schema = self.output_schema
        if schema is None or not self.is_answered:
            return Output(problems=("it has no answer",))
        output = read_output(answer_of(self._rounds[-1], self._text), schema)
        return Output(problems=output.problems) if output.problems else output

    @property
    def is_answered(self) -> bool:
        """True if the run has an answer.

        Either it completed with a text-only reply that was not cut short, or the model gave a final answer at a limit. For a
        trace without a recorded end, a text-only last reply is the answer. A run in steps has an answer if it completed and a
        step produced output.
        """
        if not self._rounds:
            return self._status == "completed" and bool(self._text_of_work)
        if not all(record.is_server_side for record in self._rounds[-1].records):
            return False
        return self._status in ("completed", "unknown") or (
            self._status == "limited" and self._rounds[-1].is_final and bool(self._rounds[-1].text.strip())
        )

    def read_output_as(self, output_type: Callable[[Any], Any] | None) -> None:
        """Make `output` construct this type from the plain data."""
        self._output_type = output_type

    # For the fold and the interpretation

    def mark_interrupted(self) -> None:
        """Mark the run as interrupted: its log has no end because its process died. A suspended run remains waiting."""
        if self.should_continue and not self._suspended:
            self._status = "interrupted"
            self._stop_reason = "interrupted"
            if (streamed := self.streamed_reply) is not None:
                reply, metadata = streamed
                self._messages.append(reply)
                self._text = reply.text or self._text
                details: Any = {"metadata": metadata, "stop_reason": BROKEN_OFF, "usage": UNKNOWN, "model_seconds": None}
                self._rounds[-1] = self._last_round = replace(self._rounds[-1], reply=reply, **details)
            self._close_conversation()

    def _close_conversation(self) -> None:
        """Add the messages still pending at the end: the results of an open round, then messages from the person."""
        current = self.open_round
        if current is not None and current.results:
            self._messages.append(Message("tool", current.results))
        self._messages.extend(self._pending)
        self._pending.clear()

    def _use(self, usage: Usage) -> None:
        """Add the usage of a model call, unless another product's trace reports the usage of the entire run."""
        origin = self._opening.origin
        if origin is not None and origin.usage is not None:
            return
        self._usage = usage if self._usage is None else self._usage + usage
        self._counters.spent += usage.cost or 0.0

    def _use_inside(self, run_id: str, nested: NestedUsage) -> None:
        """Add the usage of a nested run."""
        self._nested.add(run_id, nested)
        self._counters.spent_inside += nested.spent

    def role_of(self, name: str) -> ToolRole:
        """Return the role of the tool with this name."""
        return self._roles.get(name) or role_of(name)

    def annotate(self, **changes: Any) -> None:
        """Set the interpretation of the last round; only the fold changes its facts."""
        self._rounds[-1] = self._last_round = replace(self._rounds[-1], **changes)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        reason = f", {self._stop_reason}" if self._stop_reason else ""
        steps = self._steps
        count, word = (len(self._rounds), "round") if self._rounds or not steps else (len(steps), "step")
        return f"<Run {self._opening.run_id} {self._status}{reason}, {count} {word}{'' if count == 1 else 's'}>"
