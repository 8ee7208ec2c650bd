"""The plans of a run as lists: each step with its state, call, reason from the planner, and result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from agentnb.core.plans.plan_history import PlanHistory, PlanProgress
from agentnb.core.plans.plan_steps import ABORT, DROPPED, NOOP, NOT_RUN, PENDING, TOOL, StepProgress
from agentnb.core.usage import NOTHING_USED
from agentnb.detect.run import Run
from agentnb.display.parts.step_list import LeftOut, StepRow, figures_of, row_text, shorten_list, step_lines
from agentnb.display.parts.tool_results import as_text
from agentnb.display.texts.call_labels import argument_words
from agentnb.display.texts.event_lines import usage_words
from agentnb.display.texts.labels import duration, first_line, pluralize
from agentnb.display.texts.states import has_ended
from agentnb.display.texts.step_labels import ASKS, MIN_SECONDS, counts
from agentnb.workflow.graph.node_states import INTERRUPTED, RETRYING, WAITING, status_of, waiting_paths

MAX_PLANS = 20
"""Maximum plans listed, counted from the most recent."""
MAX_OPEN = 60
"""Maximum steps of earlier plans that a finished run shows unfolded."""
MAX_LINE_CHARACTERS = 110
"""Maximum characters of a result, or of arguments, on a line."""
ANSWER = "answer"
"""Status of a plan without steps, meaning that the planner had nothing more to do."""
_GOING_ON = ("running", WAITING, RETRYING)
"""States that a plan's line shows by its mark rather than by a count."""
Row = tuple[StepProgress, str]
"""A step and the state in which it is shown."""


class ListedPlan(NamedTuple):
    """A plan in the state in which it is listed."""

    plan: PlanProgress
    rows: tuple[Row, ...]
    status: str

    @property
    def key(self) -> str:
        """The key of the plan's piece and fold."""
        return f"plan:{self.plan.number}"


def listed_plans(history: PlanHistory, run: Run) -> list[ListedPlan]:
    """Return the listed plans in their current state."""
    last = len(history.plans)
    return [_list_plan(plan, run, waits=plan.number == last) for plan in history.plans[-MAX_PLANS:]]


def _list_plan(plan: PlanProgress, run: Run, *, waits: bool) -> ListedPlan:
    waiting = waiting_paths(run) if waits else ()
    rows = tuple([(step, _state(step, run, waiting)) for step in plan.steps])
    status = plan.status or ("" if plan.steps or plan.asks else ANSWER)
    if plan.is_rejected or (not status and has_ended(run)):
        status = NOT_RUN
    elif status == "running":
        has_asked = any(state == WAITING for _, state in rows) or any(question.id in plan.questions for question in run.waiting)
        status = WAITING if has_asked else status if run.should_continue else INTERRUPTED
    return ListedPlan(plan, rows, status)


def _state(step: StepProgress, run: Run, waiting: Collection[str]) -> str:
    if step.record is not None and step.is_open:
        return status_of(step.record, run, waiting)
    return NOT_RUN if step.status == PENDING and has_ended(run) else step.status


def shown_steps(found: ListedPlan) -> Iterator[Row | LeftOut]:
    """Yield the listed steps of a plan, and the text shown in place of omitted ones."""
    for shown in shorten_list({step.number: state for step, state in found.rows}):
        yield shown if isinstance(shown, LeftOut) else found.rows[shown]


def plan_row(found: ListedPlan) -> StepRow:
    """Return the row of a plan, with its state, number, intention and figures."""
    status, plan = "completed" if found.status == ANSWER else found.status, found.plan
    return StepRow(found.key, status, f"Plan {plan.number:,}", title=first_line(plan.intention, 160), figures=_figures(found))


def _figures(listed: ListedPlan) -> str:
    plan = listed.plan
    parts = [counts(Counter(state for _, state in listed.rows), _GOING_ON)] if listed.rows else []
    if listed.status == ANSWER:
        parts.append("no steps left")
    elif not listed.rows and plan.asks:
        parts.append(ASKS)
    if plan.record.edits:
        parts.append(f"edited {pluralize(plan.record.edits, 'time')}")
    if plan.verdict:
        parts.append(f"review: {first_line(plan.verdict, 40)}")
    parts += usage_words(sum(plan.usages, NOTHING_USED))
    if plan.began_at is not None and plan.ended_at is not None:
        seconds = (plan.ended_at - plan.began_at).total_seconds()
        parts += [duration(seconds)] if seconds >= MIN_SECONDS else []
    return ", ".join(parts)


def row_of_step(plan: str, step: StepProgress, state: str) -> StepRow:
    """Return the row of a plan's step. ``plan``: the plan's key."""
    written, record = step.written, step.record
    is_call = written.kind == TOOL
    arguments = written.args if record is None or step.asks else record.inputs
    note = f"dropped: same as step {step.same_as}" if state == DROPPED else ""
    return StepRow(
        f"{plan}:{step.number}",
        state,
        name=(first_line(written.label, 80) or "step") if is_call else written.kind if written.kind in (NOOP, ABORT) else ASKS,
        number=str(step.number),
        arguments=(argument_words(arguments, MAX_LINE_CHARACTERS) if arguments else "") if is_call else None,
        title="" if is_call else first_line(written.purpose, 160),
        figures="" if record is None else figures_of(record, state),
        note="not called: arguments were missing" if is_call and step.asks and state == "completed" else note,
        outcome=_outcome(step, state),
        reason=first_line(written.purpose, 400) if is_call else "",
        depth=1,
        record=None if record is None else replace(record, error=step.error),
        given=arguments if is_call else None,
        has_runs=step.is_open,
        begun=step.begun,
        traceback=step.traceback,
    )


def _outcome(step: StepProgress, state: str) -> str:
    """Return a step's shortened result after an arrow, its error or, if it asked a question, the person's answer."""
    if state in ("failed", RETRYING, "cancelled"):
        return first_line(step.error, 160) if step.written.kind != ABORT else ""
    if step.result in (None, ""):
        return ""
    answer = step.result if step.asks and isinstance(step.result, dict) else {}
    return f"→ {first_line(as_text(answer.get('content') or answer.get('action') or step.result), MAX_LINE_CHARACTERS)}"


def plan_lines(history: PlanHistory, run: Run) -> Iterator[str]:
    """Yield the plans as lines of text, each followed by its steps."""
    plans = listed_plans(history, run)
    if earlier := len(history.plans) - len(plans):
        yield f"  … {pluralize(earlier, 'earlier plan')}"
    for listed in plans:
        yield f"  {row_text(plan_row(listed))}"
        for row in shown_steps(listed):
            yield f"    {row}" if isinstance(row, LeftOut) else f"  {row_text(row_of_step(listed.key, *row))}"


def work_lines(run: Run) -> Iterator[str]:
    """Yield the steps of a run as lines of text, and its plans."""
    history = PlanHistory(run.events)
    yield from step_lines(run, history.children)
    yield from plan_lines(history, run)
