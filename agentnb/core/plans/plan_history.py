"""The plans of a run in order, with the progress of each step: a fold over the log.

Steps of successive plans share their paths in the log: a logged step belongs to the plan that its task executes, or else to the
latest proposed plan.
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
    steps_of,
    text_of,
)
from agentnb.core.run.agent_state import EXECUTION as EXECUTION  # noqa: PLC0414  # re-exported beside PLANNING
from agentnb.core.run.agent_state import plan_step_number
from agentnb.core.run.rounds import DUPLICATE
from agentnb.core.run.work_records import PlanRecord, StepRecord, begin_step, end_step, plan_after
from agentnb.core.usage import Usage

PLANNING = "llm/core:plan"
"""Action of task files that makes plans; `EXECUTION` runs them."""
GENERATION = "plan_generation"
"""Operation of a model call that makes a plan."""
DRAFT, REVIEWED = "draft_only", "pending_review"
"""Execution mode of a plan that waits for the person, and the plan's outcome until the person decides."""

handles = Handlers()


class PlanProgress:
    """A plan of a run, with its progress."""

    def __init__(self, number: int, record: PlanRecord, context: str) -> None:
        self.number = number
        """Number from 1, in order of creation."""
        self.record = record
        self.steps = steps_of(record.plan, record.id)
        self.context = context
        """The scope in which the plan was created."""
        self.mode = ""
        self.questions: tuple[str, ...] = ()
        """Ids of the questions asked by the plan itself."""
        self.status = ""
        """Status of the execution: running, completed, failed or cancelled; empty before it starts."""
        self.made_at: datetime | None = None
        self.began_at: datetime | None = None
        self.ended_at: datetime | None = None
        self.calls = 0
        """Number of tool calls started by the plan's steps, including retries."""
        self.usages: list[Usage] = []
        """Usage of the model calls that made the plan, and of its steps' model calls."""
        self.changes = 0
        """Number of events about the plan since its creation."""
        self._known: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        """The id of the plan."""
        return self.record.id

    @property
    def verdict(self) -> str:
        """The verdict of the last review, or empty."""
        return self.record.reviews[-1].verdict if self.record.reviews else ""

    @property
    def intention(self) -> str:
        """The purpose of the plan, in the planner's words."""
        plan = self.record.plan
        return next((text for key in ("intention", "reasoning") if isinstance(text := plan.get(key), str) and text), "")

    @property
    def is_rejected(self) -> bool:
        """True if the plan will not run."""
        return self.record.status == "rejected"

    @property
    def asks(self) -> bool:
        """True if the plan asks the person before running any step."""
        elicitation = self.record.plan.get("elicitation")
        return isinstance(elicitation, Mapping) and bool(elicitation)

    @property
    def outcome(self) -> str:
        """The outcome: pending, pending_review, executing, completed, failed, cancelled or declined."""
        if self.is_rejected or (not self.status and self.verdict in ("rejected", "needs_changes")):
            return "declined"
        if self.status:
            return "executing" if self.status == "running" else self.status
        if self.record.plan.get("execution_mode") == DRAFT:
            return REVIEWED
        has_steps = not isinstance(self.record.plan.get("steps"), list | tuple) or bool(self.steps)
        return PENDING if has_steps or self.asks else "completed"

    def decide(self, event: w.PlanEvent) -> None:
        """Apply a decision made before the plan runs."""
        self.record = plan_after(event, self.record)
        if isinstance(event, w.PlanEdited):
            self.steps = steps_of(event.plan, self.id)
        elif self.is_rejected:
            self.leave()

    def change(self, number: int, **changed: Any) -> None:
        """Change a step."""
        if number < len(self.steps):
            self.steps[number] = replace(self.steps[number], **changed)

    def leave(self) -> None:
        """Mark every step as not run."""
        self.steps = [replace(step, status=NOT_RUN) for step in self.steps]

    def begin(self, event: w.StepStarted) -> None:
        """Start the plan's execution."""
        self.status, self.ended_at, self.began_at = "running", None, self.began_at or event.at
        self._known = frozenset(_results(event.inputs))

    def reach(self, number: int) -> None:
        """Settle the earlier steps that have no events in the log."""
        for step in self.steps[:number]:
            if step.status != PENDING:
                continue
            if step.id in self._known:
                self.change(step.number, status=KNOWN)
            elif step.written.kind == NOOP:
                self.change(step.number, status=PASSED)
            elif step.same_as is not None:
                self.change(step.number, status=DROPPED)
            else:
                self.change(step.number, status="failed", error=step.written.problem or "")

    def end(self, event: w.StepFinished) -> None:
        """End the plan's execution, and use the results to settle the steps without events."""
        self.status, self.ended_at = event.status, event.at
        if isinstance(event.output, Mapping) and "steps" in event.output:  # executed as a separate run
            self._take_summary(event.output)
            return
        results = _results(event.output)
        self.reach(self._count_reached(event, results))
        for index, step in enumerate([*self.steps]):
            if step.record is None and (result := results.get(step.id)) is not None:
                self.change(index, error=text_of(result.get("error")), result=result.get("result"))
            if step.status == PENDING:
                is_dropped = step.same_as is not None and self.steps[step.same_as].status != NOT_RUN
                self.change(index, status=DROPPED if is_dropped else PASSED if step.written.kind == NOOP else NOT_RUN)

    def _take_summary(self, output: Mapping[str, Any]) -> None:
        """Apply the summary of a separate run to the steps and their calls."""
        summaries = output["steps"] if isinstance(output["steps"], list | tuple) else ()
        for index, summary in enumerate(summaries):
            if isinstance(summary, Mapping):
                self.change(index, status=text_of(summary.get("status")), error=text_of(summary.get("error")))
        self.calls += output["calls"] if type(output.get("calls")) is int else 0

    def _count_reached(self, event: w.StepFinished, results: Mapping[str, Any]) -> int:
        """Return the number of steps reached before the plan ended; a question or an abort also ends a plan."""
        last_number = max((step.number for step in self.steps if step.record is not None), default=-1)
        reached = last_number + 1
        if self.asks or (last_number >= 0 and self.steps[last_number].asks):
            return reached
        for step in self.steps[reached:]:
            if step.written.kind == ABORT:
                reason = step.written.purpose
                has_failed = last_number >= 0 and self.steps[last_number].status == "failed"
                if event.status == "failed" and (event.error == reason or not (reason or has_failed)):
                    reached = step.number
                    self.change(step.number, status="failed", error=event.error)
                break
            if step.id in results:
                reached = step.number + 1
        return reached


class PlanHistory:
    """The plans of a run, updated by each of its events."""

    def __init__(self, events: Iterable[e.AnyEvent] = ()) -> None:
        self.plans: list[PlanProgress] = []
        self.children: set[str] = set()
        """Paths of the steps that make plans, run their steps and ask their questions; `plans` shows these steps."""
        self._tasks: dict[str, str] = {}
        """Actions of the planning and executing tasks, by path."""
        self._running: dict[str, PlanProgress] = {}
        """The plan that each task is executing, or the last one it made."""
        self._places: dict[str, tuple[PlanProgress, int]] = {}
        """The current plan and step of each path; -1 for the plan itself."""
        self.questions: dict[str, PlanProgress] = {}
        """Plans by the ids of the questions that they or their steps asked."""
        self._usages: list[Usage] = []
        self._mode = self._context = ""
        for event in events:
            self.take(event)

    def take(self, event: e.AnyEvent) -> None:
        """Record an event."""
        handler = handles.get(type(event))
        plan = None if handler is None else handler(self, event)  # the plan affected by the event
        if plan is not None:
            plan.changes += 1

    def _find_plan(self, plan_id: str) -> PlanProgress | None:
        return next((plan for plan in self.plans if plan.id == plan_id), None)

    def _add(self, record: PlanRecord) -> PlanProgress:
        existing = self._find_plan(record.id)
        number = len(self.plans) + 1 if existing is None else existing.number
        plan = PlanProgress(number, record, self._context)
        self.plans[number - 1 :] = [plan, *self.plans[number:]]
        return plan

    @handles
    def scope_set(self, event: e.ScopeSet) -> None:
        """Record the scope for later plans."""
        self._context = event.context_type

    @handles
    def plan_decided(self, event: w.PlanEvent) -> PlanProgress | None:
        """Add a plan, replace the plan with the same id, or apply a decision."""
        if not isinstance(event, w.PlanProposed):
            if (plan := self._find_plan(event.plan_id)) is not None:
                plan.decide(event)
            return plan
        new_plan = self._add(plan_after(event, None))
        new_plan.mode = self._mode or str(event.plan.get("execution_mode") or "")
        new_plan.usages, new_plan.made_at = self._usages, event.at
        self._usages, self._mode = [], ""
        self._running |= {path: new_plan for path, action in self._tasks.items() if action == PLANNING}
        return new_plan

    @handles
    def model_called(self, event: w.ModelCalled) -> None:
        """Record the usage of a model call: for the next plan, or for the running plan."""
        if event.operation == GENERATION:
            self._usages.append(event.usage)
            self._mode = event.execution_mode or self._mode
        else:
            self._spend(event.usage)

    @handles
    def extra_usage(self, event: e.ExtraUsage) -> None:
        """Record the usage of a run started by a step of a plan."""
        if event.nested_run:
            self._spend(event.nested)

    def _spend(self, usage: Usage) -> None:
        if self.plans and self.plans[-1].status == "running":
            self.plans[-1].usages.append(usage)

    @handles
    def step_started(self, event: w.StepStarted) -> PlanProgress | None:
        """Begin an execution, or a step of a plan."""
        path, block = event.step, event.step.rpartition("/")[0]
        if event.agent in (PLANNING, EXECUTION):
            self._tasks[path] = event.agent
            return self._begin(event) if event.agent == EXECUTION else None
        if event.step_kind != CALL or block not in self._tasks:
            return None
        self.children.add(path)
        plan, number = self._running.get(block), plan_step_number(path)
        if plan is None or path.rpartition("/")[2].startswith(REPLYING):
            return None
        if self._tasks[block] == PLANNING or number < 0:
            self._places[path] = plan, -1
            plan.status = "running"
            return plan
        self._places[path] = plan, number
        before = self._at(path)[2]
        record = replace(begin_step(event, before), attempts=0 if before is None else before.attempts)
        plan.reach(number)
        plan.change(number, status="running", record=record)
        return plan

    def _begin(self, event: w.StepStarted) -> PlanProgress | None:
        inputs_plan = event.inputs.get("plan") if isinstance(event.inputs, Mapping) else None
        plan_id = str(inputs_plan.get("id") or "") if isinstance(inputs_plan, Mapping) else ""
        plan = self._find_plan(plan_id) or (self.plans[-1] if self.plans and not plan_id else None)
        if plan is None and isinstance(inputs_plan, Mapping):
            plan = self._add(PlanRecord(plan_id, {**inputs_plan}))
        if plan is not None:
            self._running[event.step] = plan
            plan.begin(event)
        return plan

    @handles
    def step_attempted(self, event: w.StepAttempted) -> PlanProgress | None:
        """Record a failed attempt."""
        plan, number, record = self._at(event.step)
        if plan is not None and record is not None:
            failed = replace(record, attempts=event.attempt, error=event.error)
            plan.change(number, record=failed, error=event.error)
        return plan

    @handles
    def step_finished(self, event: w.StepFinished) -> PlanProgress | None:
        """End a step, an execution, or the question of a plan."""
        if self._tasks.get(event.step) == EXECUTION:
            if (plan := self._running.pop(event.step, None)) is not None:
                plan.end(event)
            return plan
        plan, number, record = self._at(event.step)
        if plan is not None and record is not None:
            is_repeat = event.status == "failed" and DUPLICATE in event.words
            status = BLOCKED if is_repeat else event.status
            plan.change(number, status=status, record=end_step(event, record), error=event.error, result=event.output)
        elif plan is not None and number < 0 and self._tasks.get(event.step.rpartition("/")[0]) == PLANNING:
            plan.status = event.status
            plan.leave()
        return plan

    def _at(self, path: str) -> tuple[PlanProgress | None, int, StepRecord | None]:
        """Return the current plan of a path, the number of the step in it, and the step's record."""
        plan, number = self._places.get(path, (None, -1))
        is_step = plan is not None and 0 <= number < len(plan.steps)
        return plan, number, plan.steps[number].record if plan is not None and is_step else None

    @handles
    def tool_started(self, event: e.ToolStarted) -> PlanProgress | None:
        """Count a call of a step."""
        plan, _, _ = self._at(event.step)
        if plan is not None:
            plan.calls += 1
        return plan

    @handles
    def tool_finished(self, event: e.ToolFinished) -> PlanProgress | None:
        """Record the runs started by a step's tool."""
        plan, number, record = self._at(event.step)
        if plan is not None and record is not None:
            plan.change(number, begun=(*plan.steps[number].begun, *event.nested), traceback=event.traceback)
        return plan

    @handles
    def question_asked(self, event: e.QuestionAsked) -> PlanProgress | None:
        """Record a question of a plan or of one of its steps."""
        question_id = event.question.id
        plan, number, record = self._at(event.question.call_id)
        if plan is None:
            return None
        self.questions[question_id] = plan
        if record is None:
            plan.questions = (*dict.fromkeys((*plan.questions, question_id)),)
        else:
            plan.change(number, questions=(*dict.fromkeys((*plan.steps[number].questions, question_id)),))
        return plan

    @handles
    def question_answered(self, event: e.QuestionAnswered) -> PlanProgress | None:
        """Return the plan whose question was closed."""
        return self.questions.get(event.question_id)


def _results(value: Any) -> dict[str, Mapping[str, Any]]:
    """Return the results in the input or output of an execution, by step id."""
    results = value.get("results") if isinstance(value, Mapping) else None
    items = results if isinstance(results, list | tuple) else ()
    return {result["id"]: result for result in items if isinstance(result, Mapping) and isinstance(result.get("id"), str)}
