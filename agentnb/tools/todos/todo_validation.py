"""Validation of a list of todos: existing, acyclic dependencies, and a reason for each blocked todo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

import msgspec

from agentnb.core.todos import Todo


def problems(todos: Sequence[Todo], judged: Iterable[int]) -> Iterator[tuple[int, str]]:
    """Yield the problems of the todos at these indexes, each as index and sentence. Other todos are not checked."""
    judged = list(judged)
    first: dict[int, int] = {}
    for index, todo in enumerate(todos):
        first.setdefault(todo.id, index)
    for index in judged:
        todo = todos[index]
        if first[todo.id] != index:
            yield index, f"the id {todo.id} is used by an earlier todo: ids must be unique"
        if todo.status == "blocked" and not todo.blocked_reason:
            yield index, "a blocked todo needs blockedReason"
        unknown = [str(number) for number in todo.dependencies if number not in first]
        if unknown:
            yield index, f"dependencies refer to todos that do not exist: {', '.join(unknown)}"
    circle = _circle(todos, [todos[index].id for index in judged])
    if circle:
        index = next((index for index in judged if todos[index].id in circle), judged[0])
        yield index, f"dependencies are circular: {' waits for '.join(map(str, circle))}"


def clear_reason(todo: Todo) -> Todo:
    """Remove the blocked reason of a todo that is not blocked."""
    if todo.status == "blocked" or todo.blocked_reason is None:
        return todo
    return msgspec.structs.replace(todo, blocked_reason=None)


def _circle(todos: Sequence[Todo], starts: Iterable[int]) -> list[int]:
    """Return a cycle of ids among the dependencies of ``starts``, empty if there is none.

    Each id depends on the next, and the last equals the first.
    """
    waits = {todo.id: todo.dependencies for todo in todos}
    reached: dict[int, tuple[int, ...]] = {}
    pending = list(starts)
    while pending:
        number = pending.pop()
        if number in waits and number not in reached:
            reached[number] = waits[number]
            pending += waits[number]
    try:
        TopologicalSorter(reached).prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]
        return cycle[::-1]  # the error lists dependencies first
    return []
