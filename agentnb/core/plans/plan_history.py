"""The plans of a run in their order, with what became of each step: a fold over the log.

The steps of a plan have the same paths in the log as those of the plan before it: those that are logged belong to the plan that
their task executes, or else to the last plan that was proposed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.handlers import Handlers
from agentnb.core.plans.plan_steps import (
    ABORT,
    BLOCKED,
    CALL,
    DROPPED,
    KNOWN,
    NOOP,
    NOT_RUN,
    PASSED,
    PENDING,
    REPLYING,
    StepProgress,
    steps_of,
    text_of,
)
from agentnb.core.run.agent_state import EXECUTION as EXECUTION  # noqa: PLC0414  # handed on, beside PLANNING
from agentnb.core.run.agent_state import plan_step_number
from agentnb.core.run.rounds import DUPLICATE
from agentnb.core.run.work_records import StepRecord
from agentnb.core.usage import Usage

PLANNING = "llm/core:plan"
"""The action of task files that makes plans; `EXECUTION` runs them."""
GENERATION = "plan_generation"
"""The operation of a model call that makes a plan."""
DRAFT, REVIEWED = "draft_only", "pending_review"
"""How a plan is executed that waits for the person, and what it is until they have decided."""
REVIEW = "plan_review"
"""The kind of question that asks whether a plan may run."""

handles = Handlers()


class PlanProgress:
    """A plan of a run, with its progress."""

    def __init__(self, number: int, plan_id: str, plan: Mapping[str, Any]) -> None:
        self.number = number
        """From 1, in the order in which plans were made."""
        self.id = plan_id
        self.plan = plan
        self.steps = steps_of(plan, plan_id)
        self.context = ""
        """The scope in which it was made."""
        self.mode = ""
        self.call_id = ""
        """The tool call that asked for it, if one did."""
        self.edits = 0
        self.verdict = ""
        """The verdict of the last review."""
        self.is_rejected = False
        self.questions: tuple[str, ...] = ()
        """Ids of the questions that the plan itself asked."""
        self.review = ""
        """Id of the open question whether it may run; empty without one."""
        self.execution = ""
        """Path of the task that runs it; empty if none does."""
        self.status = ""
        """Of its execution: running, completed, failed or cancelled; empty while it has not begun."""
        self.error = ""
        self.made_at: datetime | None = None
        self.began_at: datetime | None = None
        self.ended_at: datetime | None = None
        self.calls = 0
        """Tool calls of its steps that began, further attempts included."""
        self.usages: list[Usage] = []
        """The usage of the model calls that made it, and of those of its steps."""
        self.changes = 0
        """Number of changes since it was made."""
        self._known: frozenset[str] = frozenset()

    @property
    def intention(self) -> str:
        """The purpose of the plan, in the planner's words."""
        return next((one for key in ("intention", "reasoning") if isinstance(one := self.plan.get(key), str) and one), "")

    @property
    def is_over(self) -> bool:
        """True if none of its steps will begin any more."""
        return self.is_rejected or self.status not in ("", "running")

    @property
    def asks(self) -> bool:
        """True if it asks the person before any step."""
        asked = self.plan.get("elicitation")
        return isinstance(asked, Mapping) and bool(asked)

    @property
    def outcome(self) -> str:
        """What became of it: pending, pending_review, executing, completed, failed, cancelled or declined."""
        is_refused = not self.status and self.verdict in ("rejected", "needs_changes")
        if self.is_rejected or is_refused:
            return "declined"
        if self.status:
            return "executing" if self.status == "running" else self.status
        if self.review or self.plan.get("execution_mode") == DRAFT:
            return REVIEWED
        has_steps = not isinstance(self.plan.get("steps"), list | tuple) or bool(self.steps)
        return PENDING if has_steps or self.asks else "completed"

    def edit(self, plan: Mapping[str, Any]) -> None:
        """Replace the plan before it runs."""
        self.plan, self.steps = plan, steps_of(plan, self.id)
        self.edits += 1
        self.changes += 1

    def change(self, number: int, **changed: Any) -> None:
        """Change a step."""
        self.changes += 1
        if number < len(self.steps):
            self.steps[number] = replace(self.steps[number], **changed)

    def begin(self, event: w.StepStarted) -> None:
        """Note that its execution began."""
        self.execution, self.status, self.ended_at, self.error = event.step, "running", None, ""
        self.began_at = self.began_at or event.at
        self._known = frozenset(_results(event.inputs))

    def reach(self, number: int) -> None:
        """Settle the steps before this one, which left nothing in the log."""
        for step in self.steps[:number]:
            if step.status == PENDING:
                self._settle(step)

    def end(self, event: w.StepFinished) -> None:
        """Note that its execution ended, and what its results say of steps that left nothing in the log."""
        self.status, self.error, self.ended_at = event.status, event.error, event.at
        if isinstance(event.output, Mapping) and "steps" in event.output:  # it ran as a run of its own
            self._take_summary(event.output)
            return
        results = _results(event.output)
        self.reach(self._reached(event, results))
        for place, step in enumerate([*self.steps]):
            if step.record is None and (found := results.get(step.id)) is not None:
                self.change(place, error=text_of(found.get("error")), result=found.get("result"))
            if step.status == PENDING:
                self._settle_rest(step)

    def _take_summary(self, output: Mapping[str, Any]) -> None:
        """Take what a run of its own says of the steps and their calls."""
        told = output["steps"] if isinstance(output["steps"], list | tuple) else ()
        for place, one in enumerate(told):
            if isinstance(one, Mapping):
                self.change(place, status=text_of(one.get("status")), error=text_of(one.get("error")))
        self.calls += output["calls"] if type(output.get("calls")) is int else 0

    def _reached(self, event: w.StepFinished, results: Mapping[str, Any]) -> int:
        """Return how many steps were reached before the plan ended; a question and an abort end it."""
        last = max((one.number for one in self.steps if one.record is not None), default=-1)
        reached = last + 1
        if self.asks or (last >= 0 and self.steps[last].asks):
            return reached
        for step in self.steps[reached:]:
            if step.written.kind == ABORT:
                reason = step.written.purpose
                has_failed = last >= 0 and self.steps[last].status == "failed"
                if event.status == "failed" and (event.error == reason or not (reason or has_failed)):
                    reached = step.number
                    self.change(step.number, status="failed", error=event.error)
                break
            if step.id in results:
                reached = step.number + 1
        return reached

    def _settle(self, step: StepProgress) -> None:
        if step.id in self._known:
            self.change(step.number, status=KNOWN)
        elif step.written.kind == NOOP:
            self.change(step.number, status=PASSED)
        elif step.same_as is not None:
            self.change(step.number, status=DROPPED)
        else:
            self.change(step.number, status="failed", error=step.written.problem or "")

    def _settle_rest(self, step: StepProgress) -> None:
        is_dropped = step.same_as is not None and self.steps[step.same_as].status != NOT_RUN
        self.change(step.number, status=DROPPED if is_dropped else PASSED if step.written.kind == NOOP else NOT_RUN)


class PlanHistory:
    """The plans of a run. Pass it each event."""

    def __init__(self, events: Iterable[e.AnyEvent] = ()) -> None:
        self.plans: list[PlanProgress] = []
        self.children: set[str] = set()
        """Paths of the steps that make plans, run their steps and ask their questions: `plans` shows them."""
        self._by_id: dict[str, PlanProgress] = {}
        self._tasks: dict[str, str] = {}
        """The actions of the tasks that plan and execute, by path."""
        self._running: dict[str, PlanProgress] = {}
        """The plan that each task executes, or has made last."""
        self._places: dict[str, tuple[PlanProgress, int]] = {}
        """The plan and step that each path stands for now; -1 for the plan itself."""
        self.questions: set[str] = set()
        """Ids of the questions that plans and their steps asked."""
        self._asked: dict[str, PlanProgress] = {}
        self._usages: list[Usage] = []
        self._mode = self._context = ""
        for event in events:
            self.take(event)

    def take(self, event: e.AnyEvent) -> None:
        """Record an event."""
        handler = handles.get(type(event))
        if handler is not None:
            handler(self, event)

    def _add(self, plan_id: str, plan: Mapping[str, Any]) -> PlanProgress:
        before = self._by_id.get(plan_id)
        number = len(self.plans) + 1 if before is None else before.number
        made = self._by_id[plan_id] = PlanProgress(number, plan_id, plan)
        self.plans[number - 1 :] = [made, *self.plans[number:]]
        made.context = self._context
        return made

    @handles
    def run_started(self, event: e.RunStarted) -> None:
        """Record the scope that the run began with."""
        self._context = event.context_type

    @handles
    def proposed(self, event: w.PlanProposed) -> None:
        """Add a plan, or replace the one with its id."""
        made = self._add(event.plan_id, event.plan)
        mode = self._mode or str(event.plan.get("execution_mode") or "")
        made.call_id, made.mode, made.usages = event.call_id, mode, self._usages
        made.made_at = event.at
        self._usages, self._mode = [], ""
        for path, action in self._tasks.items():
            if action == PLANNING:
                self._running[path] = made

    @handles
    def edited(self, event: w.PlanEdited) -> None:
        """Replace a plan that is not run yet."""
        if (plan := self._by_id.get(event.plan_id)) is not None:
            plan.edit(event.plan)

    @handles
    def rejected(self, event: w.PlanRejected) -> None:
        """Note that a plan will not run."""
        if (plan := self._by_id.get(event.plan_id)) is not None:
            plan.is_rejected = True
            for step in plan.steps:
                plan.change(step.number, status=NOT_RUN)
            plan.changes += 1

    @handles
    def reviewed(self, event: w.PlanReviewed) -> None:
        """Record a verdict."""
        if (plan := self._by_id.get(event.plan_id)) is not None:
            plan.verdict = event.verdict
            plan.changes += 1

    @handles
    def shifted(self, event: w.ContextShifted) -> None:
        """Record the scope for the plans to come."""
        self._context = event.context_type

    @handles
    def called(self, event: w.ModelCalled) -> None:
        """Record what a model call used: for the next plan, or for the plan that runs."""
        if event.operation == GENERATION:
            self._usages.append(event.usage)
            self._mode = event.execution_mode or self._mode
        elif (plan := self._open()) is not None:
            plan.usages.append(event.usage)

    @handles
    def spent(self, event: e.ExtraUsage) -> None:
        """Record what a run used that a step of a plan began."""
        if event.nested_run and (plan := self._open()) is not None:
            plan.usages.append(event.nested)

    def _open(self) -> PlanProgress | None:
        return next((one for one in reversed(self.plans[-1:]) if one.status == "running"), None)

    @handles
    def started(self, event: w.StepStarted) -> None:
        """Begin an execution, or a step of a plan."""
        path, block = event.step, event.step.rpartition("/")[0]
        if event.agent in (PLANNING, EXECUTION):
            self._tasks[path] = event.agent
            if event.agent == EXECUTION:
                self._begin(event)
            return
        if event.step_kind != CALL or block not in self._tasks:
            return
        self.children.add(path)
        plan, number = self._running.get(block), plan_step_number(path)
        if plan is None or path.rpartition("/")[2].startswith(REPLYING):
            return
        self._places[path] = plan, number
        plan.changes += 1
        if self._tasks[block] == PLANNING or number < 0:
            self._places[path] = plan, -1
            plan.status = "running"
            return
        before = plan.steps[number].record if number < len(plan.steps) else None
        times = (0 if before is None else before.times) + (event.attempt == 1)
        record = StepRecord(
            path, event.step_kind, event.title, event.parent, inputs=event.inputs, nested=event.nested, times=times,
            agent=event.agent, attempt=event.attempt, attempts=0 if before is None else before.attempts,
        )  # fmt: skip
        plan.reach(number)
        plan.change(number, status="running", record=record)

    def _begin(self, event: w.StepStarted) -> None:
        given = event.inputs.get("plan") if isinstance(event.inputs, Mapping) else None
        plan_id = str(given.get("id") or "") if isinstance(given, Mapping) else ""
        plan = self._by_id.get(plan_id) or (self.plans[-1] if self.plans and not plan_id else None)
        if plan is None and isinstance(given, Mapping):
            plan = self._add(plan_id, given)
        if plan is not None:
            self._running[event.step] = plan
            plan.begin(event)
            plan.changes += 1

    @handles
    def attempted(self, event: w.StepAttempted) -> None:
        """Record an attempt that failed."""
        plan, number, record = self._at(event.step)
        if plan is not None and record is not None:
            failed = replace(record, attempts=event.attempt, error=event.error)
            plan.change(number, record=failed, error=event.error)

    @handles
    def finished(self, event: w.StepFinished) -> None:
        """End a step, an execution, or the question of a plan."""
        if self._tasks.get(event.step) == EXECUTION:
            if (plan := self._running.pop(event.step, None)) is not None:
                plan.end(event)
                plan.changes += 1
            return
        plan, number, record = self._at(event.step)
        if plan is None:
            return
        plan.changes += 1
        if record is None:
            if number < 0 and self._tasks.get(event.step.rpartition("/")[0]) == PLANNING:
                plan.status, plan.error = event.status, event.error
                for step in plan.steps:
                    plan.change(step.number, status=NOT_RUN)
            return
        ended = replace(
            record, status=event.status, output=event.output, error=event.error, attempts=event.attempts, seconds=event.seconds
        )
        is_repeat = event.status == "failed" and DUPLICATE in event.words
        plan.change(number, status=BLOCKED if is_repeat else event.status, record=ended, error=event.error, result=event.output)

    def _at(self, path: str) -> tuple[PlanProgress | None, int, StepRecord | None]:
        """Return the plan and the step that a path stands for now, and the record of the step."""
        plan, number = self._places.get(path, (None, -1))
        is_step = plan is not None and 0 <= number < len(plan.steps)
        return plan, number, plan.steps[number].record if plan is not None and is_step else None

    @handles
    def tool_started(self, event: e.ToolStarted) -> None:
        """Count a call of a step."""
        plan, _, _ = self._at(event.step)
        if plan is not None:
            plan.calls += 1

    @handles
    def tool_finished(self, event: e.ToolFinished) -> None:
        """Keep the runs that the tool of a step began."""
        plan, number, record = self._at(event.step)
        if plan is not None and record is not None:
            begun = (*plan.steps[number].begun, *event.nested)
            plan.change(number, begun=begun, traceback=event.traceback)

    @handles
    def asked(self, event: e.QuestionAsked) -> None:
        """Note which plan, or step of a plan, asked a question."""
        question = event.question
        if question.kind == REVIEW and self.plans:
            self.plans[-1].review = question.id
            self._asked[question.id] = self.plans[-1]
        plan, number, record = self._at(question.call_id)
        if plan is None:
            return
        plan.changes += 1
        self.questions.add(question.id)
        if record is None:
            plan.questions = (*dict.fromkeys((*plan.questions, question.id)),)
        else:
            asked = (*dict.fromkeys((*plan.steps[number].questions, question.id)),)
            plan.change(number, questions=asked)
        self._asked[question.id] = plan

    @handles
    def answered(self, event: e.QuestionAnswered) -> None:
        """Note that a question of a plan is closed."""
        if (plan := self._asked.pop(event.question_id, None)) is not None:
            plan.review = "" if plan.review == event.question_id else plan.review
            plan.changes += 1


def _results(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the results in the input or output of an execution, by the ids of their steps."""
    given = value.get("results") if isinstance(value, Mapping) else None
    items = given if isinstance(given, list | tuple) else ()
    return {one["id"]: one for one in items if isinstance(one, Mapping) and isinstance(one.get("id"), str)}
