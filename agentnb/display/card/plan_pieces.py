"""The plans of a run as pieces of its card: the last one step by step, those before it folded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from agentnb.core.log.events import AnyEvent
from agentnb.core.plans.plan_history import EXECUTION, PLANNING, PlanHistory
from agentnb.core.questions import AskedQuestion
from agentnb.detect.run import Run
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, joined, tag
from agentnb.display.parts.plan_list import (
    MAX_OPEN,
    ListedPlan,
    Row,
    left_out_html,
    listed_plans,
    plan_line_html,
    plan_step_html,
    shown_rows,
)
from agentnb.display.parts.questions.question import question_html, question_pieces
from agentnb.display.texts.labels import counted
from agentnb.display.texts.states import is_going_on

Pieces = dict[str, Html]
Drawn = dict[str, tuple[tuple[object, ...], Html]]
"""The pieces as they were drawn last, each with what it was made of."""


def _nothing(path: str) -> Html:
    return NOTHING


def _no_changes(path: str) -> int:
    return 0


def _are_same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    if len(before) != len(now):
        return False
    return all(a is b or (isinstance(a, int | str) and a == b) for a, b in zip(before, now, strict=True))


class PlanPieces:
    """The plans of a run that grows. Pass it each event."""

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        self.history = PlanHistory(events)
        self._drawn: Drawn = {}
        self._asked: Mapping[str, AskedQuestion] = {}

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        self.history.take(event)

    def add_to(
        self,
        pieces: Pieces,
        run: Run,
        form: Form,
        last_line: Callable[[str], Html] = _nothing,
        nested_changes: Callable[[str], int] = _no_changes,
    ) -> Pieces:
        """Return the pieces of steps with the plans, which follow the tasks that make and run them.

        ``last_line``: returns what a step that runs is printing or saying, by its path; ``nested_changes``: a number that grows
        with each change of the runs that a step began.
        """
        if not self.history.plans:
            return pieces
        shown = run.questions if form.live or is_going_on(run) else [one for one in run.questions if one.outcome != "open"]
        self._asked = {one.question.id: one for one in shown if one.question.id in self.history.questions}
        plans = self._plans(run, form, last_line, nested_changes)
        records = run.step_records
        keys = [f"step:{path}" for path, one in records.items() if one.agent in (PLANNING, EXECUTION)]
        place = max((at for at, key in enumerate(pieces, 1) if key in keys), default=len(pieces))
        every = [*pieces.items()]
        return dict([*every[:place], *plans.items(), *every[place:]])

    def _plans(self, run: Run, form: Form, last_line: Callable[[str], Html], nested_changes: Callable[[str], int]) -> Pieces:
        plans, found, drawn = listed_plans(self.history, run), Pieces(), self._drawn
        self._drawn = {}
        if earlier := len(self.history.plans) - len(plans):
            found["plans:earlier"] = tag("div", "step step-summary quiet", f"… {counted(earlier, 'earlier plan')}")
        after = [sum(len(one.rows) for one in plans[place + 1 :]) for place in range(len(plans))]
        for place, one in enumerate(plans[:-1]):
            is_open = not form.live and after[place] + len(one.rows) <= MAX_OPEN
            made_of = (one.plan, one.plan.changes, one.status, is_open)
            found[one.key] = self._kept(drawn, one.key, made_of, partial(self._folded, one, form, is_open))
        last = plans[-1]
        found[last.key] = tag("div", "step", tag("div", "step-summary step-flat", plan_line_html(last)))
        found |= self._open_questions(last.plan.questions, form)
        for key, row in self._rows(last):
            if isinstance(row, str):
                found[key] = row
                continue
            step, state = row
            path = step.record.id if step.record is not None else ""
            asked = tuple([self._asked.get(one) for one in step.questions])
            found[key] = self._kept(
                drawn, key, (step, state, nested_changes(path), *asked), partial(self._step, last, row, form)
            )
            if step.is_open and (line := last_line(path)):
                found[f"last:{key}"] = tag("div", "plan-step", line)
            found |= self._open_questions(step.questions, form)
        return found

    def _kept(self, drawn: Drawn, key: str, made_of: tuple[object, ...], draw: Callable[[], Html]) -> Html:
        """Return a piece, drawn again only if something that it is made of was replaced."""
        before = drawn.get(key)
        if before is None or not _are_same(before[0], made_of):
            before = made_of, draw()
        self._drawn[key] = before
        return before[1]

    def _rows(self, found: ListedPlan) -> list[tuple[str, Row | Html]]:
        """Return the steps that are listed, with the line for those that are not, each with its key."""
        rows, after, left_out = shown_rows(found)
        keyed: list[tuple[str, Row | Html]] = [(f"{found.key}:{row[0].number}", row) for row in rows]
        if left_out:
            keyed.insert(after, (f"{found.key}:more", left_out_html(left_out)))
        return keyed

    def _folded(self, found: ListedPlan, form: Form, is_open: bool) -> Html:
        rows = [row if isinstance(row, str) else self._step(found, row, form) for _, row in self._rows(found)]
        line = plan_line_html(found)
        closed = self._closed(found.plan.questions, form)
        if not rows and not closed:
            return tag("div", "step", tag("div", "step-summary step-flat", line))
        summary = tag("summary", "step-summary", line)
        return tag(
            "div",
            "step",
            tag("details", "", summary, joined(closed, *rows), data_fold=found.key, open=form.is_open(found.key, is_open)),
        )

    def _step(self, found: ListedPlan, row: Row, form: Form) -> Html:
        return plan_step_html(found, row, form, self._closed(row[0].questions, form))

    def _closed(self, ids: Iterable[str], form: Form) -> Html:
        return joined(*[question_html(one, form) for one in self._questions(ids) if one.outcome != "open"])

    def _open_questions(self, ids: Iterable[str], form: Form) -> Pieces:
        return question_pieces([one for one in self._questions(ids) if one.outcome == "open"], form)

    def _questions(self, ids: Iterable[str]) -> list[AskedQuestion]:
        return [self._asked[one] for one in ids if one in self._asked]
