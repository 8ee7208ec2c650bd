"""The tool with which a model keeps its todos."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from agentnb.core.messages import Text
from agentnb.core.todos import Todos, headed, is_open
from agentnb.errors import near
from agentnb.tools.todos import operations
from agentnb.tools.todos.board import Board
from agentnb.tools.todos.items import decoded, shown
from agentnb.tools.todos.operations import Operation, Refused, Report
from agentnb.tools.todos.schema import OPERATIONS, PARAMETERS, todo_spec
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

_CHANGES: dict[str, Operation] = {"write": operations.write, "update": operations.update, "add": operations.add}
_EXAMPLES = {
    "read": '{"operation": "read"}',
    "write": '{"operation": "write", "todoList": [{"id": 1, "title": "Load the data", "status": "not-started"}]}',
    "update": '{"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}]}',
    "add": '{"operation": "add", "newTodos": [{"title": "Plot the result"}]}',
}


class TodoChange(NamedTuple):
    """The list right before and right after a call: the value of its outcome."""

    before: Todos
    after: Todos


class _Asked(NamedTuple):
    """A call with valid arguments."""

    operation: str
    given: Any
    unused: list[str]
    """Parameters that belong to other operations."""


class TodoTool:
    """``todo_operations`` on a board: read, write, update, add. One call at a time, and without a thread."""

    effects: frozenset[Effect] | None = frozenset()
    parallel_safe = False
    blocking = False
    timeout: float | None = None

    def __init__(self, board: Board) -> None:
        self.board = board
        self.spec = todo_spec()
        self._shown: Todos = ()
        """The list as the model last saw it."""

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Do what the arguments ask for, and return the list as it is then."""
        arguments = decoded(arguments)
        try:
            asked = _asked(arguments)
            change, report = self._done(asked)
        except Refused as refused:
            self._shown = self.board.read()
            return failure(refused.code, _with_list(_advised(refused, arguments), self._shown))
        self._shown = change.after
        text = _with_list(_told(report, asked), change.after)
        if report.failed and not report.applied and not report.redundant:
            return failure("todo_error", text)
        return ToolOutcome(True, (Text(text),), change)

    def _done(self, asked: _Asked) -> tuple[TodoChange, Report]:
        if asked.operation == "read":
            todos, report = operations.read(self.board.read())
            return TodoChange(todos, todos), report
        done: list[tuple[TodoChange, Report]] = []

        def changed(todos: Todos) -> Todos:
            after, report = _CHANGES[asked.operation](todos, asked.given, datetime.now(UTC))
            _keep_unseen(todos, after, self._shown)
            done.append((TodoChange(todos, after), report))
            return after

        self.board.change(changed)
        if not done:
            raise RuntimeError("The board did not make the change")
        return done[-1]

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"


def _keep_unseen(before: Todos, after: Todos, shown_last: Todos) -> None:
    """Raise `Refused` if open todos of others would be lost that no result of this tool has shown yet."""
    shown_ids = {todo.id for todo in shown_last}
    kept = {todo.identity for todo in after}
    lost = [todo for todo in before if is_open(todo) and todo.id not in shown_ids and todo.identity not in kept]
    if lost:
        what = (
            "The list was not written, because these todos of others would go. Keep them in todoList, or use operation add; "
            "if they are to go, send the same again:"
        )
        raise Refused(what, [f"todo {todo.id}: {todo.title}" for todo in lost])


def _asked(arguments: Any) -> _Asked:
    """Parse the arguments of a call. Raises `Refused` if they are not valid."""
    four = f"one of {', '.join(OPERATIONS)}"
    if not isinstance(arguments, dict):
        what = f"The arguments must be an object with operation, {four}, not {shown(arguments)}."
        raise Refused(what, code="invalid_arguments")
    problems = []
    operation = _operation(arguments)
    if arguments.get("operation") is None:
        problems.append(f"operation is missing: give {four}.")
    elif not operation:
        problems.append(f"operation must be {four}, not {shown(arguments['operation'])}.")
    names = ("operation", *PARAMETERS.values())
    problems += [f"There is no parameter {shown(name)}. {near(str(name), names)}" for name in arguments if name not in names]
    needed = PARAMETERS.get(operation, "")
    given = arguments.get(needed)
    if needed and given is None:
        problems.append(f"Operation {operation} needs {needed}.")
    if problems:
        raise Refused(" ".join(problems), code="invalid_arguments")
    return _Asked(operation, given, [name for name in names[1:] if name != needed and arguments.get(name)])


def _operation(arguments: Any) -> str:
    """Return which of the four operations is named, in any case; empty if none is."""
    named = arguments.get("operation") if isinstance(arguments, dict) else None
    named = named.strip().lower() if isinstance(named, str) else ""
    return named if named in OPERATIONS else ""


def _advised(refused: Refused, arguments: Any) -> str:
    """Return what was wrong, with an example of correct arguments if they were invalid."""
    if refused.code != "invalid_arguments":
        return str(refused)
    return f"{refused}\nFor example: {_EXAMPLES[_operation(arguments) or 'read']}"


def _told(report: Report, asked: _Asked) -> str:
    lines = [report.headline]
    for what, entries in (("applied", report.applied), ("failed", report.failed), ("redundant", report.redundant)):
        lines += [f"- {what}: {entry}" for entry in entries]
    lines += report.notes
    if asked.unused:
        alone = PARAMETERS.get(asked.operation, "no other parameter")
        lines.append(
            f"Not used: {', '.join(asked.unused)}. Operation {asked.operation} takes {alone}; call again for the rest."
        )
    return "\n".join(lines)


def _with_list(text: str, todos: Todos) -> str:
    return f"{text}\n\n{headed(todos)}" if todos else text
