"""Todos in whole runs: read anew before every decision, never counted as a call, and whose doing each change was."""

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
def test_a_todo_that_the_person_completes_while_the_model_only_talks_is_seen_before_the_next_decision() -> None:
    board = TodoBoard(["Look"])

    def talks(request: Any) -> str:
        board.complete(1)
        return "I think it is done."

    run = run_with_board(board, [talks])
    assert (run.status, run.stop_reason, len(run.rounds)) == ("completed", "natural", 1)
    assert [(event.by, event.todos[0].status) for event in todo_changes(run)] == [("outside", DONE)]


@pytest.mark.req("R0.44")
def test_a_todo_that_the_person_opens_again_keeps_the_run_going() -> None:
    board = TodoBoard([{"title": "Look", "status": DONE}])

    def talks(request: Any) -> str:
        board.reopen(1)
        return "All is done."

    run = run_with_board(board, [talks, ToolCall("look"), [mark(1, DOING)], [mark(1, DONE)], "Now it is."])
    assert run.rounds[1].reason == "open_todos"
    assert (run.stop_reason, board.read()[0].status) == ("natural", DONE)


@pytest.mark.req("R0.44")
@pytest.mark.parametrize("policy", ["matrix", "minimal"])
def test_a_list_that_was_empty_and_that_the_person_fills_keeps_the_run_going(policy: str) -> None:
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
def test_the_board_is_read_before_every_decision() -> None:
    board = ForeignBoard(Todo(1, "Look", DONE))
    seen: list[int] = []

    def look(n: int) -> None:
        seen.append(board.read_times)

    run_with_board(board, [ToolCall("look", {"n": n}) for n in range(4)] + ["Done."], look)
    assert len(set(seen)) == 4 and seen == sorted(seen)
    assert board.read_times > seen[-1] + 1  # after the last tool, and after the last words


@pytest.mark.req("R0.46")
def test_the_runs_own_reading_is_no_call_of_the_model() -> None:
    board = TodoBoard(["Look"])

    def look(n: int) -> None:
        board.edit(1, description=f"look {n}")

    run = run_with_board(board, [ToolCall("look", {"n": n}) for n in range(6)] + [mark(1, DONE), "Done."], look)
    assert len(todo_changes(run)) == 7
    assert [call.name for one in run.rounds for call in one.calls] == ["look"] * 6 + [TODO_TOOL]
    assert len(run.calls.executed) == 7
    assert sum(isinstance(event, ToolFinished) for event in run.events) == 7
    names = {part.name for message in run.messages for part in message.calls}
    assert names == {"look", TODO_TOOL} and not any(result.is_error for one in run.rounds for result in one.results)


@pytest.mark.req("R0.45")
def test_a_run_goes_on_with_the_list_as_last_known_while_the_board_cannot_be_read() -> None:
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
def test_a_board_that_cannot_be_read_from_the_beginning_is_an_empty_list_and_a_warning() -> None:
    board = ForeignBoard()
    board.error = OSError("no net")
    run = run_with_board(board, [ToolCall("look"), "Done."])
    assert (run.status, run.todos, len(run.warnings)) == ("completed", (), 1)


@pytest.mark.req("R0.45")
def test_a_board_that_holds_no_todos_from_the_beginning_is_an_empty_list_and_a_warning(subtests: pytest.Subtests) -> None:
    for held in [None, 5, ["a title"], [{"id": 1, "title": "Look"}]]:
        with subtests.test(held=held):
            board = ForeignBoard()
            board.todos = held
            run = run_with_board(board, [ToolCall("look"), "Done."])
            assert (run.status, run.todos, len(run.warnings)) == ("completed", (), 1)


@pytest.mark.req("R0.45")
def test_a_board_that_can_only_be_read_answers_the_model_with_an_error() -> None:
    class ReadOnly(ForeignBoard):
        def change(self, update: Callable[[Todos], Todos]) -> Todos:
            raise PermissionError("look, but do not touch")

    board = ReadOnly(Todo(1, "Look", DOING))
    run = run_with_board(board, [mark(1, DONE), "So be it."], policy=Matrix(intervention_cap=1))
    (result,) = run.rounds[0].results
    assert result.is_error and "do not touch" in result.text
    assert run.rounds[0].completed == () and run.todos == (Todo(1, "Look", DOING),)


# Whose doing it was


@pytest.mark.req("R0.63")
def test_a_change_by_the_models_call_is_the_models_and_names_the_call() -> None:
    board = TodoBoard(["Look"])
    run = run_with_board(board, [mark(1, DOING), ToolCall("look"), mark(1, DONE), "Done."])
    assert [(event.by, event.call_id) for event in todo_changes(run)] == [
        ("model", run.rounds[0].calls[0].id),
        ("model", run.rounds[2].calls[0].id),
    ]
    assert [one.completed for one in run.rounds] == [(), (), (1,), ()]
    assert not any(one.todo_violations for one in run.rounds)


@pytest.mark.req("R0.63")
def test_what_the_person_changed_before_the_models_call_is_the_persons() -> None:
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
    assert [one.completed for one in run.rounds] == [(), (1,), ()]


@pytest.mark.req("R0.63")
def test_work_beside_the_list_is_written_down_in_a_real_run() -> None:
    run = run_with_board(TodoBoard(["Look"]), [ToolCall("look"), mark(1, DONE), "Done."])
    assert [[violation.rule for violation in one.todo_violations] for one in run.rounds] == [
        ["work_without_todo_in_progress"],
        ["completed_without_in_progress"],
        [],
    ]


@pytest.mark.req("R0.65", "R0.67")
@pytest.mark.parametrize("policy", [Matrix(), Minimal()], ids=["matrix", "minimal"])
def test_marking_working_and_marking_again_is_never_taken_for_planning_or_a_loop(policy: Any) -> None:
    count = 12
    replies: list[Any] = []
    for number in range(1, count + 1):
        replies += [mark(number, DOING), ToolCall("look", {"x": number}), mark(number, DONE)]
    run = run_with_board(TodoBoard([f"Look at {n}" for n in range(count)]), [*replies, "Done."], policy=policy)
    assert (run.stop_reason, len(run.rounds), list(run.loops)) == ("natural", 3 * count + 1, [])
    assert not any(one.is_continuation or one.todo_violations for one in run.rounds)
    assert not any(said.cell == "intervention" for one in run.rounds for said in one.guidance)


# Several calls at once


@pytest.mark.req("KX.12")
def test_calls_that_change_the_list_run_in_the_order_asked_for_and_beside_no_other() -> None:
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
def test_a_list_goes_on_with_its_conversation_and_survives_the_log(tmp_path: Path) -> None:
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


def test_the_order_of_events_around_a_change_is_the_one_in_which_things_happened() -> None:
    kinds: list[str] = []

    def watch(event: AnyEvent) -> None:
        kinds.append(type(event).__name__)

    agent = Agent(ScriptedModel([mark(1, DONE), "Done."]), tools=[Counting().tool("look")], todos=TodoBoard(["Look"]))
    agent.run_sync("go", watch=watch)  # type: ignore[arg-type]
    place = kinds.index("TodosChanged")
    assert kinds[place - 1 : place + 3] == ["ToolStarted", "TodosChanged", "ToolFinished", "RoundFinished"]
