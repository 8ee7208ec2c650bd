"""Outside changes of the list at awkward moments are kept and attributed."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from scripted_runs import work
from todo_calls import write

from agentnb import Agent, Run, Todo, TodoBoard, ToolCall, tables
from agentnb.core.log.events import TodosChanged
from agentnb.models import ScriptedModel
from agentnb.tools.todos.todo_tool import TodoTool
from agentnb.tools.tool import ToolContext, ToolOutcome

UPDATE = ToolCall("todo_operations", {"operation": "update", "todoUpdates": [{"id": 1, "status": "in-progress"}]})


def changes(run: Run) -> list[tuple[str, list[str]]]:
    return [(event.by, [todo.status for todo in event.todos]) for event in run.events if isinstance(event, TodosChanged)]


@pytest.mark.req("R0.44")
def test_todo_change_during_an_interrupted_round_is_logged() -> None:
    board, begun, go_on = TodoBoard(["One", "Two"]), threading.Event(), threading.Event()

    def hold() -> str:
        """Waits."""
        begun.set()
        go_on.wait(30)
        return "done"

    live = Agent(ScriptedModel([ToolCall("hold")]), tools=[hold], todos=board).start("go")
    assert begun.wait(30)
    board.complete(2)
    live.stop()
    run = live.result(30)
    go_on.set()
    assert [todo.status for todo in run.todos] == ["not-started", "completed"]
    assert tables.todos(run).query("by == 'outside' and what == 'status'")["todo_id"].tolist() == [2]


@pytest.mark.req("R0.44")
def test_todo_change_before_the_start_appears_in_first_request() -> None:
    board, model = TodoBoard(["One"]), ScriptedModel(["Fine."])
    opened = threading.Event()

    class Slow:
        async def open(self, run_id: str, *, nested: bool = False) -> Any:
            board.add("Two")
            opened.set()
            return Nothing()

    class Nothing:
        def append(self, event: object) -> None: ...
        def close(self) -> None: ...

    Agent(model, todos=board, max_rounds=1).run_sync("go", store=Slow())  # type: ignore[arg-type]
    assert opened.is_set()
    assert "2. [not-started] Two" in model.requests[0].messages[-1].text


@pytest.mark.req("R0.44")
def test_moved_todo_keeps_its_position_in_request_and_log() -> None:
    board = TodoBoard(["One", "Two", "Three"])

    def looks() -> str:
        """Looks while the person moves a todo."""
        board.move(3, before=1)
        return "seen"

    model = ScriptedModel([ToolCall("looks"), UPDATE, "Fine."])
    run = Agent(model, tools=[looks], todos=board, max_rounds=3).run_sync("go")
    shown = [[words.find(f". [{status}] {title}") for title, status in TITLES] for words in map(_told, model.requests[:2])]
    assert shown[0] == sorted(shown[0]) and -1 not in shown[0] + shown[1]
    assert shown[1][2] < shown[1][0] < shown[1][1]
    assert [todo.id for todo in run.todos] == [3, 1, 2], "an update of the model keeps it"
    changed = tables.todos(run).query("what in ('reordered', 'status', 'edited', 'added', 'removed')")
    assert list(zip(changed["by"], changed["what"], strict=True)) == [("outside", "reordered"), ("model", "status")]


TITLES = [("One", "not-started"), ("Two", "not-started"), ("Three", "not-started")]


def _told(request: Any) -> str:
    """Return the text of the last message."""
    return str(request.messages[-1].text)


@pytest.mark.req("R0.46", "R0.63")
def test_user_changes_around_a_call_are_not_attributed_to_model(monkeypatch: pytest.MonkeyPatch) -> None:
    board = TodoBoard(["One", "Two", "Three"])
    really = TodoTool.run

    async def disturbed(self: TodoTool, arguments: Any, context: ToolContext) -> ToolOutcome:
        board.complete(2)
        outcome = await really(self, arguments, context)
        board.complete(3)
        return outcome

    monkeypatch.setattr(TodoTool, "run", disturbed)
    model = ScriptedModel([UPDATE, "Fine."])
    run = Agent(model, tools=[work], todos=board, max_rounds=2).run_sync("go")
    assert changes(run) == [
        ("outside", ["not-started", "completed", "not-started"]),
        ("model", ["in-progress", "completed", "not-started"]),
        ("outside", ["in-progress", "completed", "completed"]),
    ]
    assert (run.rounds[0].completed, run.rounds[0].todo_violations) == ((), ())
    assert "3. [completed] Three" in model.requests[1].messages[-1].text  # not shown in any result


def test_in_place_change_of_a_board_list_is_noticed() -> None:
    class Natural:
        def __init__(self) -> None:
            self.todos: list[Todo] = []

        def read(self) -> Any:
            return self.todos

        def change(self, update: Any) -> Any:
            self.todos[:] = update(tuple(self.todos))
            return self.todos

    run = Agent(ScriptedModel([write("One")]), tools=[work], todos=Natural(), max_rounds=1).run_sync("go")
    assert [todo.title for todo in run.todos] == ["One"]


@pytest.mark.req("R0.44", "R1.41")
def test_todo_update_undone_by_others_may_be_repeated() -> None:
    board = TodoBoard(["One"])

    def taken_back(request: object) -> ToolCall:
        board.reopen(1)
        return UPDATE

    model = ScriptedModel([UPDATE, taken_back, taken_back])
    run = Agent(model, tools=[work], todos=board, max_rounds=3).run_sync("go")
    assert [result.is_error for round in run.rounds for result in round.results] == [False] * 3


@pytest.mark.req("R1.37")
def test_blocked_todo_call_returns_the_current_list() -> None:
    run = Agent(ScriptedModel([UPDATE] * 3), tools=[work], todos=TodoBoard(["One"]), max_rounds=3).run_sync("go")
    blocked = run.rounds[2].results[0]
    assert blocked.error_code == "duplicate_call_blocked" and "1. [in-progress] One" in blocked.text
    assert "applied" not in blocked.text


@pytest.mark.req("R0.49")
def test_completing_a_reopened_todo_again_is_not_progress() -> None:
    statuses = ["in-progress", "completed"] * 3
    updates = [{"id": 1, "status": status, "description": str(n)} for n, status in enumerate(statuses)]
    marks = [ToolCall("todo_operations", {"operation": "update", "todoUpdates": [update]}) for update in updates]
    run = Agent(ScriptedModel(marks), tools=[work], todos=TodoBoard(["One", "Two"]), max_rounds=6).run_sync("go")
    assert [round.completed for round in run.rounds] == [(), (1,), (), (), (), ()]


@pytest.mark.req("R0.80")
def test_dry_run_shows_the_todos_of_the_first_request() -> None:
    agent = Agent(ScriptedModel(["Fine."]), tools=[work], todos=TodoBoard(["One"]), max_rounds=1)
    shown = agent.first_request("go")
    agent.run_sync("go")
    assert [*shown.messages] == [*agent.model.requests[0].messages]  # type: ignore[union-attr]
    assert "1. [not-started] One" in shown.messages[-1].text


def test_custom_board_that_is_falsy_when_empty_is_used() -> None:
    class Empty(TodoBoard):
        def __bool__(self) -> bool:
            return False

    board = Empty()
    live = Agent(ScriptedModel([write("One")]), tools=[work], todos=board, max_rounds=1).start("go")
    assert live.board is board
    assert [todo.title for todo in live.result(30).todos] == ["One"]
