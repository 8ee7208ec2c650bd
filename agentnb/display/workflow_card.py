"""The card of a workflow's run: its graph, and below it the steps with the runs nested in them, finished or live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentnb.core.events import AnyEvent, RunStarted
from agentnb.core.questions import AskedQuestion
from agentnb.detect.run import Run
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, joined, tag
from agentnb.display.question import question_html
from agentnb.display.step_list import has_steps, shown_records, step_lines, step_pieces
from agentnb.display.workflow_graph import GraphPicture
from agentnb.display.workflow_text import graph_lines
from agentnb.workflow.graph import Graph, graph_of
from agentnb.workflow.logged import logged_workflow
from agentnb.workflow.node_states import StepProgress, node_states


def graph_in(run: Run) -> Graph | None:
    """Return the graph of the workflow that a run is of; None for other runs, or if its log does not hold it."""
    spec = logged_workflow(run.settings) if run.kind == "workflow" else None
    return None if spec is None else graph_of(spec)


def workflow_html(run: Run) -> Html:
    """Return the graph of a run, coloured by the states of its steps; nothing for other runs than those of workflows."""
    graph = graph_in(run)
    return NOTHING if graph is None else GraphPicture(graph).html(node_states(graph, run))


def steps_html(run: Run, form: Form) -> Html:
    """Return the steps of a run, each with what it did and asked; nothing if it has rounds instead."""
    if not has_steps(run):
        return NOTHING
    pieces = with_questions(run, step_pieces(run, form), form, closed_only=True)
    return tag("div", "steps", *pieces.values())


def steps_title(run: Run) -> str:
    """Return ``Steps 12``, the title of the list."""
    return f"Steps {len(shown_records(run)):,}"


def workflow_lines(run: Run) -> Iterator[str]:
    """Yield the steps of a run as lines: as an outline of its workflow if its log holds that."""
    graph = graph_in(run)
    if graph is None:
        yield from step_lines(run)
    else:
        yield from (f"  {line}" for line in graph_lines(graph, node_states(graph, run)))


def with_questions(run: Run, pieces: dict[str, Html], form: Form, *, closed_only: bool = False) -> dict[str, Html]:
    """Return the pieces of steps, each followed by what it asked; open questions of steps that are not listed come last."""
    asked: dict[str, list[AskedQuestion]] = {}
    for one in run.questions:
        if one.outcome != "open" or not closed_only:
            asked.setdefault(f"step:{one.question.call_id}", []).append(one)
    found: dict[str, Html] = {}
    for key, piece in pieces.items():
        found[key] = piece
        found |= _questions(asked.pop(key, ()), form)
    rest = [one for questions in asked.values() for one in questions if one.outcome == "open"]
    return found | _questions(rest, form)


def _questions(asked: Iterable[AskedQuestion], form: Form) -> dict[str, Html]:
    return {
        f"question:{one.question.id}": question_html(one, live=form.live, over=form.over, whole=form.whole) for one in asked
    }


class LiveSteps:
    """The steps of a run that grows. Pass it each event."""

    def __init__(self, run: Run) -> None:
        self._run = run
        graph = graph_in(run)
        self._picture = None if graph is None else GraphPicture(graph)
        self._progress = None if graph is None else StepProgress(graph)
        self._graph = NOTHING
        self._is_stale = True

    @staticmethod
    def of(run: Run, event: RunStarted) -> LiveSteps | None:
        """Return those of a run that begins; None for the run of an agent."""
        return None if event.run_kind == "agent" else LiveSteps(run)

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        self._is_stale = True
        if self._progress is not None:
            self._progress.take(event)

    def graph_html(self) -> Html:
        """Return the graph as it is now; nothing if the log does not hold it."""
        if self._picture is not None and self._progress is not None and self._is_stale:
            self._graph = self._picture.html(self._progress.states(self._run))
        self._is_stale = False
        return self._graph

    def pieces(self, form: Form, printed: dict[str, str]) -> dict[str, Html]:
        """Return the steps and their questions by their keys. ``printed``: the end of what each open step has printed."""
        found = with_questions(self._run, step_pieces(self._run, form), form)
        for path, text in printed.items():
            key, lines = f"step:{path}", text.rstrip().rsplit("\n", 1)
            if key in found and lines[-1]:
                found[key] = joined(found[key], tag("div", "tool-printing", lines[-1]))
        return found
