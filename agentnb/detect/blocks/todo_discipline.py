"""Work that does not follow its todo list: talk instead of work, planning without work, and reopened todos."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.log.events import AnyEvent, TodosChanged
from agentnb.core.log.work_events import Severity
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import ASKED_FOR_TOOLS, WorkflowRound
from agentnb.core.todos import has_open
from agentnb.detect.blocks.detector_bases import Ladder, RoundDetector, RowDetector, ladder_of, severity_at
from agentnb.detect.detector import Finding

MAX_TODOS = 256
"""Maximum todos tracked."""


class TalkWithOpenTodos(RowDetector):
    """``times`` replies in a row without a call although todos are open, with no message from the person between them.

    A reply that announced calls does not count: the trace records them elsewhere, or lacks them.
    """

    rule = "talk_with_open_todos"
    family = "stall"

    def __init__(self, times: int | Ladder = 3, severity: Severity = "nudge") -> None:
        super().__init__(times, severity)

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Count a reply."""
        if one.records or not run.todos or not has_open(run.todos):
            self._count = 0
            return ()
        if one.stop_reason in ASKED_FOR_TOOLS:
            return ()
        return self._count_round(one, "{} replies in a row called no tool while todos were open")


class PlanningOnly(RowDetector):
    """More than ``most`` rounds with only planning calls. Completing a todo is progress; replies without calls do not count."""

    rule = "planning_only"
    family = "stall"

    def __init__(self, most: int = 3, severity: Severity = "nudge") -> None:
        super().__init__(most + 1, severity)
        self.most = most

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Count a round."""
        records = one.records
        if not records:
            return ()
        if records[0].role == "work" or one.completed or any(record.role == "work" for record in records):
            self._count = 0
            return ()
        return self._count_round(one, "{} rounds of planning with no work in between")


class ReopenedTodo(RoundDetector):
    """The model reopened a completed todo for the ``times``-th time."""

    rule = "todo_reopened"
    family = "discipline"

    def __init__(self, times: int | Ladder = 1, severity: Severity = "notice") -> None:
        self.times = ladder_of(times, severity)
        self._completed: dict[int, int] = {}
        """Round in which each todo was completed."""
        self._reopened: dict[int, int] = {}

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Process a change to the list."""
        if type(event) is not TodosChanged or event.by != "model":
            return ()
        index = max(len(run.rounds) - 1, 0)
        findings: tuple[Finding, ...] = ()
        for todo in event.todos[:MAX_TODOS]:
            if todo.status == "completed":
                self._completed.setdefault(todo.id, index)
            elif todo.id in self._completed:
                first = self._completed.pop(todo.id)
                self._reopened[todo.id] = count = self._reopened.get(todo.id, 0) + 1
                if (severity := severity_at(self.times, count)) is not None:
                    sentence = f"Todo {todo.id} was completed and then opened again, {count} times so far"
                    findings = (*findings, *self.finding(first, index, severity, sentence, {"todo": todo.title}))
        return findings
