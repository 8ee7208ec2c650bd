"""Operations of a model on a list of todos: pure functions from a list and input to a new list and a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from agentnb.core.todos import Todo, Todos, has_open, is_open
from agentnb.errors import with_names
from agentnb.tools.todos import todo_validation
from agentnb.tools.todos.items import Fields, decode_json, item_label, read_item, value_text

ErrorCode: TypeAlias = Literal["invalid_arguments", "todo_error"]


@dataclass(frozen=True, slots=True)
class Report:
    """Outcome of an operation, for the model."""

    headline: str
    """One-line summary."""
    applied: tuple[str, ...] = ()
    """The changes that an update applied, one line per entry (likewise in the next two fields)."""
    failed: tuple[str, ...] = ()
    redundant: tuple[str, ...] = ()
    """Entries without effect."""
    notes: tuple[str, ...] = ()
    """Further remarks for the model."""


class Refused(Exception):
    """A refused operation: the list is unchanged, and all problems are listed."""

    def __init__(self, what: str, problems: Iterable[str] = (), code: ErrorCode = "todo_error") -> None:
        self.what = what
        self.problems = tuple(problems)
        self.code: ErrorCode = code
        super().__init__("\n".join([what, *(f"- {problem}" for problem in self.problems)]))


Operation: TypeAlias = Callable[[Todos, Any, datetime], tuple[Todos, Report]]
"""Function of the current list, the model's input and the time. Raises `Refused`. Returns the same list object if nothing
changed."""


def read(todos: Todos, given: Any = None, now: datetime | None = None) -> tuple[Todos, Report]:
    """Return the list unchanged."""
    if not todos:
        return todos, Report('There are no todos. Create the list with operation "write".')
    return todos, Report(f"Read {_count(todos)}.", notes=_remarks(todos))


def write(todos: Todos, given: Any, now: datetime) -> tuple[Todos, Report]:
    """Replace the list. Completed todos must remain, and at most one todo may be in progress."""
    refusal = "The list was not written and is unchanged:"
    read_items = _read_all(_as_list(given, "todoList"), "todoList", ("id", "title", "status"), refusal)
    before = {todo.id: todo for todo in todos}
    written, notes = _one_in_progress([todo_validation.clear_reason(Todo(**fields)) for fields in read_items])
    wrong = [f"{item_label('todoList', index, written[index])}: {problem}" for index, problem in _judge(written, 0)]
    dropped = _dropped_todos(todos, written)
    if dropped:
        refusal = 'The list was not written and is unchanged. Keep completed todos, or use operation "add" for new work:'
    if wrong or dropped:
        raise Refused(refusal, wrong + dropped, "todo_error" if dropped else "invalid_arguments")
    after = tuple([_set_times(todo, before.get(todo.id), now) for todo in written])
    if after == todos:
        return todos, Report("Nothing to write: the list is unchanged.", notes=(*notes, *_remarks(todos)))
    return after, Report(f"Wrote {_count(after)}.", notes=(*notes, *_remarks(after)))


def update(todos: Todos, given: Any, now: datetime) -> tuple[Todos, Report]:
    """Change todos entry by entry in order. An invalid entry does not affect the others."""
    if not todos:
        raise Refused('There is no list to update. Create it first, with operation "write" and todoList.')
    applied, failed, redundant = [], [], []
    after = todos
    for index, entry in enumerate(_as_list(given, "todoUpdates", least=1)):
        fields, wrong = read_item(entry, ("id",))
        label = item_label("todoUpdates", index, entry)
        try:
            if wrong:
                raise Refused("; ".join(wrong))
            changed = change(after, fields.pop("id"), fields, now)
        except Refused as refused:
            failed.append(f"{label}: {refused.what}")
            continue
        if changed is after:
            state = f"already {fields['status']}" if "status" in fields else "unchanged"
            redundant.append(f"{label}: is {state}")
        else:
            applied.append(f"{label}: {_difference(after, changed)}")
        after = changed
    headline = f"Updated: {len(applied)} applied, {len(failed)} failed, {len(redundant)} redundant."
    return after, Report(headline, tuple(applied), tuple(failed), tuple(redundant), _remarks(after))


def add(todos: Todos, given: Any, now: datetime) -> tuple[Todos, Report]:
    """Add new todos at the end, with the next ids."""
    read_items = _read_all(_as_list(given, "newTodos", least=1), "newTodos", ("title",), "Nothing was added:")
    start = next_id(todos)
    wrong, new = [], []
    for index, fields in enumerate(read_items):
        if fields.setdefault("id", start + index) != start + index:
            wrong.append(f"newTodos[{index}]: its id will be {start + index}: leave id out")
        new.append(todo_validation.clear_reason(Todo(**fields, created_at=now)))
    after = (*todos, *new)
    if not wrong:  # with wrong ids, dependencies are ambiguous
        at = len(todos)
        wrong = [f"{item_label('newTodos', index - at, after[index])}: {problem}" for index, problem in _judge(after, at)]
    if wrong:
        raise Refused("Nothing was added:", wrong, "invalid_arguments")
    ids = f"id {start}" if len(new) == 1 else f"ids {start} to {after[-1].id}"
    return after, Report(f"Added {_count(new)}: {ids}.", notes=_remarks(after))


def change(todos: Todos, number: int, fields: Fields, now: datetime) -> Todos:
    """Return the list with fields of a todo changed, or the same object if nothing changes. Raises `Refused`."""
    index = next((index for index, todo in enumerate(todos) if todo.id == number), None)
    if index is None:
        raise Refused(with_names(f"there is no todo {value_text(number)}.", str(number), [str(todo.id) for todo in todos]))
    old = todos[index]
    if not fields:
        raise Refused('nothing to change: give status, or another field, as in {"id": 1, "status": "completed"}')
    if fields.get("blocked_reason") and "status" not in fields and old.status != "blocked":
        raise Refused('it is not blocked: give "status": "blocked" along with blockedReason')
    new = todo_validation.clear_reason(msgspec.structs.replace(old, **fields))
    if new == old:
        return todos
    after = (*todos[:index], msgspec.structs.replace(new, updated_at=now), *todos[index + 1 :])
    wrong = list(todo_validation.problems(after, [index]))
    if wrong:  # a custom board may have a todo that was invalid before: it can still be completed
        wrong = [problem for problem in wrong if problem not in list(todo_validation.problems(todos, [index]))]
    if wrong:
        raise Refused("; ".join(problem for _, problem in wrong))
    return after


def next_id(todos: Iterable[Todo]) -> int:
    """Return the largest id plus one, or 1 for an empty list."""
    return max([todo.id for todo in todos], default=0) + 1


def _as_list(given: Any, parameter: str, least: int = 0) -> Sequence[Any]:
    """Return the items as a list; a single object becomes a list."""
    given = decode_json(given)
    if isinstance(given, dict):
        return [given]
    if isinstance(given, list | tuple):
        if len(given) < least:
            raise Refused(f"{parameter} is empty", code="invalid_arguments")
        return given
    raise Refused(f"{parameter} must be a list of objects, not {value_text(given)}", code="invalid_arguments")


def _read_all(items: Sequence[Any], parameter: str, required: tuple[str, ...], refusal: str) -> list[Fields]:
    done, wrong = [], []
    for index, item in enumerate(items):
        fields, problems = read_item(item, required)
        done.append(fields)
        wrong += [f"{item_label(parameter, index, item)}: {problem}" for problem in problems]
    if wrong:
        raise Refused(refusal, wrong, "invalid_arguments")
    return done


def _judge(todos: Sequence[Todo], start: int) -> list[tuple[int, str]]:
    return list(todo_validation.problems(todos, range(start, len(todos))))


def _one_in_progress(todos: list[Todo]) -> tuple[list[Todo], list[str]]:
    later = [index for index, todo in enumerate(todos) if todo.status == "in-progress"][1:]
    if not later:
        return todos, []
    kept = [msgspec.structs.replace(todo, status="not-started") if index in later else todo for index, todo in enumerate(todos)]
    ids = ", ".join(str(todos[index].id) for index in later)
    return kept, [f"Only one todo may be in progress. The first one stays in progress; set to not-started: {ids}."]


def _dropped_todos(before: Iterable[Todo], after: Iterable[Todo]) -> list[str]:
    """Describe completed todos that are missing. A different open todo with the same id does not count as preserving one."""
    kept = {todo.id: todo for todo in after}
    gone = []
    for todo in before:
        successor = kept.get(todo.id)
        replaced = successor is not None and is_open(successor) and successor.title.casefold() != todo.title.casefold()
        if not is_open(todo) and (successor is None or replaced):
            state = "missing" if successor is None else f"another todo, {value_text(successor.title)}"
            gone.append(f"id {todo.id} {value_text(todo.title)} is completed, but here it is {state}")
    return gone


def _set_times(todo: Todo, before: Todo | None, now: datetime) -> Todo:
    if before is None:
        return msgspec.structs.replace(todo, created_at=now)
    todo = msgspec.structs.replace(todo, created_at=before.created_at, updated_at=before.updated_at)
    return before if todo == before else msgspec.structs.replace(todo, updated_at=now)


def _difference(before: Todos, after: Todos) -> str:
    """Describe how the changed todo has changed."""
    old, new = next((old, new) for old, new in zip(before, after, strict=True) if old is not new)
    changes = [f"{old.status} -> {new.status}"] if old.status != new.status else []
    ignored = ("status", "updated_at", "blocked_reason" if changes else "")
    changes += [
        f"{name} changed"
        for attribute, name in zip(Todo.__struct_fields__, Todo.__struct_encode_fields__, strict=True)
        if attribute not in ignored and getattr(old, attribute) != getattr(new, attribute)
    ]
    return ", ".join(changes)


def _remarks(todos: Sequence[Todo]) -> tuple[str, ...]:
    if todos and not has_open(todos):
        done = "The only todo is" if len(todos) == 1 else f"All {len(todos)} todos are"
        return (f'{done} completed. For new work use operation "add" with newTodos.',)
    busy = sum(todo.status == "in-progress" for todo in todos)
    return (f"{busy} todos are in progress: work on one at a time.",) if busy > 1 else ()


def _count(todos: Sequence[Todo]) -> str:
    return "1 todo" if len(todos) == 1 else f"{len(todos)} todos"
