"""Board with a list of todos. The model changes it through its tool, the person from any cell; both see changes at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Protocol, TypeGuard

import msgspec

from agentnb.core.todos import Todo, Todos, format_count, format_list
from agentnb.errors import SettingsError, suggest_names
from agentnb.tools.todos import operations, todo_validation
from agentnb.tools.todos.items import OF_A_PERSON, Fields, item_label, read_fields
from agentnb.tools.todos.operations import Refused


class Board(Protocol):
    """A list of todos with several writers."""

    def read(self) -> Todos:
        """Return the current list: the same tuple object until something changes."""

    def change(self, update: Callable[[Todos], Todos]) -> Todos:
        """Apply ``update`` to the list atomically, and return the new list.

        If it raises, nothing changes and the exception propagates.
        """


def is_board(value: Any) -> TypeGuard[Board]:
    """True if the value can be read and changed as a `Board`."""
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("read", "change"))


class TodoBoard(Board):
    """A list of todos in memory, shared by the person and the agent; thread-safe, for use from any cell.

    ``TodoBoard(["Load the data", "Describe it"])`` accepts titles, dicts or `Todo` objects. ``start``, ``complete``,
    ``reopen``, ``block``, ``edit``, ``add``, ``move`` and ``remove`` change it; a running agent sees changes the next time it
    looks. Raises `SettingsError`.
    """

    def __init__(self, todos: Iterable[Todo | Fields | str] = ()) -> None:
        self._lock = threading.RLock()
        self._changing = False
        self._todos: Todos = _initial_list(todos)

    def read(self) -> Todos:
        """Return the current list: the same tuple object until something changes. Never waits."""
        return self._todos

    def change(self, update: Callable[[Todos], Todos]) -> Todos:
        """Apply ``update`` to the list atomically, and return the new list.

        If it raises, nothing changes and the exception propagates.
        """
        with self._lock:
            if self._changing:  # called from ``update`` itself: the change would be lost
                raise SettingsError("The board is already being changed by this function", "Return the new list instead")
            try:
                self._changing = True
                changed = _only_todos(update(self._todos))
                if changed != self._todos:
                    self._todos = changed
                return self._todos
            finally:
                self._changing = False

    def add(self, title: str, description: str = "", **fields: Any) -> Todo:
        """Add a todo at the end."""
        values = _check_fields("Nothing was added", {"title": title, "description": description, **fields})

        def append(todos: Todos) -> Todos:
            new = _new_todo(todos, values)
            _check("Nothing was added", (*todos, new), [len(todos)])
            return (*todos, new)

        return self.change(append)[-1]

    def start(self, id: int) -> Todo:  # noqa: A002  # the field's name
        """Mark the todo as in progress."""
        return self.edit(id, status="in-progress")

    def complete(self, id: int) -> Todo:  # noqa: A002
        """Mark the todo as completed."""
        return self.edit(id, status="completed")

    def reopen(self, id: int) -> Todo:  # noqa: A002
        """Mark the todo as not started, or not finished after all."""
        return self.edit(id, status="not-started")

    def block(self, id: int, reason: str) -> Todo:  # noqa: A002
        """Mark the todo as blocked: it waits for something beyond the agent's control."""
        if not isinstance(reason, str) or not reason.strip():
            raise SettingsError(f"Todo {id} cannot be blocked without a reason", f'board.block({id}, "waiting for ...")')
        return self.edit(id, status="blocked", blocked_reason=reason)

    def remove(self, id: int) -> Todo:  # noqa: A002
        """Remove the todo, completed or not, and drop it from the dependencies of the others."""
        removed: list[Todo] = []

        def drop(todos: Todos) -> Todos:
            removed.append(_find(todos, id))
            return tuple([_drop_dependency(todo, id) for todo in todos if todo is not removed[-1]])

        self.change(drop)
        return removed[-1]

    def move(self, id: int, before: int | None = None) -> Todo:  # noqa: A002
        """Move the todo before another one, or to the end. Its fields and dependent todos stay unchanged."""

        def reorder(todos: Todos) -> Todos:
            todo, successor = _find(todos, id), None if before is None else _find(todos, before)
            if successor is todo:
                return todos
            remaining = [candidate for candidate in todos if candidate is not todo]
            remaining.insert(len(remaining) if successor is None else remaining.index(successor), todo)
            return tuple(remaining)

        return _find(self.change(reorder), id)

    def edit(self, id: int, **fields: Any) -> Todo:  # noqa: A002
        """Change fields of a todo, named as in `Todo` or in JSON. Fields set to None return to their default."""
        refusal = f"Todo {id} was not changed"
        values = _check_fields(refusal, fields)

        def apply(todos: Todos) -> Todos:
            _find(todos, id)
            try:
                return operations.change(todos, id, values, _now()) if values else todos
            except Refused as refused:
                raise _error(refusal, [refused.what]) from refused

        return _find(self.change(apply), id)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy as an independent board."""
        return TodoBoard, (self._todos,)

    def __iter__(self) -> Iterator[Todo]:
        return iter(self._todos)

    def __len__(self) -> int:
        return len(self._todos)

    def __bool__(self) -> bool:
        """Return True, even for an empty board."""
        return True

    def __repr__(self) -> str:
        return f"<TodoBoard: {format_count(self._todos)}>" if self._todos else "<TodoBoard: empty>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(format_list(self._todos) or repr(self))


def _initial_list(given: Iterable[Todo | Fields | str]) -> Todos:
    """Return the initial list of a board. Items without an id get the largest preceding id plus one."""
    if type(given) is tuple and not given:  # the usual start of a run
        return ()
    refusal = "These todos are invalid"
    if isinstance(given, str | dict | Todo) or not isinstance(given, Iterable):
        raise SettingsError(f"{refusal}: they are not a list", 'TodoBoard(["Load the data", "Describe it"])')
    todos: list[Todo] = []
    problems: list[str] = []
    for index, item in enumerate(given):
        fields, wrong = _read(item)
        problems += [f"{item_label('todos', index, item)}: {problem}" for problem in wrong]
        if not wrong:
            todos.append(_new_todo(todos, fields))
    if problems:
        raise _error(refusal, problems)
    _check(refusal, todos, range(len(todos)))
    return tuple(todos)


def _new_todo(before: Iterable[Todo], fields: Fields) -> Todo:
    defaults: Fields = {"id": operations.next_id(before), "created_at": _now()}
    return todo_validation.clear_reason(Todo(**defaults | fields))


def _read(item: Any) -> tuple[Fields, list[str]]:
    if isinstance(item, Todo):
        return read_fields(msgspec.structs.asdict(item))
    if isinstance(item, str):
        return read_fields({"title": item})
    if not isinstance(item, dict):
        return {}, [f"must be a title, a dict or a Todo, not {type(item).__name__}"]
    fields, problems = read_fields(item)
    return fields, problems if "title" in item else ["title is missing", *problems]


def _check_fields(refusal: str, given: Fields) -> Fields:
    fields, problems = read_fields(given)
    if "id" in fields:
        problems.append("the board assigns the ids")
    if problems:
        raise _error(refusal, problems)
    return fields


def _check(refusal: str, todos: Iterable[Todo], places: Iterable[int]) -> None:
    todos = tuple(todos)
    problems = [
        f"{item_label('todos', index, todos[index])}: {problem}" for index, problem in todo_validation.problems(todos, places)
    ]
    if problems:
        raise _error(refusal, problems)


def _error(refusal: str, problems: Iterable[str]) -> SettingsError:
    return SettingsError(f"{refusal}: {'; '.join(problems)}", f"Fields of a todo: {', '.join(OF_A_PERSON)}")


def _only_todos(given: Any) -> Todos:
    todos = tuple(given) if isinstance(given, Iterable) else ()
    if not isinstance(given, Iterable) or not all(isinstance(todo, Todo) for todo in todos):
        raise SettingsError(f"The board does not accept {given!r}", "Return a tuple of Todo objects from the function")
    return todos


def _find(todos: Todos, number: int) -> Todo:
    if not isinstance(number, int) or isinstance(number, bool):
        raise SettingsError(f"{number!r} is not a todo number", "Use a whole number, such as board.complete(1)")
    for todo in todos:
        if todo.id == number:
            return todo
    advice = suggest_names(str(number), [str(todo.id) for todo in todos]) or 'It is empty: board.add("...") adds a todo'
    raise SettingsError(f"There is no todo {number} on the board", advice)


def _drop_dependency(todo: Todo, number: int) -> Todo:
    if number not in todo.dependencies:
        return todo
    remaining = tuple([dependency for dependency in todo.dependencies if dependency != number])
    return msgspec.structs.replace(todo, dependencies=remaining, updated_at=_now())


def _now() -> datetime:
    return datetime.now(UTC)


def as_todo_board(board: Board | None) -> TodoBoard:
    """Return the board if it is a `TodoBoard`. Raises `SettingsError` for a custom board."""
    if not isinstance(board, TodoBoard):
        raise SettingsError("This list is on a custom board", "Change it through that board")
    return board
