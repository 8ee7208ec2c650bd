"""States of a workflow's steps, for the nodes and edges of its graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from agentnb.core.log.events import AnyEvent
from agentnb.core.log.work_events import BranchTaken, StepEvent
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.work_records import StepRecord, is_substituted
from agentnb.workflow.graph.drawing import Choice, Drawing, Edge

WAITING = "waiting"
"""Status of a step that waits for the person; the other statuses are those of `StepRecord`."""
RETRYING = "retrying"
"""Status of a step between a failed attempt and the next one."""
INTERRUPTED = "interrupted"
"""Status of a step that was open when the process died."""
_NONE: Mapping[str, int] = {}


class NodeState(NamedTuple):
    """The state of a step."""

    status: str = ""
    """running, waiting, retrying, completed, failed, cancelled, skipped or interrupted; empty before it begins."""
    times: int = 0
    """Number of executions."""
    attempts: int = 0
    """Attempts in the most recent execution."""
    loops: Mapping[str, int] = _NONE
    """Number of times that each edge was taken, by target path; only for edges with logged choices."""
    items: Mapping[str, int] = _NONE
    """Item counts by status, for a map."""
    seconds: float | None = None
    error: str = ""
    """Error of the step or of its most recent attempt; for a completed step, the reason for its substitute output."""

    @property
    def is_substituted(self) -> bool:
        """True if the step failed and ``on_error`` supplied its output."""
        return is_substituted(self.status, self.error)


UNKNOWN = NodeState()
"""State of a step that has not begun."""


class StepProgress:
    """Tracks the states of a run's steps. Pass each event to it; `states` then updates only the steps that have changed."""

    def __init__(self, graph: Drawing) -> None:
        nodes = list(graph.all_nodes)
        self._nodes = {node.path for node in nodes}
        self._items: dict[str, Counter[str]] = {node.path: Counter() for node in nodes if node.is_map}
        self._edges: dict[str, list[Edge]] = {}
        for edge in _all_edges(graph):
            if edge.choices:
                self._edges.setdefault(edge.source, []).append(edge)
        self._taken: Counter[Choice] = Counter()
        self._changed: set[str] = set()
        self._open: set[str] = set()
        """Steps that are neither finished nor interrupted."""
        self._status_of_item: dict[str, str] = {}
        self._states: dict[str, NodeState] = {}

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        if isinstance(event, StepEvent):
            self._changed.add(event.step)
        if isinstance(event, BranchTaken):
            self._taken[Choice(event.step, event.to)] += 1
            # A goto in a branch is logged by another step than the source of its edge.
            self._changed |= self._states.keys() & self._edges.keys()

    def states(self, run: RunFacts) -> Mapping[str, NodeState]:
        """Return the states of all steps that have begun or were skipped, by path, as of the events passed so far."""
        records, waits = run.step_records, waiting_paths(run)
        for path in self._changed | self._open:
            record = records.get(path)
            if record is not None:
                self._update(record, status_of(record, run, waits))
        self._changed.clear()
        return MappingProxyType(self._states)

    def _update(self, record: StepRecord, status: str) -> None:
        path = record.id
        (self._open.add if status in ("running", WAITING, RETRYING) else self._open.discard)(path)
        if path in self._nodes:
            items = {item_status: count for item_status, count in self._items.get(path, _NONE).items() if count}
            loops = {edge.target: count for edge in self._edges.get(path, ()) if (count := self._count_traversals(edge))}
            self._states[path] = NodeState(
                status, record.times, max(record.attempts, record.attempt), loops, items, record.seconds, record.error
            )
        elif (block := path.rpartition("/")[0]) in self._items:
            counts = self._items[block]
            counts[status] += 1
            if before := self._status_of_item.get(path):
                counts[before] -= 1
            self._status_of_item[path] = status
            state = self._states.get(block, NodeState("running"))
            self._states[block] = state._replace(items={item_status: count for item_status, count in counts.items() if count})

    def _count_traversals(self, edge: Edge) -> int:
        # A condition that leads to a goto may log both: count them once.
        return max(self._taken[choice] for choice in edge.choices)


def node_states(graph: Drawing, run: RunFacts) -> Mapping[str, NodeState]:
    """Return the states of a run's steps, by path."""
    progress = StepProgress(graph)
    for event in run.events:
        progress.take(event)
    return progress.states(run)


def waiting_paths(run: RunFacts) -> set[str]:
    """Return the paths of the steps waiting for the person, of tasks whose actions contain such steps, and of blocks in which
    every running step waits.
    """
    waits = {question.call_id for question in run.waiting}
    records = run.step_records
    blocks = {path[:end] for path in waits for end, sign in enumerate(path) if sign == "/" and path[:end] in records}
    running = [path for path, record in records.items() if record.status == "running"] if blocks else []
    for block in sorted(blocks, key=len, reverse=True):  # the innermost first
        is_of_task = records[block].kind == "task" and any(path.rpartition("/")[0] == block for path in waits)
        if is_of_task or all(path in waits for path in running if path.startswith(f"{block}/")):
            waits.add(block)
    return waits


def status_of(record: StepRecord, run: RunFacts, waits: Collection[str]) -> str:
    """Return the status of a step. ``waits``: paths of steps waiting for the person.

    A task that ran and was later skipped by a loop counts as completed, since that is how a loop of tasks ends.
    """
    if record.status != "running":
        ended_loop = record.status == "skipped" and record.times > 0 and record.kind == "task"
        return "completed" if ended_loop else record.status
    if record.id in waits:
        return WAITING
    if not run.should_continue:
        return INTERRUPTED
    return RETRYING if record.attempt and record.attempts >= record.attempt else "running"


def _all_edges(graph: Drawing) -> Iterator[Edge]:
    yield from graph.edges
    for node in graph.all_nodes:
        for child in node.children:
            yield from child.edges
