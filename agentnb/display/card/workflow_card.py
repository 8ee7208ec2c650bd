"""The card of a workflow's run: its graph, and below it the steps with the runs nested in them, finished or live."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

from agentnb.core.log.events import AnyEvent, RunStarted
from agentnb.core.plans.plan_history import EXECUTION, PLANNING, PlanHistory
from agentnb.core.questions import AskedQuestion
from agentnb.core.run.work_records import StepRecord
from agentnb.detect.run import Run
from agentnb.display.card.drawn_pieces import DrawnPieces
from agentnb.display.card.nested import NestedRuns
from agentnb.display.form import Form
from agentnb.display.graph.workflow_graph import GraphPicture
from agentnb.display.graph.workflow_text import graph_lines
from agentnb.display.markup import NOTHING, Html, joined, tag
from agentnb.display.parts.begun_runs import begun_lines
from agentnb.display.parts.plan_list import (
    MAX_OPEN,
    ListedPlan,
    Row,
    left_out_html,
    listed_plans,
    plan_line_html,
    plan_lines,
    plan_step_html,
    shown_rows,
    work_lines,
)
from agentnb.display.parts.questions.question import question_html, question_pieces
from agentnb.display.parts.step_list import (
    begun_by_steps,
    has_steps,
    indented,
    opening_html,
    shown_records,
    step_html,
    step_pieces,
    tracebacks_of_steps,
)
from agentnb.display.texts.labels import clean, counted, first_line
from agentnb.display.texts.states import is_going_on
from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.files.logged_workflow import logged_workflow
from agentnb.workflow.graph.drawing import Drawing
from agentnb.workflow.graph.node_states import StepProgress, node_states

Pieces = dict[str, Html]


def _nothing(path: str) -> Html:
    return NOTHING


def _no_changes(path: str) -> int:
    return 0


class PlanPieces:
    """The plans of a run that grows. Pass it each event."""

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        self.history = PlanHistory(events)
        self._drawn = DrawnPieces()
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
        plans, found = listed_plans(self.history, run), Pieces()
        if earlier := len(self.history.plans) - len(plans):
            found["plans:earlier"] = tag("div", "step step-summary quiet", f"… {counted(earlier, 'earlier plan')}")
        after = [sum(len(one.rows) for one in plans[place + 1 :]) for place in range(len(plans))]
        for place, one in enumerate(plans[:-1]):
            is_open = not form.live and after[place] + len(one.rows) <= MAX_OPEN
            made_of = (one.plan, one.plan.changes, one.status, is_open)
            found[one.key] = self._drawn.get(one.key, made_of, partial(self._folded, one, form, is_open))
        last = plans[-1]
        found[last.key] = tag("div", "step", opening_html(plan_line_html(last), NOTHING, last.key, False))
        found |= self._open_questions(last.plan.questions, form)
        for key, row in self._rows(last):
            if isinstance(row, str):
                found[key] = row
                continue
            step, state = row
            path = step.record.id if step.record is not None else ""
            asked = tuple([self._asked.get(one) for one in step.questions])
            found[key] = self._drawn.get(key, (step, state, nested_changes(path), *asked), partial(self._step, last, row, form))
            if step.is_open and (line := last_line(path)):
                found[f"last:{key}"] = tag("div", "plan-step", line)
            found |= self._open_questions(step.questions, form)
        self._drawn.keep(found)
        return found

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
        return tag("div", "step", opening_html(line, joined(closed, *rows), found.key, form.is_open(found.key, is_open)))

    def _step(self, found: ListedPlan, row: Row, form: Form) -> Html:
        return plan_step_html(found, row, form, self._closed(row[0].questions, form))

    def _closed(self, ids: Iterable[str], form: Form) -> Html:
        return joined(*[question_html(one, form) for one in self._questions(ids) if one.outcome != "open"])

    def _open_questions(self, ids: Iterable[str], form: Form) -> Pieces:
        return question_pieces([one for one in self._questions(ids) if one.outcome == "open"], form)

    def _questions(self, ids: Iterable[str]) -> list[AskedQuestion]:
        return [self._asked[one] for one in ids if one in self._asked]


MAX_PRINTED = 200
"""Characters of the last line that a step has printed or its agent is saying."""


def graph_in(run: Run) -> Drawing | None:
    """Return the graph of the workflow that a run is of; None for other runs, or if its log does not hold it."""
    spec = logged_workflow(run.settings) if run.kind == "workflow" else None
    return None if spec is None else drawing_of(spec)


def workflow_html(run: Run) -> Html:
    """Return the graph of a run, coloured by the states of its steps; nothing for other runs than those of workflows."""
    graph = graph_in(run)
    return NOTHING if graph is None else GraphPicture(graph).html(node_states(graph, run))


def steps_html(run: Run, form: Form) -> Html:
    """Return the steps of a run, each with what it did and asked; nothing if it has rounds instead."""
    if not has_steps(run):
        return NOTHING
    begun, tracebacks = begun_by_steps(run), tracebacks_of_steps(run)

    def draw(record: StepRecord, status: str) -> Html:
        return step_html(record, status, form, begun.get(record.id, ()), tracebacks.get(record.id, ""))

    plans = PlanPieces(run.events)
    drawn = step_pieces(run, draw, plans.history.children)
    pieces = with_questions(run, drawn, form, closed_only=not is_going_on(run), others=plans.history.questions)
    return tag("div", "steps", *plans.add_to(pieces, run, form).values())


def steps_title(run: Run) -> str:
    """Return ``Steps 12``, the title of the list; of a run that plans, ``Plans 3``."""
    plans = PlanHistory(run.events).plans
    return f"Plans {len(plans):,}" if plans else f"Steps {len(shown_records(run)):,}"


def workflow_lines(run: Run) -> Iterator[str]:
    """Yield the steps of a run as lines, as an outline of its workflow if its log holds that, and the runs that tools began."""
    graph = graph_in(run)
    if graph is None:
        yield from work_lines(run)
    else:
        yield from (f"  {line}" for line in graph_lines(graph, node_states(graph, run)))
        yield from plan_lines(PlanHistory(run.events), run)
    yield from begun_lines([*chain.from_iterable(begun_by_steps(run).values())], "    ")


def with_questions(
    run: Run, pieces: dict[str, Html], form: Form, *, closed_only: bool = False, others: Collection[str] = ()
) -> dict[str, Html]:
    """Return the pieces of steps, each followed by what it asked; open questions of steps that are not listed come last.

    ``others``: ids of questions that are shown elsewhere.
    """
    asked: dict[str, list[AskedQuestion]] = {}
    for one in run.questions:
        if one.question.id in others:
            continue
        if one.outcome != "open" or not closed_only:
            asked.setdefault(f"step:{one.question.call_id}", []).append(one)
    found: dict[str, Html] = {}
    for key, piece in pieces.items():
        found[key] = piece
        found |= question_pieces(asked.pop(key, ()), form)
    rest = [one for questions in asked.values() for one in questions if one.outcome == "open"]
    return found | question_pieces(rest, form)


class LiveSteps:
    """The steps of a run that grows. Pass it each event."""

    def __init__(self, run: Run) -> None:
        self._run = run
        graph = graph_in(run)
        self._picture = None if graph is None else GraphPicture(graph)
        self._progress = None if graph is None else StepProgress(graph)
        self._graph = NOTHING
        self._is_stale = True
        self._plans = PlanPieces()
        self._drawn = DrawnPieces()

    @staticmethod
    def of(run: Run, event: RunStarted) -> LiveSteps | None:
        """Return those of a run that begins; None for the run of an agent."""
        return None if event.run_kind == "agent" else LiveSteps(run)

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        self._is_stale = True
        self._plans.take(event)
        if self._progress is not None:
            self._progress.take(event)

    def graph_html(self) -> Html:
        """Return the graph as it is now; nothing if the log does not hold it."""
        if self._picture is not None and self._progress is not None and self._is_stale:
            self._graph = self._picture.html(self._progress.states(self._run))
        self._is_stale = False
        return self._graph

    def pieces(self, form: Form, printed: Mapping[str, str], nested: NestedRuns) -> dict[str, Html]:
        """Return the steps and their questions by their keys.

        ``printed``: the end of what steps have printed, shown while they run; ``nested``: the runs nested in them.
        """

        def draw(record: StepRecord, status: str) -> Html:
            sources = (record, status, nested.changes(record.id))
            return self._drawn.get(f"step:{record.id}", sources, partial(step_html, record, status, form))

        history = self._plans.history
        drawn = step_pieces(self._run, draw, history.children)
        self._drawn.keep(drawn)
        found: dict[str, Html] = {}
        for key, piece in drawn.items():
            path = key.partition(":")[2]
            found[key] = piece
            if last := self._last_line(path, printed, nested):
                found[f"last:{path}"] = last
        found = with_questions(self._run, found, form, others=history.questions)

        def last_line(path: str) -> Html:
            return self._last_line(path, printed, nested, indent=False)

        return self._plans.add_to(found, self._run, form, last_line, nested.changes)

    def _last_line(self, path: str, printed: Mapping[str, str], nested: NestedRuns, *, indent: bool = True) -> Html:
        """Return the last line of what a step that runs has printed, or what its agent is saying: small, as it comes often."""
        record = self._run.step_records.get(path)
        if record is None or record.status != "running":
            return NOTHING
        text, kind = printed.get(path, "").rstrip().rpartition("\n")[2], "tool-printing"
        if not text:
            text, kind = nested.saying(path), "step-saying"
        line = tag("div", kind, first_line(clean(text), MAX_PRINTED)) if text.strip() else NOTHING
        return indented(path, line) if line and indent else line
