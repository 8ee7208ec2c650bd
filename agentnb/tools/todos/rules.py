"""When a list of todos is whole: dependencies lead somewhere and not in a circle, and what is blocked says why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from graphlib import CycleError, TopologicalSorter

import msgspec

from agentnb.core.todos import Todo


def problems(todos: Sequence[Todo], judged: Iterable[int]) -> Iterator[tuple[int, str]]:
    """What is wrong with the todos at these places: the place, and a sentence. All others are taken as they are."""
    judged = list(judged)
    first: dict[int, int] = {}
    for place, todo in enumerate(todos):
        first.setdefault(todo.id, place)
    for place in judged:
        todo = todos[place]
        if first[todo.id] != place:
            yield place, f"the id {todo.id} is taken by an earlier one: ids are unique"
        if todo.status == "blocked" and not todo.blocked_reason:
            yield place, "a blocked todo needs blockedReason"
        unknown = [str(number) for number in todo.dependencies if number not in first]
        if unknown:
            yield place, f"dependencies name todos that do not exist: {', '.join(unknown)}"
    circle = _circle(todos, [todos[place].id for place in judged])
    if circle:
        place = next((place for place in judged if todos[place].id in circle), judged[0])
        yield place, f"dependencies go in a circle: {' waits for '.join(map(str, circle))}"


def settled(todo: Todo) -> Todo:
    """Only what is blocked has a reason for it."""
    if todo.status == "blocked" or todo.blocked_reason is None:
        return todo
    return msgspec.structs.replace(todo, blocked_reason=None)


def _circle(todos: Sequence[Todo], starts: Iterable[int]) -> list[int]:
    """Ids of which each waits for the next, the last being the first again, among what ``starts`` wait for; empty if none."""
    waits = {todo.id: todo.dependencies for todo in todos}
    reached: dict[int, tuple[int, ...]] = {}
    left = list(starts)
    while left:
        one = left.pop()
        if one in waits and one not in reached:
            reached[one] = waits[one]
            left += waits[one]
    try:
        TopologicalSorter(reached).prepare()
    except CycleError as error:
        found: list[int] = error.args[1]
        return found[::-1]  # it lists what comes before what
    return []
