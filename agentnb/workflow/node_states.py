"""How the steps of a workflow stand, for the nodes and edges of its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from agentnb.core.events import AnyEvent
from agentnb.core.run import RunFacts
from agentnb.core.work_events import BranchTaken
from agentnb.core.work_state import StepRecord
from agentnb.workflow.graph import Choice, Edge, Graph

WAITING = "waiting"
"""The status of a step that waits for the person; all others are those of `StepRecord`."""
INTERRUPTED = "interrupted"
"""The status of a step that was open when the process died."""
_NONE: Mapping[str, int] = {}


class NodeState(NamedTuple):
    """How a step stands."""

    status: str = ""
    """running, waiting, completed, failed, cancelled, skipped or interrupted; empty if it has not begun."""
    times: int = 0
    """How often it was started."""
    attempts: int = 0
    """Attempts of the last time."""
    loops: Mapping[str, int] = _NONE
    """How often the edges from it were followed, by the path of the target; only those whose choices are logged."""
    items: Mapping[str, int] = _NONE
    """Of a map: how many of its items have each status."""
    seconds: float | None = None
    error: str = ""


class StepProgress:
    """Keeps what a run logs of the ways that its steps took. Pass it each event."""

    def __init__(self, graph: Graph, events: Iterable[AnyEvent] = ()) -> None:
        self._graph = graph
        self._nodes = {node.path: node for node in graph.all_nodes}
        self._maps = {path for path, node in self._nodes.items() if node.is_map}
        self._edges: dict[str, list[Edge]] = {}
        for edge in _all_edges(graph):
            if edge.choices:
                self._edges.setdefault(edge.source, []).append(edge)
        self._taken: Counter[Choice] = Counter()
        for event in events:
            self.take(event)

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        if isinstance(event, BranchTaken):
            self._taken[Choice(event.step, event.to)] += 1

    def states(self, run: RunFacts) -> dict[str, NodeState]:
        """Return the state of each step that has begun or was skipped, by path."""
        waits = {one.call_id for one in run.waiting}
        items: dict[str, Counter[str]] = {path: Counter() for path in self._maps}
        found: dict[str, NodeState] = {}
        for path, record in step_records(run).items():
            if path in self._nodes:
                found[path] = self._state(record, run, waits)
            elif (block := path.rpartition("/")[0]) in items:
                items[block][status_of(record, run, waits)] += 1
        for path, counts in items.items():
            if counts:
                found[path] = found.get(path, NodeState("running"))._replace(items=dict(counts))
        return found

    def _state(self, record: StepRecord, run: RunFacts, waits: set[str]) -> NodeState:
        loops = {edge.target: count for edge in self._edges.get(record.id, ()) if (count := self._followed(edge))}
        status = status_of(record, run, waits)
        return NodeState(status, record.times, record.attempts, loops, seconds=record.seconds, error=record.error)

    def _followed(self, edge: Edge) -> int:
        # Where a condition leads to a goto, both may be logged: they are one way.
        return max(self._taken[choice] for choice in edge.choices)


def node_states(graph: Graph, run: RunFacts) -> dict[str, NodeState]:
    """Return how the steps of a run stand, by path."""
    return StepProgress(graph, run.events).states(run)


def step_records(run: RunFacts) -> Mapping[str, StepRecord]:
    """Return the steps of a run by path, in the order in which they first began."""
    return run.step_records


def status_of(record: StepRecord, run: RunFacts, waits: Collection[str]) -> str:
    """Return the status of a step. ``waits``: the steps that have asked the person something."""
    if record.status != "running":
        return record.status
    if record.id in waits:
        return WAITING
    return "running" if run.should_continue else INTERRUPTED


def _all_edges(graph: Graph) -> Iterator[Edge]:
    yield from graph.edges
    for node in graph.all_nodes:
        for child in node.children:
            yield from child.edges
