"""The facts of a run: its state, which only the fold changes (`agentnb.core.run.fold`), and what other code reads of it.

`agentnb.detect.run.Run`, the run that users hold, adds what the facts mean.
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
from agentnb.core.compaction import Compacted
from agentnb.core.guidance import GuidanceTexts
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.outcome import Assessment, Outcome, Source, deciding, with_threshold
from agentnb.core.messages import Message, ToolResult, joined
from agentnb.core.questions import AskedQuestion, WaitingOnUser
from agentnb.core.request import ToolRole, ToolSpec, role_of
from agentnb.core.run.agent_state import AgentState, AgentStateMachine, PlanPosition
from agentnb.core.run.call_window import CallWindow
from agentnb.core.run.counters import Counters
from agentnb.core.run.output import Output, answer_of, logged_schema, read_output
from agentnb.core.run.rounds import BROKEN_OFF, WorkflowRound
from agentnb.core.run.step_outputs import StepOutputs, as_text
from agentnb.core.run.work_records import PlanRecord, StepCall, StepRecord, progress_of
from agentnb.core.todos import Todo
from agentnb.core.usage import NOTHING_USED, UNKNOWN, NestedTotals, NestedUsage, Usage
from agentnb.core.view import View

_NOT_STARTED = e.RunStarted(seq=0, at=None, run_id="", schema=e.SCHEMA, prompt=Message("user", ()), agent="", model="")


def _read(path: str, doc: str) -> Any:
    """Return a read-only attribute: what is at this path of the run. Its type is that of the annotation."""
    return property(attrgetter(path), doc=doc)


class _Views(msgspec.Struct, gc=False):
    """Read-only views of a run's lists, made once because the loop uses them all the time."""

    events: View[e.AnyEvent]
    messages: View[Message]
    pending: View[Message]
    rounds: View[WorkflowRound]


class RunFacts:
    """One run, up to its latest event, as far as it is a matter of fact."""

    # Lists that most runs leave empty begin as tuples: the garbage collector visits each list and set of every open run.

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
        """What each tool is for."""
        self._settings: dict[str, Any] = {}
        self._max_rounds: int | None = None
        self._guidance = self._given_guidance = GuidanceTexts()
        self._prompt = self._context_type = self._entity = ""
        self._contexts: tuple[str, ...] = ()
        self._output_type: Callable[[Any], Any] | None = None
        """Makes an instance of the agent's type; no event says it, and two runs are equal whatever it is."""

    def _start_conversation(self) -> None:
        self._events: list[e.AnyEvent] = []
        self._messages: list[Message] = []
        self._pending: list[Message] = []
        self._rounds: list[WorkflowRound] = []
        self._last_round: WorkflowRound  # the last of these, once there is one
        self._views = _Views(View(self._events), View(self._messages), View(self._pending), View(self._rounds))
        self._inherited = 0
        self._call_places: dict[str, int] = {}
        self._inner_places: dict[str, tuple[int, ...]] = {}
        """Where the record of each call of the last reply, and of each inner call, is, by the call's id."""
        self._results: dict[str, ToolResult | None] = {}
        """The result of each call of the conversation; None while there is none."""
        self._compacted: Compacted | None = None
        self._streamed: Sequence[e.ReplyStreamed] = ()
        """What has streamed of a reply that is not whole yet, as far as the log has it."""
        self._text = ""
        self._todos: tuple[Todo, ...] = ()
        self._carried_todos: tuple[Todo, ...] = ()
        self._todos_done: set[tuple[int, str]] | None = None
        self._todos_unseen = False

    def _start_course(self) -> None:
        self._recovered = False  # whether another process has resumed the run and has not begun a round yet
        self._counters = Counters()
        self._calls = CallWindow()
        self._loops: Sequence[e.LoopDetected] = ()
        self._usage: Usage | None = None  # of its own model calls
        self._nested = NestedTotals()
        self._status: e.Status = "running"
        self._agent_states = AgentStateMachine()
        self._paused = self._suspended = False
        self._waiting: dict[str, int] = {}  # the places of the open questions in `_questions`, by id, oldest first
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
        """The result of a workflow that names one; None until then, and for all others."""
        self._step_calls: list[StepCall] = []
        self._open_step_calls: dict[str, tuple[int, ...]] = {}
        """Places of the calls of steps without a result and, behind these, of the calls that their tools made, by id."""
        self._back_edges: dict[str, int] = {}
        self._variables: dict[str, Any] = {}
        self._plans: dict[str, PlanRecord] = {}
        self._model_calls: Sequence[w.ModelCalled] = ()
        self._findings: Sequence[w.FindingMade] = ()
        self._drawn: w.GuidanceDrawn | None = None
        self._assessments: tuple[Assessment, ...] = ()
        self._labels: tuple[Assessment, ...] = ()
        """Those by hand, which are kept beside the log; two runs are equal whatever they are."""
        self._threshold: float | None = None
        """The least recorded score that passes, if the reader of the run chose one."""

    # What it began with

    opening: e.RunStarted = _read("_opening", "The event with which it began.")
    id: str = _read("_opening.run_id", "The name of the run; it begins with date and time, so that names sort by age.")
    parent_id: str | None = _read("_opening.parent_id", "Id of the parent run, if this is a nested run.")
    kind: str = _read("_opening.run_kind", "What kind of run it is: agent, workflow, plan, judge, or a word of an extension.")
    tags: tuple[str, ...] = _read("_opening.tags", "Free words by which you find it again.")
    origin: e.Origin | None = _read("_opening.origin", "Where it was read from, if another product recorded it.")
    forked_from: e.ForkedFrom | None = _read("_opening.forked_from", "The run and round that it was forked from, if it was.")
    agent: str = _read("_opening.agent", "The name of the agent.")
    model: str = _read("_opening.model", "The name of the model, ``provider:model``.")
    system: str = _read("_opening.system", "The system prompt.")
    prompt: str = _read("_prompt", "The person's prompt.")
    continued_from: str | None = _read("_opening.continued_from", "Id of the run whose conversation this one continues.")
    inherited: int = _read("_inherited", "Number of messages inherited from that conversation.")
    tools: tuple[ToolSpec, ...] = _read("_tools", "The tools as the model sees them.")

    @property
    def guidance(self) -> Mapping[str, str]:
        """The texts of the guidance set in force by part; empty for runs of older versions, and with guidance off."""
        return MappingProxyType(self._guidance.texts)

    guidance_in_force: GuidanceTexts = _read(
        "_guidance", "The guidance set in force: that of the start, or the one that was drawn or given since."
    )
    given_guidance: GuidanceTexts = _read(
        "_given_guidance", "The guidance set that the run was started or last resumed with, before any draw."
    )
    invocation: Invocation | None = _read(
        "_opening.invocation", "The options of the cell or command that started it; None if Python code did."
    )

    @property
    def profile(self) -> str:
        """The profile whose model it uses: speed, balanced or quality; empty outside of contexts."""
        return str(self._settings.get("profile") or "")

    context_type: str = _read("_context_type", "The kind of task that it works on, if that was named.")
    contexts: tuple[str, ...] = _read("_contexts", "The kinds of task that it has worked on, in order.")
    first_entity: str = _read("_opening.entity", "Id of the thing that it worked on when it began.")
    entity: str = _read("_entity", "Id of the thing that it works on, such as a project.")

    @property
    def conversation(self) -> str:
        """Id of the first run of its conversation, which may be this one."""
        return self._opening.conversation or self._opening.run_id

    @property
    def settings(self) -> dict[str, Any]:
        """The agent's settings that affect the course of a run."""
        return dict(self._settings)

    max_rounds: int | None = _read("_max_rounds", "Maximum number of rounds.")

    # Its conversation and its course

    events: View[e.AnyEvent] = _read("_views.events", "All events so far.")
    messages: View[Message] = _read("_views.messages", "The stored conversation, without ephemeral text.")
    pending: View[Message] = _read("_views.pending", "Messages of the person that have not been sent to the model yet.")
    rounds: View[WorkflowRound] = _read("_views.rounds", "All rounds, including failed ones.")
    todos: tuple[Todo, ...] = _read("_todos", "The todo list as it was last seen, in its order.")
    carried_todos: tuple[Todo, ...] = _read(
        "_carried_todos", "The conversation's todo list, if this run keeps none and only passes it on."
    )
    has_unseen_todos: bool = _read(
        "_todos_unseen",
        "Whether the list was changed from outside, or set before the run, and not sent to the model yet.",
    )
    calls: CallWindow = _read("_calls", "The last tool calls, for finding repeats; do not change them.")

    @property
    def loops(self) -> View[e.LoopDetected]:
        """The loops that were found: where the run repeats itself."""
        return View(self._loops)

    compacted: Compacted | None = _read("_compacted", "How the conversation is sent now, if it was compacted.")
    status: e.Status = _read(
        "_status",
        "running, waiting_on_user, completed, limited, stopped, cancelled, interrupted, unknown or failed.",
    )
    is_suspended: bool = _read("_suspended", "Whether it waits for an answer without a process: `recover` resumes it.")

    @property
    def agent_state(self) -> AgentState | None:
        """thinking, executing_tool, executing_plan or waiting_on_user.

        None before its first round or step, and when it has ended without words for the person.
        """
        return self._agent_states.state if self._status != "interrupted" else None

    @property
    def plan_position(self) -> PlanPosition | None:
        """How far the running plan has come, or None without one.

        That is the number of its current step, from 1, and that of all its steps.
        """
        return self._agent_states.position

    stop_reason: str | None = _read(
        "_stop_reason", "Why the run ended: natural, max_rounds, cancelled, error and so on; None while it runs."
    )
    error: e.RunError | None = _read("_error", "What went wrong, if the run failed.")
    failed_at: str = _read("_failed_at", "What failed when an error ended the run: model, store, reply or agentnb; else empty.")
    limit: e.LimitReached | None = _read("_limit", "The limit that ended the run, if one did.")

    @property
    def warnings(self) -> View[str]:
        """Warnings to the person, in order."""
        return View([str(warned) for warned in self._warned])

    @property
    def warned(self) -> View[e.Warned]:
        """The same as events, with their advice as values."""
        return View(self._warned)

    @property
    def questions(self) -> View[AskedQuestion]:
        """All questions to the person, oldest first, with their answers."""
        return View(self._questions)

    started_at: datetime | None = _read("_started_at", "When the run began, UTC.")
    ended_at: datetime | None = _read("_ended_at", "When the run ended, UTC.")
    seconds: float | None = _read("_seconds", "Seconds the run took; 0 until it has ended, None where that is unknown.")

    # Its outcome

    @property
    def assessments(self) -> View[Assessment]:
        """What was said of its outcome: by its trace, by expectations, by labels. All are kept, `assessment` counts."""
        return View(self._given_assessments)

    @property
    def assessment(self) -> Assessment | None:
        """The assessment that decides the outcome; None without any."""
        return deciding(self._given_assessments)

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
        """Whether it did what it should: passed, failed or unknown. It is never guessed from the status."""
        assessment = self.assessment
        return "unknown" if assessment is None else assessment.outcome

    @property
    def score(self) -> float | None:
        """The score that decides the outcome, such as a reward; None without one."""
        assessment = self.assessment
        return None if assessment is None else assessment.score

    @property
    def outcome_from(self) -> Source | None:
        """What the outcome comes from: trace, expectation or label, of which a later one wins; None if nothing says it."""
        assessment = self.assessment
        return None if assessment is None else assessment.source

    def set_labels(self, labels: Iterable[Assessment]) -> None:
        """Set what was said of the outcome by hand, in place of what was set before. Only readers of labels call this."""
        self._labels = tuple(labels)

    def set_threshold(self, threshold: float) -> None:
        """Set the least recorded score that passes. Only readers of traces call this."""
        self._threshold = threshold

    @property
    def waiting(self) -> tuple[WaitingOnUser, ...]:
        """The open questions, oldest first: while there is one, the run is ``waiting_on_user``.

        A run whose process died keeps its open questions; a run that has ended has none.
        """
        positions = [*self._waiting.values()]  # at once: another thread may fold the next event meanwhile
        return tuple([self._questions[position].question for position in positions])

    def questions_of(self, index: int) -> list[AskedQuestion]:
        """Return the questions that were asked in the round with this index, oldest first."""
        # From the end: a live card asks for the last round many times a second.
        later = takewhile(lambda one: one.round >= index, reversed(self._questions))
        return [one for one in later if one.round == index][::-1]

    @property
    def grants(self) -> View[w.GrantGiven]:
        """The grants in force: the calls that are allowed without a question, oldest first."""
        return View([*self._grants.values()])

    @property
    def has_grants(self) -> bool:
        """Whether grants are in force."""
        return bool(self._grants)

    def has_grant(self, tool: str) -> bool:
        """Return whether a grant allows all calls of this tool."""
        return any(grant.tool == tool and not grant.rule for grant in self._grants.values())

    @property
    def conversation_todos(self) -> tuple[Todo, ...]:
        """The todo list that the next run of the conversation continues."""
        return self._todos or self._carried_todos

    @property
    def should_continue(self) -> bool:
        """Whether the run has not ended yet."""
        return self._status in ("running", "waiting_on_user")

    last_round: WorkflowRound = _read("_last_round", "The newest round, open or finished; AttributeError before there is one.")

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
    def streamed_reply(self) -> tuple[Message, dict[str, Any]] | None:
        """The logged part of a reply that is not whole yet, and its metadata; None without any."""
        if not self._streamed:
            return None
        parts = joined(part for event in self._streamed for part in event.parts)
        return Message("assistant", parts), {name: value for event in self._streamed for name, value in event.metadata.items()}

    @property
    def open_round(self) -> WorkflowRound | None:
        """The round that is running, if any."""
        rounds = self._rounds
        return rounds[-1] if rounds and rounds[-1].status == "running" else None

    @property
    def round_number(self) -> int:
        """The number of the open round, counted from 1; between rounds, of the next one."""
        rounds = self._rounds
        return len(rounds) + (not rounds or rounds[-1].status != "running")

    has_call_id: Callable[[str], bool] = _read(
        "_results.__contains__", "Return whether a call of this conversation already has this id."
    )
    place_of_call: Callable[[str], int | None] = _read(
        "_call_places.get", "Return the place of a call in the reply of the newest round; None for any other call."
    )
    result_of: Callable[[str], ToolResult | None] = _read(
        "_results.get", "Return the result of this call of the conversation; None if there is no result, or no such call."
    )

    # What it used

    counters: Counters = _read("_counters", "What was called and spent; do not change it.")
    failed_calls: int = _read("_counters.failed_calls", "Number of calls of the model and of steps that failed.")
    blocked_calls: int = _read("_counters.blocked_calls", "Number of such calls that a gate, a limit or the person refused.")
    calls_made: int = _read("_counters.calls", "Number of tool calls admitted so far.")
    calls_this_turn: int = _read("_counters.calls_this_turn", "Number of tool calls admitted since the person last spoke.")
    times_recovered: int = _read("_counters.times_recovered", "How often another process resumed the run after one had died.")
    own_spent: float = _read("_counters.spent", "US dollars for its own model calls with a known price, without nested runs.")
    usage_inside: Usage | None = _read(
        "_nested.usage", "Tokens and cost of all nested runs; None if no model was called in one."
    )

    @property
    def nested_usage(self) -> Mapping[str, NestedUsage]:
        """Usage of each nested run, at any depth, by its id.

        The empty id has dollars that earlier versions logged together.
        """
        return MappingProxyType(self._nested.by_run)

    @property
    def model_calls(self) -> View[w.ModelCalled]:
        """The model calls besides those of the rounds, such as those of a planner or a judge."""
        return View(self._model_calls)

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

    cost: float | None = _read(
        "usage.cost", "US dollars, those of nested runs included; None if the price of any model call is unknown."
    )

    own_cost: float | None = _read(
        "own_usage.cost",
        "US dollars of its own model calls, without nested runs; None if the price of any is unknown.",
    )

    @property
    def spent(self) -> float:
        """US dollars for the model calls with a known price, those of nested runs included."""
        return self._counters.spent + self._counters.spent_inside

    # Its steps, plans and findings

    @property
    def step_records(self) -> Mapping[str, StepRecord]:
        """The steps by path, each as it stands."""
        return MappingProxyType(self._steps)

    @property
    def step_calls(self) -> View[StepCall]:
        """The tool calls of steps, in the order in which they began; those that a model made are in the rounds."""
        return View(self._step_calls)

    steps: Mapping[str, dict[str, Any]] = _read(
        "_outputs.steps", 'What the steps of a workflow gave: ``run.steps["par"]["outputs"]["gen_1"]["output"]``.'
    )

    @property
    def back_edges(self) -> Mapping[str, int]:
        """How often each way back to an earlier step was taken, as ``from -> to``."""
        return MappingProxyType(self._back_edges)

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables of a task file: those that it began with, and those that its tasks have set since."""
        return MappingProxyType(self._variables)

    @property
    def plans(self) -> Mapping[str, PlanRecord]:
        """The plans by id, each as it stands."""
        return MappingProxyType(self._plans)

    @property
    def is_plan_rejected(self) -> bool:
        """Whether its last plan was rejected."""
        return bool(self._plans) and next(reversed(self._plans.values())).status == "rejected"

    @property
    def findings(self) -> View[w.FindingMade]:
        """What detectors found while it ran."""
        return View(self._findings)

    drawn: w.GuidanceDrawn | None = _read("_drawn", "The last draw of a guidance set, with its propensity; None without one.")

    def open_step_call(self, call_id: str) -> StepCall | None:
        """Return the call of a step with this id that has no result; None if there is none."""
        path = self._open_step_calls.get(call_id, ())
        return self._step_calls[path[0]] if len(path) == 1 else None

    @property
    def step_count(self) -> int:
        """How many steps began or were skipped, those in blocks included; jumps are none."""
        return sum(record.kind != "goto" for record in self._steps.values())

    def open_outputs(self, block: str) -> Mapping[str, dict[str, Any]]:
        """Return what the children of a block that is open gave so far, by id; nothing of one that is over."""
        return self._outputs.inside(block)

    @property
    def step_context(self) -> dict[str, Any]:
        """A copy of what the steps gave, as plain data: ``steps`` by id, and the ``order`` in which they first completed."""
        return self._outputs.snapshot()

    @property
    def progress(self) -> e.Progress | None:
        """How many of the steps known so far are over, and the titles of those that are open; None without steps."""
        return progress_of(self._steps.values())

    # Its answer

    @property
    def text(self) -> str:
        """The last text of the model; of a workflow, the result that it names, or the output of the step that ran last."""
        return self._text or self._text_of_work

    @property
    def _text_of_work(self) -> str:
        """The result that a workflow names, or the ``answer`` of a task file; else the output of the last step."""
        if self._result is not None:
            return self._result.text or as_text(self._result.output)
        return as_text(self._variables.get("answer")) or self._outputs.text

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
        output = self._plain_output
        if output.problems or self._output_type is None:
            return output.value
        try:
            return self._output_type(output.value)
        except (Exception, SystemExit):  # whatever a validator raises: a final answer at a limit is not checked
            return None

    @property
    def plain_output(self) -> Any:
        """`output` as plain data, also in a run that was started with the agent's type."""
        return self._plain_output.value

    @property
    def _plain_output(self) -> Output:
        """The output as plain data; without a value, but with a problem, if there is none."""
        if self._result is not None:
            return Output(self._result.output)
        schema = self.output_schema
        if schema is None or not self.is_answered:
            return Output(problems=("it has no answer",))
        output = read_output(answer_of(self._rounds[-1], self._text), schema)
        return Output(problems=output.problems) if output.problems else output

    @property
    def is_answered(self) -> bool:
        """Whether the run has an answer.

        Either it completed with a text-only reply that was not cut short, or the model gave a final answer at a limit. A trace
        that does not record its end has one if its last reply is text only. A run in steps has one if it completed and a step
        gave something.
        """
        if not self._rounds:
            return self._status == "completed" and bool(self._text_of_work)
        if not all(record.is_server_side for record in self._rounds[-1].records):
            return False
        return self._status in ("completed", "unknown") or (
            self._status == "limited" and self._rounds[-1].is_final and bool(self._rounds[-1].text.strip())
        )

    def read_output_as(self, output_type: Callable[[Any], Any] | None) -> None:
        """Have `output` make an instance of a type from the plain data."""
        self._output_type = output_type

    # For the fold and the judgements

    def mark_interrupted(self) -> None:
        """Mark the run as interrupted: its log has no end, because its process died. A suspended run is left waiting."""
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
        """Add the messages that no further round will: the results of an open round, then pending messages of the person."""
        current = self.open_round
        if current is not None and current.results:
            self._messages.append(Message("tool", current.results))
        self._messages.extend(self._pending)
        self._pending.clear()

    def _use(self, usage: Usage) -> None:
        """Add the usage of a model call, unless a foreign trace reports that of the whole run."""
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
        """Return what the tool of this name is for."""
        return self._roles.get(name) or role_of(name)

    def annotate(self, **changes: Any) -> None:
        """Note what is judged about the last round; its facts only the fold changes."""
        self._rounds[-1] = self._last_round = replace(self._rounds[-1], **changes)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        why = f", {self._stop_reason}" if self._stop_reason else ""
        steps = self._steps
        count, word = (len(self._rounds), "round") if self._rounds or not steps else (len(steps), "step")
        return f"<Run {self._opening.run_id} {self._status}{why}, {count} {word}{'' if count == 1 else 's'}>"
