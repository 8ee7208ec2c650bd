"""Todos in runs: read before every decision, not counted as calls, changes attributed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_checks import todo_changes
from scripted_runs import Counting
from todo_calls import ForeignBoard, mark, run_with_board

from agentnb.agent.agent import Agent
from agentnb.core.log.events import AnyEvent, ToolFinished
from agentnb.core.messages import ToolCall
from agentnb.core.todos import TODO_TOOL, Todo, Todos
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import Matrix, Minimal
from agentnb.store.store import Store
from agentnb.tools.function import tool
from agentnb.tools.todos.board import TodoBoard

DOING, DONE = "in-progress", "completed"


@pytest.mark.req("R0.43", "R0.44")
def test_todos_completed_by_users_are_seen_before_deciding() -> None:
    board = TodoBoard(["Look"])

    def talks(request: Any) -> str:
        board.complete(1)
        return "I think it is done."

    run = run_with_board(board, [talks])
    assert (run.status, run.stop_reason, len(run.rounds)) == ("completed", "natural", 1)
    assert [(event.by, event.todos[0].status) for event in todo_changes(run)] == [("outside", DONE)]


@pytest.mark.req("R0.44")
def test_todo_reopened_by_the_user_continues_the_run() -> None:
    board = TodoBoard([{"title": "Look", "status": DONE}])

    def talks(request: Any) -> str:
        board.reopen(1)
        return "All is done."

    run = run_with_board(board, [talks, ToolCall("look"), [mark(1, DOING)], [mark(1, DONE)], "Now it is."])
    assert run.rounds[1].reason == "open_todos"
    assert (run.stop_reason, board.read()[0].status) == ("natural", DONE)


@pytest.mark.req("R0.44")
@pytest.mark.parametrize("policy", ["matrix", "minimal"])
def test_user_todo_on_an_empty_list_continues_the_run(policy: str) -> None:
    board = TodoBoard()

    def talks(request: Any) -> str:
        board.add("Look once more")
        return "Done."

    def ends(request: Any) -> str:
        board.complete(1)
        return "Done now."

    run = run_with_board(board, [talks, ends], policy=policy)
    assert (len(run.rounds), run.stop_reason) == (2, "natural")


@pytest.mark.req("R0.43")
def test_board_is_read_before_every_decision() -> None:
    board = ForeignBoard(Todo(1, "Look", DONE))
    seen: list[int] = []

    def look(n: int) -> None:
        seen.append(board.read_times)

    run_with_board(board, [ToolCall("look", {"n": n}) for n in range(4)] + ["Done."], look)
    assert len(set(seen)) == 4 and seen == sorted(seen)
    assert board.read_times > seen[-1] + 1  # after the last tool and after the last reply


@pytest.mark.req("R0.46")
def test_board_reads_by_the_run_are_not_model_calls() -> None:
    board = TodoBoard(["Look"])

    def look(n: int) -> None:
        board.edit(1, description=f"look {n}")

    run = run_with_board(board, [ToolCall("look", {"n": n}) for n in range(6)] + [mark(1, DONE), "Done."], look)
    assert len(todo_changes(run)) == 7
    assert [call.name for round in run.rounds for call in round.calls] == ["look"] * 6 + [TODO_TOOL]
    assert len(run.calls.executed) == 7
    assert sum(isinstance(event, ToolFinished) for event in run.events) == 7
    names = {part.name for message in run.messages for part in message.calls}
    assert names == {"look", TODO_TOOL} and not any(result.is_error for round in run.rounds for result in round.results)


@pytest.mark.req("R0.45")
def test_unreadable_board_keeps_the_last_known_list() -> None:
    board = ForeignBoard(Todo(1, "Look"))

    def breaks() -> None:
        board.error = OSError("no net")

    def mends(x: int = 0) -> None:
        board.error, board.todos = None, (Todo(1, "Look", DONE),)

    run = run_with_board(board, [ToolCall("breaks"), "Done.", ToolCall("mends"), "Done."], breaks, mends)
    assert (run.stop_reason, len(run.warnings)) == ("natural", 1)
    assert run.rounds[2].reason == "open_todos"
    assert run.todos == (Todo(1, "Look", DONE),)


@pytest.mark.req("R0.45")
def test_board_unreadable_at_the_start_is_empty_with_a_warning() -> None:
    board = ForeignBoard()
    board.error = OSError("no net")
    run = run_with_board(board, [ToolCall("look"), "Done."])
    assert (run.status, run.todos, len(run.warnings)) == ("completed", (), 1)


@pytest.mark.req("R0.45")
def test_board_with_invalid_todos_is_empty_with_a_warning(subtests: pytest.Subtests) -> None:
    for held in [None, 5, ["a title"], [{"id": 1, "title": "Look"}]]:
        with subtests.test(held=held):
            board = ForeignBoard()
            board.todos = held
            run = run_with_board(board, [ToolCall("look"), "Done."])
            assert (run.status, run.todos, len(run.warnings)) == ("completed", (), 1)


@pytest.mark.req("R0.45")
def test_read_only_board_answers_changes_with_an_error() -> None:
    class ReadOnly(ForeignBoard):
        def change(self, update: Callable[[Todos], Todos]) -> Todos:
            raise PermissionError("look, but do not touch")

    board = ReadOnly(Todo(1, "Look", DOING))
    run = run_with_board(board, [mark(1, DONE), "So be it."], policy=Matrix(intervention_cap=1))
    (result,) = run.rounds[0].results
    assert result.is_error and "do not touch" in result.text
    assert run.rounds[0].completed == () and run.todos == (Todo(1, "Look", DOING),)


# Attribution of changes


@pytest.mark.req("R0.63")
def test_todo_change_by_a_model_records_its_call() -> None:
    board = TodoBoard(["Look"])
    run = run_with_board(board, [mark(1, DOING), ToolCall("look"), mark(1, DONE), "Done."])
    assert [(event.by, event.call_id) for event in todo_changes(run)] == [
        ("model", run.rounds[0].calls[0].id),
        ("model", run.rounds[2].calls[0].id),
    ]
    assert [round.completed for round in run.rounds] == [(), (), (1,), ()]
    assert not any(round.todo_violations for round in run.rounds)


@pytest.mark.req("R0.63")
def test_user_change_before_a_model_call_is_attributed_correctly() -> None:
    board = TodoBoard(["Look", "See"])

    def meanwhile(request: Any) -> ToolCall:
        board.complete(2)
        return mark(1, DOING)

    run = run_with_board(board, [meanwhile, mark(1, DONE), "Done."])
    assert [(event.by, [todo.status for todo in event.todos]) for event in todo_changes(run)] == [
        ("outside", ["not-started", DONE]),
        ("model", [DOING, DONE]),
        ("model", [DONE, DONE]),
    ]
    assert [round.completed for round in run.rounds] == [(), (1,), ()]


@pytest.mark.req("R0.63")
def test_working_without_a_todo_in_progress_is_a_violation() -> None:
    run = run_with_board(TodoBoard(["Look"]), [ToolCall("look"), mark(1, DONE), "Done."])
    assert [[violation.rule for violation in round.todo_violations] for round in run.rounds] == [
        ["work_without_todo_in_progress"],
        ["completed_without_in_progress"],
        [],
    ]


@pytest.mark.req("R0.65", "R0.67")
@pytest.mark.parametrize("policy", [Matrix(), Minimal()], ids=["matrix", "minimal"])
def test_starting_working_and_completing_is_neither_planning_nor_looping(policy: Any) -> None:
    count = 12
    replies: list[Any] = []
    for number in range(1, count + 1):
        replies += [mark(number, DOING), ToolCall("look", {"x": number}), mark(number, DONE)]
    run = run_with_board(TodoBoard([f"Look at {n}" for n in range(count)]), [*replies, "Done."], policy=policy)
    assert (run.stop_reason, len(run.rounds), list(run.loops)) == ("natural", 3 * count + 1, [])
    assert not any(round.todo_violations for round in run.rounds)
    assert {round.reason for round in run.rounds} <= {"prompt", "tool_results"}
    assert not any(guidance.cell == "intervention" for round in run.rounds for guidance in round.guidance)


# Several calls at once


@pytest.mark.req("KX.12")
def test_todo_calls_run_in_order_and_never_concurrently() -> None:
    board, order = TodoBoard(["One", "Two"]), []

    class Watched(ForeignBoard):
        def change(self, update: Callable[[Todos], Todos]) -> Todos:
            order.append("begun")
            after = board.change(update)
            order.append("over")
            self.todos = after
            return after

    @tool(effects=["read"])
    def read(n: int) -> None:
        order.append(f"read {n}")

    reply = [ToolCall("read", {"n": 1}), mark(1, DOING), ToolCall("read", {"n": 2}), mark(2, DOING), mark(1, DONE)]
    run = run_with_board(Watched(*board.read()), [reply, "Well.", mark(2, DONE), "Done."], read)
    assert order[:8] == ["read 1", "begun", "over", "read 2", *["begun", "over"] * 2]
    assert [result.name for result in run.rounds[0].results] == ["read", TODO_TOOL, "read", TODO_TOOL, TODO_TOOL]
    assert [event.call_id for event in todo_changes(run)][:3] == [run.rounds[0].calls[place].id for place in (1, 3, 4)]


@pytest.mark.req("R0.62")
def test_todo_list_survives_continuing_and_loading(tmp_path: Path) -> None:
    store = Store(tmp_path)
    adds = ToolCall(TODO_TOOL, {"operation": "add", "newTodos": [{"title": "Look"}]})
    agent = Agent(ScriptedModel([adds, *["Well."] * 4]), tools=[Counting().tool("look")], policy="minimal")
    first = agent.run_sync("go", store=store)
    loaded = store.load(first.id)
    assert loaded == first and [todo.title for todo in loaded.todos] == ["Look"]
    again = Agent(ScriptedModel([mark(1, DOING), mark(1, DONE), "Done."]), tools=[Counting().tool("look")])
    second = again.run_sync("and on", continue_from=loaded, store=store)
    assert second.stop_reason == "natural"
    assert second.events[0].todos == first.todos  # type: ignore[union-attr]
    assert store.load(second.id) == second


def test_events_around_a_todo_change_keep_their_order() -> None:
    kinds: list[str] = []

    def watch(event: AnyEvent) -> None:
        kinds.append(type(event).__name__)

    agent = Agent(ScriptedModel([mark(1, DONE), "Done."]), tools=[Counting().tool("look")], todos=TodoBoard(["Look"]))
    agent.run_sync("go", watch=watch)  # type: ignore[arg-type]
    place = kinds.index("TodosChanged")
    assert kinds[place - 1 : place + 3] == ["ToolStarted", "TodosChanged", "ToolFinished", "RoundFinished"]
