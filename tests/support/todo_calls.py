"""Todos in runs: the calls by which a model changes its list, and a board that is not agentnb's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from run_checks import checked
from scripted_runs import Counting, play

from agentnb.core.messages import ToolCall
from agentnb.core.todos import TODO_TOOL, Todo, Todos
from agentnb.detect.run import Run


def write(*titles: str) -> ToolCall:
    items = [{"id": number, "title": title, "status": "not-started"} for number, title in enumerate(titles, start=1)]
    return ToolCall(TODO_TOOL, {"operation": "write", "todoList": items})


def mark(number: int, status: str, **fields: Any) -> ToolCall:
    return ToolCall(TODO_TOOL, {"operation": "update", "todoUpdates": [{"id": number, "status": status, **fields}]})


def start(number: int) -> ToolCall:
    return mark(number, "in-progress")


def complete(number: int) -> ToolCall:
    return mark(number, "completed")


class ForeignBoard:
    """A board that the user's own code brings: it is read anew each time, and reading may fail."""

    def __init__(self, *todos: Todo) -> None:
        self.todos: Any = todos
        self.error: Exception | None = None
        self.read_times = 0

    def read(self) -> Todos:
        self.read_times += 1
        if self.error is not None:
            raise self.error
        return self.todos  # type: ignore[no-any-return]

    def change(self, update: Callable[[Todos], Todos]) -> Todos:
        self.todos = update(self.todos)
        return self.todos  # type: ignore[no-any-return]


def run_with_board(board: Any, replies: list[Any], *tools: Any, **settings: Any) -> Run:
    """The run of this script with this board; it answers each call and is what its events make."""
    return checked(play(*replies, tools=tools or [Counting().tool("look")], todos=board, **settings))
