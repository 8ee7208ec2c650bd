"""The plans of a run as lists: each step with its state, its call, why the planner wants it, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from agentnb.core.plans.plan_history import PlanHistory, PlanProgress
from agentnb.core.plans.plan_steps import ABORT, BLOCKED, DROPPED, KNOWN, NOOP, NOT_RUN, PASSED, PENDING, TOOL, StepProgress
from agentnb.core.usage import NOTHING_USED
from agentnb.detect.run import Run
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, joined, tag, words
from agentnb.display.parts.begun_runs import begun_html
from agentnb.display.parts.long_text import Way
from agentnb.display.parts.results import as_text, traceback_html
from agentnb.display.parts.step_list import (
    MAX_OUTPUT,
    MAX_WHOLE,
    SHORTEST,
    left_out_told,
    line_html,
    look_of,
    opening_html,
    output_html,
    step_lines,
)
from agentnb.display.texts.call_labels import argument_words
from agentnb.display.texts.event_lines import used
from agentnb.display.texts.labels import clean, counted, duration, first_line
from agentnb.display.texts.states import has_ended
from agentnb.display.texts.step_labels import ASKS, attempts_told, mark_of, word_of
from agentnb.workflow.graph.node_states import INTERRUPTED, RETRYING, WAITING, status_of, waiting_paths

MAX_STEPS = 60
"""Steps of a plan that are listed; of more, the first, the last, and those that failed or are open."""
FIRST = 20
"""Of a long plan, the steps from its begin that are listed."""
MAX_PLANS = 20
"""Plans that are listed: the last."""
MAX_OPEN = 60
"""Steps of earlier plans that are shown without opening these, in a run that has ended."""
MAX_READ = 10_000
"""Characters of a text that are searched for its first words."""
LINE = 110
"""Characters of a result or a reason on its line."""
ANSWER = "answer"
"""The status of a plan without steps: the planner had nothing more to do."""
_COUNTED = {
    "failed": "failed",
    BLOCKED: "blocked",
    DROPPED: "dropped",
    NOT_RUN: "not run",
    "cancelled": "cancelled",
    INTERRUPTED: "interrupted",
}
"""The states that the line of a plan counts, with their words; it has one mark for those that go on."""
_SETTLED = ("completed", PENDING, DROPPED, KNOWN, PASSED, NOT_RUN)
"""The states of the steps that a long list may leave out."""
Row = tuple[StepProgress, str]
"""A step with the state in which it is shown."""


class ListedPlan(NamedTuple):
    """A plan as it is listed now."""

    plan: PlanProgress
    rows: tuple[Row, ...]
    status: str

    @property
    def key(self) -> str:
        """The key of its piece and its fold."""
        return f"plan:{self.plan.number}"


def listed_plans(history: PlanHistory, run: Run) -> list[ListedPlan]:
    """Return the plans that are listed, as they are now."""
    last = len(history.plans)
    return [_listed(plan, run, waits=plan.number == last) for plan in history.plans[-MAX_PLANS:]]


def _listed(plan: PlanProgress, run: Run, *, waits: bool) -> ListedPlan:
    waiting = waiting_paths(run) if waits else ()
    rows = tuple([(step, _state(step, run, waiting)) for step in plan.steps])
    status = plan.status or ("" if plan.steps or plan.asks else ANSWER)
    if plan.is_rejected or (not status and has_ended(run)):
        status = NOT_RUN
    elif status == "running":
        has_asked = any(state == WAITING for _, state in rows) or any(one.id in plan.questions for one in run.waiting)
        status = WAITING if has_asked else status if run.should_continue else INTERRUPTED
    return ListedPlan(plan, rows, status)


def _state(step: StepProgress, run: Run, waiting: Collection[str]) -> str:
    if step.record is not None and step.is_open:
        return status_of(step.record, run, waiting)
    return NOT_RUN if step.status == PENDING and has_ended(run) else step.status


def shown_rows(found: ListedPlan) -> tuple[list[Row], int, Mapping[str, int]]:
    """Return the steps of a plan that are listed, how many of them come before those left out, and these by state."""
    rows = found.rows
    if len(rows) <= MAX_STEPS:
        return [*rows], len(rows), {}
    loud = [step.number for step, state in rows if state not in _SETTLED][: MAX_STEPS // 3]
    chosen = {*range(FIRST), *loud}
    chosen |= {*[n for n in reversed(range(len(rows))) if n not in chosen][: MAX_STEPS - len(chosen)]}
    left_out = Counter(state for step, state in rows if step.number not in chosen)
    return [rows[number] for number in sorted(chosen)], FIRST, left_out


def counts_told(states: Mapping[str, int]) -> str:
    """Return ``3 done``, ``2 of 4 done, 1 failed, 1 dropped``."""
    total, done = sum(states.values()), sum(states.get(one, 0) for one in ("completed", PASSED, KNOWN))
    if done == total:
        return f"{total:,} done"
    rest = [f"{states[state]:,} {word}" for state, word in _COUNTED.items() if states.get(state)]
    return ", ".join([f"{done:,} of {total:,} done" if done or rest else counted(total, "step"), *rest])


def _figures(found: ListedPlan) -> str:
    plan = found.plan
    told = [counts_told(Counter(state for _, state in found.rows))] if found.rows else []
    if found.status == ANSWER:
        told.append("no steps left")
    elif not found.rows and plan.asks:
        told.append("asks you")
    if plan.record.edits:
        told.append(f"edited {counted(plan.record.edits, 'time')}")
    if plan.verdict:
        told.append(f"review: {first_line(clean(plan.verdict), 40)}")
    told += used(sum(plan.usages, NOTHING_USED))
    if plan.began_at is not None and plan.ended_at is not None:
        seconds = (plan.ended_at - plan.began_at).total_seconds()
        told += [duration(seconds)] if seconds >= SHORTEST else []
    return ", ".join(told)


def plan_line_html(found: ListedPlan) -> Html:
    """Return the line of a plan: its state, number, intention and figures."""
    status = "completed" if found.status == ANSWER else found.status
    return line_html(
        status,
        ("step-name", f"Plan {found.plan.number:,}"),
        ("", _short(found.plan.intention, 160)),
        ("meta", _figures(found)),
        (look_of(status), word_of(status)),
    )


def plan_step_html(found: ListedPlan, row: Row, form: Form, asked: Html = NOTHING) -> Html:
    """Return a step of a plan on its line, below it why the planner wants it; it opens to its arguments and its result.

    ``asked``: the questions that it asked, with their answers.
    """
    step, state = row
    key = f"{found.key}:{step.number}"
    body = [*_body(step, key, form), *filter(None, [asked])]
    look = "plan-reason" if body else "plan-reason plan-reason-flat"
    reason = tag("span", look, _short(told, 400)) if (told := _reason(step)) else NOTHING
    line = joined(_step_line(step, state), reason)
    opened, whole = form.is_open(key, form.whole and state == "failed"), tag("div", "step-body", *body) if body else NOTHING
    return tag("div", "step plan-step", opening_html(line, whole, key, opened))


def _step_line(step: StepProgress, state: str) -> Html:
    return line_html(
        state,
        ("plan-number", str(step.number)),
        ("step-name", name_of(step)),
        ("plan-args" if step.written.kind == TOOL else "", call_words(step)),
        ("meta", figures_of(step)),
        ("step-words" if _lacked(step) and state == "completed" else look_of(state, "step-words"), state_word(step, state)),
        ("step-words", outcome_of(step, state)),
    )


def _reason(step: StepProgress) -> str:
    """Return why the planner wants a call."""
    return step.written.purpose if step.written.kind == TOOL else ""


def name_of(step: StepProgress) -> str:
    """Return the name of a step: its tool, ``asks you``, ``noop``, ``abort``."""
    if step.written.kind == TOOL:
        return _short(step.written.label, 80) or "step"
    return step.written.kind if step.written.kind in (NOOP, ABORT) else ASKS


def call_words(step: StepProgress) -> str:
    """Return the arguments of a call in short, or the question of a step."""
    if step.written.kind != TOOL:
        return _short(step.written.purpose, 160)
    given = step.written.args if step.record is None or step.asks else step.record.inputs
    return argument_words(given, LINE) if given else ""


def figures_of(step: StepProgress) -> str:
    """Return ``2 attempts, 1 retry, 1.2 s``; empty where all is routine."""
    record = step.record
    if record is None:
        return ""
    parts = [attempts_told(record.attempts)] if record.attempts > 1 else []
    parts += [duration(record.seconds)] if record.seconds and record.seconds >= SHORTEST else []
    return ", ".join(parts)


def state_word(step: StepProgress, state: str) -> str:
    """Return the word for the state of a step."""
    if state == DROPPED:
        return f"dropped: same as step {step.same_as}"
    if _lacked(step) and state == "completed":
        return "not called: it lacked arguments"
    return word_of(state)


def _lacked(step: StepProgress) -> bool:
    """Return whether a call was not made because it lacked arguments, for which the person was asked."""
    return step.asks and step.written.kind == TOOL


def outcome_of(step: StepProgress, state: str) -> str:
    """Return the result of a step in short behind an arrow, or its error; what it asks while it waits."""
    if state in ("failed", RETRYING, "cancelled"):
        return _short(step.error, 160) if step.written.kind != ABORT else ""
    if step.result in (None, ""):
        return ""
    given = (
        step.result.get("content") or step.result.get("action") if step.asks and isinstance(step.result, dict) else step.result
    )
    return f"→ {_short(as_text(given), LINE)}"


def _body(step: StepProgress, key: str, form: Form) -> list[Html]:
    """Return the body of a step: its arguments, error, result, and the runs that its tool began."""
    record, most = step.record, MAX_WHOLE if form.whole else MAX_OUTPUT
    if record is None:
        return []
    runs = form.nested(record.id, form.folds) if step.is_open else NOTHING
    runs = runs or begun_html(step.begun)
    given = step.written.args if step.asks else record.inputs
    found = [output_html(given, most)] if given and step.written.kind == TOOL else []
    found += [tag("div", "why why-bad", words(step.error, most))] if step.error else []
    if step.traceback and step.error:
        found.append(traceback_html(step.traceback, key, Way()))
    found += [output_html(step.result, most)] if step.result not in (None, "", [], {}) else []
    return [*found, runs] if runs else found


def _short(text: str, most: int) -> str:
    return first_line(clean(text[:MAX_READ]), most)


def left_out_html(left_out: Mapping[str, int]) -> Html:
    """Return the line in place of the steps of a long plan that are not listed."""
    return tag("div", "step plan-step", tag("div", "step-summary step-flat quiet", left_out_told(left_out, counts_told)))


def plan_lines(history: PlanHistory, run: Run) -> Iterator[str]:
    """Yield the plans as lines of text, each followed by its steps."""
    plans = listed_plans(history, run)
    if earlier := len(history.plans) - len(plans):
        yield f"  … {counted(earlier, 'earlier plan')}"
    for found in plans:
        status = "completed" if found.status == ANSWER else found.status
        word = "" if status == "completed" else word_of(status)
        told = [f"Plan {found.plan.number:,}", _short(found.plan.intention, 80), word, _figures(found)]
        yield f"  {mark_of(status)} {'  '.join(filter(None, told))}"
        rows, after, left_out = shown_rows(found)
        for place, row in enumerate(rows):
            if left_out and place == after:
                yield f"      {left_out_told(left_out, counts_told)}"
            yield f"    {plan_step_line(row)}"


def plan_step_line(row: Row) -> str:
    """Return a step of a plan as a line of text: ``✓ 0 tides_fetch(station="brest")  → 6.1``."""
    step, state = row
    called = (
        f"{name_of(step)}({call_words(step)})" if step.written.kind == TOOL else f"{name_of(step)}  {call_words(step)}".rstrip()
    )
    word = "" if state == "completed" and not _lacked(step) else state_word(step, state)
    told = [word, figures_of(step), outcome_of(step, state)]
    reason = f"({_short(why, 80)})" if (why := _reason(step)) else ""
    return f"{mark_of(state)} {step.number} {'  '.join([called, *filter(None, told), *filter(None, [reason])])}"


def work_lines(run: Run) -> Iterator[str]:
    """Yield the steps of a run as lines of text, and its plans."""
    history = PlanHistory(run.events)
    yield from step_lines(run, history.children)
    yield from plan_lines(history, run)
