"""The tool with which a model maintains its todos."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from msgspec.structs import replace

from agentnb.core.messages import Text
from agentnb.core.request import ToolSpec
from agentnb.core.todos import TODO_TOOL, Todos, format_with_heading, is_open
from agentnb.errors import with_names
from agentnb.tools.todos import operations
from agentnb.tools.todos.board import Board
from agentnb.tools.todos.items import PRIORITIES, STATUSES, decode_json, value_text
from agentnb.tools.todos.operations import Operation, Refused, Report
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

PARAMETERS = {"write": "todoList", "update": "todoUpdates", "add": "newTodos"}
"""Required parameter of each operation."""
OPERATIONS = ("read", *PARAMETERS)

_ITEM: dict[str, dict[str, Any]] = {
    "id": {"type": "integer"},
    "title": {"type": "string"},
    "description": {"type": "string"},
    "status": {"type": "string", "enum": list(STATUSES)},
    "priority": {"type": "string", "enum": list(PRIORITIES)},
    "dependencies": {"type": "array", "items": {"type": "integer"}},
    "canRunParallel": {"type": "boolean"},
    "parallelGroup": {"type": "string"},
    "progress": {"type": "number", "minimum": 0, "maximum": 1},
    "blockedReason": {"type": "string"},
}


@cache
def todo_spec() -> ToolSpec:
    """Return the tool definition for the model, cached."""
    words = _words()
    properties = {
        "operation": {"type": "string", "enum": list(OPERATIONS), "description": words["operation"]},
        "todoList": _items(words, "todoList", ("id", "title", "status")),
        "todoUpdates": _items(words, "todoUpdates", ("id",)),
        "newTodos": _items(words, "newTodos", ("title",), without="id"),
    }
    schema = {"type": "object", "properties": properties, "required": ["operation"], "additionalProperties": False}
    return ToolSpec(TODO_TOOL, words[""], schema, role="list")


def _items(words: dict[str, str], parameter: str, required: tuple[str, ...], without: str = "") -> dict[str, Any]:
    properties = {name: kind | {"description": words[name]} for name, kind in _ITEM.items() if name != without}
    item = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "array", "description": words[parameter], "items": item}


def _words() -> dict[str, str]:
    """Return the description, under an empty name, and a line for each parameter and field."""
    text = files("agentnb.tools.todos").joinpath("todo_operations.md").read_text(encoding="utf-8")
    description, *parts = text.split("\n## ")
    words = {"": description.strip()}
    for part in parts:
        name, _, line = part.partition("\n")
        words[name.strip()] = " ".join(line.split())
    return words


_CHANGES: dict[str, Operation] = {"write": operations.write, "update": operations.update, "add": operations.add}
_EXAMPLES = {
    "read": '{"operation": "read"}',
    "write": '{"operation": "write", "todoList": [{"id": 1, "title": "Load the data", "status": "not-started"}]}',
    "update": '{"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}]}',
    "add": '{"operation": "add", "newTodos": [{"title": "Plot the result"}]}',
}


class TodoChange(NamedTuple):
    """The lists immediately before and after a call; the value of its outcome."""

    before: Todos
    after: Todos


class _Call(NamedTuple):
    """A call with valid arguments."""

    operation: str
    value: Any
    unused: list[str]
    """Parameters of other operations."""


class TodoTool:
    """``todo_operations`` on a board: read, write, update, add. Runs sequentially, without a thread."""

    effects: frozenset[Effect] | None = frozenset()
    parallel_safe = False
    blocking = False
    timeout: float | None = None

    def __init__(self, board: Board) -> None:
        self.board = board
        self.spec = todo_spec()
        self._shown: Todos = ()
        """The list last shown to the model."""
        self._at_first = _identities(board)
        """Todos on the board at the start of the run."""

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Apply the requested operation, and return the resulting list."""
        arguments = decode_json(arguments)
        try:
            asked = _parse_call(arguments)
            change, report = self._apply(asked)
        except Refused as refused:
            self._shown = self.board.read()
            return failure(refused.code, _with_list(_error_text(refused, arguments), self._shown))
        self._shown = change.after
        text = _with_list(_report_text(report, asked), change.after)
        if report.failed and not report.applied and not report.redundant:
            return failure("todo_error", text)
        return ToolOutcome(True, (Text(text),), change)

    def _apply(self, asked: _Call) -> tuple[TodoChange, Report]:
        if asked.operation == "read":
            todos, report = operations.read(self.board.read())
            return TodoChange(todos, todos), report
        done: list[tuple[TodoChange, Report]] = []

        def apply(todos: Todos) -> Todos:
            after, report = _CHANGES[asked.operation](todos, asked.value, datetime.now(UTC))
            unseen = todos
            if not self._shown:  # its first list: keep todos added by others meanwhile
                after, report = _with_added(todos, after, report, self._at_first)
                unseen = tuple([todo for todo in todos if todo.identity in self._at_first])
            _keep_unseen(unseen, after, self._shown)
            done.append((TodoChange(todos, after), report))
            return after

        self.board.change(apply)
        if not done:
            raise RuntimeError("The board rejected the change")
        return done[-1]

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"


_NO_TODOS: frozenset[tuple[int, str]] = frozenset()


def _identities(board: Board) -> frozenset[tuple[int, str]]:
    try:
        todos = board.read()
        return frozenset([todo.identity for todo in todos]) if todos else _NO_TODOS
    except Exception:  # a custom board: the run reports the error when it reads it
        return _NO_TODOS


def _with_added(before: Todos, after: Todos, report: Report, at_first: frozenset[tuple[int, str]]) -> tuple[Todos, Report]:
    """Append to the model's first list any open todos that others have added since the start of the run.

    A todo with a conflicting id gets the next free one.
    """
    titles = {todo.title.casefold() for todo in after}
    added = [todo for todo in before if is_open(todo) and todo.identity not in at_first and todo.title.casefold() not in titles]
    used = {todo.id for todo in after}
    new_ids = {todo.id: todo.id for todo in added}
    free = max([*used, *new_ids], default=0) + 1
    for number in used & set(new_ids):
        new_ids[number], free = free, free + 1
    for todo in added:
        others = tuple([new_ids.get(number, number) for number in todo.dependencies])
        after = (*after, replace(todo, id=new_ids[todo.id], dependencies=others))
    if not added:
        return after, report
    kept = ", ".join(f"{new_ids[todo.id]} {value_text(todo.title)}" for todo in added)
    note = f"Kept because the user added {'it' if len(added) == 1 else 'them'}: {kept}."
    return after, dataclasses.replace(report, notes=(*report.notes, note))


def _keep_unseen(before: Todos, after: Todos, shown_last: Todos) -> None:
    """Raise `Refused` if the change would lose others' open todos that no result of this tool has shown."""
    shown_ids = {todo.id for todo in shown_last}
    kept = {todo.identity for todo in after}
    lost = [todo for todo in before if is_open(todo) and todo.id not in shown_ids and todo.identity not in kept]
    if lost:
        message = (
            "The list was not written: this would delete todos added by the user. Keep them in todoList, or use operation "
            "add; to delete them, resend:"
        )
        raise Refused(message, [f"todo {todo.id}: {todo.title}" for todo in lost])


def _parse_call(arguments: Any) -> _Call:
    """Parse the arguments of a call. Raises `Refused` for invalid ones."""
    four = f"one of {', '.join(OPERATIONS)}"
    if not isinstance(arguments, dict):
        message = f"The arguments must be an object with operation, {four}, not {value_text(arguments)}."
        raise Refused(message, code="invalid_arguments")
    problems = []
    operation = _operation(arguments)
    if arguments.get("operation") is None:
        problems.append(f"operation is missing: give {four}.")
    elif not operation:
        problems.append(f"operation must be {four}, not {value_text(arguments['operation'])}.")
    names = ("operation", *PARAMETERS.values())
    unknown = [name for name in arguments if name not in names]
    problems += [with_names(f"There is no parameter {value_text(name)}.", str(name), names) for name in unknown]
    needed = PARAMETERS.get(operation, "")
    value = arguments.get(needed)
    if needed and value is None:
        problems.append(f"Operation {operation} needs {needed}.")
    if problems:
        raise Refused(" ".join(problems), code="invalid_arguments")
    return _Call(operation, value, [name for name in names[1:] if name != needed and arguments.get(name)])


def _operation(arguments: Any) -> str:
    """Return the requested operation regardless of case, or ""."""
    named = arguments.get("operation") if isinstance(arguments, dict) else None
    named = named.strip().lower() if isinstance(named, str) else ""
    return named if named in OPERATIONS else ""


def _error_text(refused: Refused, arguments: Any) -> str:
    """Return the problem, with an example of valid arguments if they were invalid."""
    if refused.code != "invalid_arguments":
        return str(refused)
    return f"{refused}\nFor example: {_EXAMPLES[_operation(arguments) or 'read']}"


def _report_text(report: Report, asked: _Call) -> str:
    lines = [report.headline]
    for kind, entries in (("applied", report.applied), ("failed", report.failed), ("redundant", report.redundant)):
        lines += [f"- {kind}: {entry}" for entry in entries]
    lines += report.notes
    if asked.unused:
        alone = PARAMETERS.get(asked.operation, "no other parameter")
        lines.append(
            f"Not used: {', '.join(asked.unused)}. Operation {asked.operation} accepts {alone}; call again for the rest."
        )
    return "\n".join(lines)


def _with_list(text: str, todos: Todos) -> str:
    return f"{text}\n\n{format_with_heading(todos)}" if todos else text
