"""The card of a workflow's run, finished or live: its graph, and its steps with their nested runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain

from agentnb.core.log.events import AnyEvent
from agentnb.core.plans.plan_history import EXECUTION, PLANNING, PlanHistory
from agentnb.core.questions import AskedQuestion
from agentnb.core.run.work_records import StepRecord
from agentnb.detect.run import Run
from agentnb.display.card.drawn_pieces import DrawnPieces
from agentnb.display.card.nested import NestedRuns
from agentnb.display.form import Form
from agentnb.display.graph.workflow_graph import GraphPicture
from agentnb.display.graph.workflow_text import graph_lines
from agentnb.display.markup import NOTHING, Html, join_html, tag
from agentnb.display.parts.begun_runs import begun_lines
from agentnb.display.parts.plan_list import (
    MAX_OPEN,
    ListedPlan,
    Row,
    listed_plans,
    plan_lines,
    plan_row,
    row_of_step,
    shown_steps,
    work_lines,
)
from agentnb.display.parts.questions.question import question_pieces
from agentnb.display.parts.step_list import (
    LeftOut,
    begun_by_steps,
    has_steps,
    indent_html,
    left_out_html,
    line_html,
    opening_html,
    row_html,
    row_of,
    shown_records,
    step_rows,
    tracebacks_of_steps,
)
from agentnb.display.texts.labels import first_line, pluralize
from agentnb.display.texts.states import is_going_on
from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.files.logged_workflow import logged_workflow
from agentnb.workflow.graph.drawing import Drawing
from agentnb.workflow.graph.node_states import StepProgress, node_states

MAX_PRINTED = 200
"""Maximum characters of the last line that a step prints or its agent streams."""
_NOTHING_PRINTED: Mapping[str, str] = {}


class StepPieces:
    """The steps and plans of a run as pieces of its card. For a growing run, pass it every event."""

    def __init__(self, run: Run, events: Iterable[AnyEvent] = ()) -> None:
        self._run = run
        self._history = PlanHistory(events)
        self._drawn = DrawnPieces()
        # Empty for a new run: its live card shows the nested runs themselves.
        self._begun, self._tracebacks = begun_by_steps(run), tracebacks_of_steps(run)
        self._asked: Mapping[str, AskedQuestion] = {}
        self._form, self._printed, self._nested = Form(), _NOTHING_PRINTED, NestedRuns()

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        self._history.take(event)

    def pieces(
        self, form: Form, printed: Mapping[str, str] = _NOTHING_PRINTED, nested: NestedRuns | None = None
    ) -> dict[str, Html]:
        """Return the steps and their questions by key, and the plans after the tasks that make and execute them.

        ``printed``: the latest output of running steps; ``nested``: their nested runs.
        """
        self._form, self._printed, self._nested = form, printed, nested or self._nested
        run, history = self._run, self._history
        asked = [question for question in run.questions if form.live or is_going_on(run) or question.outcome != "open"]
        self._asked = {question.question.id: question for question in asked}
        step_questions: dict[str, list[AskedQuestion]] = {}
        for question in asked:
            if question.question.id not in history.questions:
                step_questions.setdefault(question.question.call_id, []).append(question)
        pieces, position = dict[str, Html](), 0
        for row in step_rows(run, history.children):
            if isinstance(row, LeftOut):
                pieces["steps:more"] = left_out_html(row)
                continue
            record, path = row[0], row[0].id
            if record.agent in (PLANNING, EXECUTION):
                position = len(pieces) + 1
            drawn, depth = partial(self._step, *row), path.count("/")
            pieces.update(self._piece(f"step:{path}", row, record, depth, drawn, step_questions.pop(path, ())))
        remaining = [question for question in chain.from_iterable(step_questions.values()) if question.outcome == "open"]
        all_pieces = [*(pieces | question_pieces(remaining, form)).items()]
        position = position or len(all_pieces)
        pieces = dict([*all_pieces[:position], *self._plans(), *all_pieces[position:]])
        self._drawn.keep(pieces)
        return pieces

    def _piece(
        self,
        key: str,
        sources: tuple[object, ...],
        record: StepRecord | None,
        depth: int,
        draw: Callable[[], Html],
        asked: Iterable[AskedQuestion],
    ) -> Iterator[tuple[str, Html]]:
        """Yield the piece of a step, redrawn if a source has been replaced, followed by the pieces below it."""
        changes = 0 if record is None else self._nested.changes(record.id)
        yield key, self._drawn.get(key, (*sources, changes), draw)
        if record is not None and (line := self._last_line(record)):
            yield f"last:{key}", indent_html(depth, line)
        yield from question_pieces(asked, self._form).items()

    def _step(self, record: StepRecord, status: str) -> Html:
        begun, traceback = self._begun.get(record.id, ()), self._tracebacks.get(record.id, "")
        return row_html(row_of(record, status, begun, traceback), self._form)

    def _plans(self) -> Iterator[tuple[str, Html]]:
        plans = listed_plans(self._history, self._run)
        if earlier := len(self._history.plans) - len(plans):
            yield "plans:earlier", left_out_html(f"… {pluralize(earlier, 'earlier plan')}")
        row_count = sum(len(listed.rows) for listed in plans)
        for listed in plans[:-1]:
            is_open = not self._form.live and row_count <= MAX_OPEN
            row_count -= len(listed.rows)
            made_of = (listed.plan, listed.plan.changes, listed.status, is_open)
            yield listed.key, self._drawn.get(listed.key, made_of, partial(self._fold_plan, listed, is_open))
        for last in plans[-1:]:
            yield last.key, tag("div", "step", opening_html(line_html(plan_row(last)), NOTHING, last.key, False))
            yield from question_pieces(self._questions(last.plan.questions, is_open=True), self._form).items()
            for row in shown_steps(last):
                if isinstance(row, LeftOut):
                    yield f"{last.key}:more", left_out_html(row, 1)
                    continue
                step = row[0]
                sources = (*row, *map(self._asked.get, step.questions))
                asked = self._questions(step.questions, is_open=True)
                drawn = partial(self._step_of_plan, last, row)
                yield from self._piece(f"{last.key}:{step.number}", sources, step.record, 1, drawn, asked)

    def _fold_plan(self, listed: ListedPlan, is_open: bool) -> Html:
        steps = [
            left_out_html(row, 1) if isinstance(row, LeftOut) else self._step_of_plan(listed, row)
            for row in shown_steps(listed)
        ]
        body, opened = join_html(self._closed_questions(listed.plan.questions), *steps), self._form.is_open(listed.key, is_open)
        return tag("div", "step", opening_html(line_html(plan_row(listed)), body, listed.key, opened))

    def _step_of_plan(self, listed: ListedPlan, row: Row) -> Html:
        return row_html(row_of_step(listed.key, *row), self._form, self._closed_questions(row[0].questions))

    def _closed_questions(self, ids: Iterable[str]) -> Html:
        return join_html(*question_pieces(self._questions(ids, is_open=False), self._form).values())

    def _questions(self, ids: Iterable[str], *, is_open: bool) -> list[AskedQuestion]:
        return [
            self._asked[question_id]
            for question_id in ids
            if question_id in self._asked and (self._asked[question_id].outcome == "open") == is_open
        ]

    def _last_line(self, record: StepRecord) -> Html:
        """Return the last line that a running step printed or its agent is streaming. Kept short, because it changes often."""
        if record.status != "running":
            return NOTHING
        text, kind = self._printed.get(record.id, "").rstrip().rpartition("\n")[2], "tool-printing"
        if not text:
            text, kind = self._nested.saying(record.id), "step-saying"
        return tag("div", kind, first_line(text, MAX_PRINTED)) if text.strip() else NOTHING


def graph_in(run: Run) -> Drawing | None:
    """Return the graph of the workflow that was run, or None for other runs and for logs without a graph."""
    spec = logged_workflow(run.settings) if run.kind == "workflow" else None
    return None if spec is None else drawing_of(spec)


def workflow_html(run: Run) -> Html:
    """Return the graph of a workflow's run, with each step coloured by its state; empty for other runs."""
    graph = graph_in(run)
    return NOTHING if graph is None else GraphPicture(graph).html(node_states(graph, run))


def steps_html(run: Run, form: Form) -> Html:
    """Return the steps of a run, each with its results and questions; empty if the run has rounds."""
    return tag("div", "steps", *StepPieces(run, run.events).pieces(form).values()) if has_steps(run) else NOTHING


def steps_title(run: Run) -> str:
    """Return the title of the list: ``Steps 12`` or, for a run that makes plans, ``Plans 3``."""
    plans = PlanHistory(run.events).plans
    return f"Plans {len(plans):,}" if plans else f"Steps {len(shown_records(run)):,}"


def workflow_lines(run: Run) -> Iterator[str]:
    """Yield a run's steps as lines (outlined by its workflow, if the log has it), and the runs that tools started."""
    graph = graph_in(run)
    if graph is None:
        yield from work_lines(run)
    else:
        yield from (f"  {line}" for line in graph_lines(graph, node_states(graph, run)))
        yield from plan_lines(PlanHistory(run.events), run)
    yield from begun_lines([*chain.from_iterable(begun_by_steps(run).values())], "    ")


class LiveSteps(StepPieces):
    """The steps of a growing run, with the run's graph."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        graph = graph_in(run)
        self._picture = None if graph is None else GraphPicture(graph)
        self._progress = None if graph is None else StepProgress(graph)
        self._graph = NOTHING
        self._is_stale = True

    @staticmethod
    def of(run: Run) -> LiveSteps | None:
        """Return the steps of a new run, or None if it is an agent's run."""
        return None if run.kind == "agent" else LiveSteps(run)

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        self._is_stale = True
        super().take(event)
        if self._progress is not None:
            self._progress.take(event)

    def graph_html(self) -> Html:
        """Return the current graph; empty if the log has none."""
        if self._picture is not None and self._progress is not None and self._is_stale:
            self._graph = self._picture.html(self._progress.states(self._run))
        self._is_stale = False
        return self._graph
