"""The table of todos: one row per change of a todo, and one per todo violation."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agentnb.core.log.events import TodosChanged, ToolFinished
from agentnb.core.run.fold import by_round, todos_at_start
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.todos import Todo
from agentnb.detect.judgements import TODO_VIOLATIONS
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.folders import frame_of
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd


Violations: TypeAlias = dict[tuple[str, "int | None"], deque[str]]
"""Rules broken in a round, by call and todo id; the id is None for a work call."""


class Row(NamedTuple):
    """A change of a todo or of the list, or a violation of its rules."""

    run_id: str
    round: int | None
    at: datetime | None
    by: str
    what: str
    before: Todo | None = None
    after: Todo | None = None
    call_id: str = ""

    @property
    def todo(self) -> Todo | None:
        """The todo's latest state."""
        return self.after or self.before


COLUMNS: list[Column[Row]] = columns_of(
    "todos",
    {
        "changed": lambda row: _changed_fields(row.before, row.after),
        "breach": lambda row: row.what in TODO_VIOLATIONS,
    },
)


def _rows(run: Run) -> Iterator[Row]:
    todos_by_id = {todo.id: todo for todo in todos_at_start(run)}
    for todo in todos_at_start(run):
        yield Row(run.id, None, run.started_at, "", "inherited", None, todo)
    broken = [_violations_of(entry) for entry in run.rounds]
    for current, event in by_round(run):
        violations = {} if current is None else broken[current]
        if isinstance(event, TodosChanged):
            after = {todo.id: todo for todo in event.todos}
            for todo_id in [*after, *(todo_id for todo_id in todos_by_id if todo_id not in after)]:
                yield from _changes(run, current, event, todos_by_id.get(todo_id), after.get(todo_id), violations)
            if [todo_id for todo_id in todos_by_id if todo_id in after] != [
                todo_id for todo_id in after if todo_id in todos_by_id
            ]:
                yield Row(run.id, current, event.at, event.by, "reordered", call_id=event.call_id)
            todos_by_id = after
        elif isinstance(event, ToolFinished) and current is not None:
            call_id = event.result.call_id
            for rule in violations.pop((call_id, None), ()):
                yield Row(run.id, current, event.at, "model", rule, call_id=call_id)


def _violations_of(one: WorkflowRound) -> Violations:
    """Return the rules that each call of the round broke for each todo, oldest first."""
    violations: Violations = {}
    for violation in one.todo_violations:
        violations.setdefault((violation.call_id, violation.todo_id), deque()).append(violation.rule)
    return violations


def _changes(
    run: Run, index: int | None, event: TodosChanged, before: Todo | None, after: Todo | None, violations: Violations
) -> Iterator[Row]:
    """Yield the change of a todo, and its violation, which is then removed from ``violations``."""
    if before == after:
        return
    yield Row(run.id, index, event.at, event.by, _what(before, after), before, after, event.call_id)
    if event.by == "model" and after is not None and _is_completion(before, after):
        rules = violations.get((event.call_id, after.id))
        if rules:
            yield Row(run.id, index, event.at, event.by, rules.popleft(), before, after, event.call_id)


def _is_completion(before: Todo | None, after: Todo) -> bool:
    return after.status == "completed" and (before is None or before.status != "completed")


def _changed_fields(before: Todo | None, after: Todo | None) -> str | None:
    """Return the names of the fields that changed, except the time of the change."""
    if before is None or after is None:
        return None
    names = [name for name in Todo.__struct_fields__ if name != "updated_at" and getattr(before, name) != getattr(after, name)]
    return ", ".join(names) or None


def _what(before: Todo | None, after: Todo | None) -> str:
    if before is None:
        return "added"
    if after is None:
        return "removed"
    return "status" if before.status != after.status else "edited"


TABLE = Table("todos", COLUMNS, _rows)


def todos(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per change of a todo, and one per breach of the list's rules, in order."""
    return frame_of(source, TABLE, cache)
