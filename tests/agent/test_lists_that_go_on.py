"""Todo lists belong to their conversation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from scripted_runs import work
from todo_calls import complete, write

from agentnb import Agent, Run, Todo, TodoBoard, ToolCall
from agentnb.core.log.events import GuidanceGiven, TodosChanged
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel


def begun() -> Run:
    return Agent(ScriptedModel([write("One", "Two")]), tools=[work], max_rounds=1).run_sync("go")


@pytest.mark.req("R0.62")
def test_todo_list_passes_through_a_run_without_tools() -> None:
    between = Agent(ScriptedModel(["A word."])).run_sync("And?", continue_from=begun())
    assert (between.todos, between.stop_reason, between.warnings[:]) == ((), "natural", ())
    after = Agent(ScriptedModel([complete(1), complete(2), "Done."]), tools=[work]).run_sync("go", continue_from=between)
    assert [todo.title for todo in after.todos] == ["One", "Two"]
    assert after.stop_reason == "natural"


def test_agent_with_only_a_board_has_the_todo_tool() -> None:
    request = Agent(ScriptedModel([]), todos=TodoBoard(["Look"])).first_request("go")
    assert [tool.name for tool in request.tools] == ["todo_operations"]
    assert "no tools" not in request.system


@pytest.mark.req("R0.44")
def test_model_sees_a_list_added_before_the_run() -> None:
    model = ScriptedModel(["Fine."])
    Agent(model, todos=TodoBoard(["Look around"]), max_rounds=1).run_sync("go")
    assert "Todos (0 of 1 completed):\n1. [not-started] Look around" in model.requests[0].messages[-1].text


@pytest.mark.req("R0.44")
def test_model_sees_outside_changes_once_even_emptying_the_list() -> None:
    board = TodoBoard(["Look", "See"])

    def other(what: str) -> str:
        """Somebody else."""
        {"add": lambda: board.add("Listen"), "clear": lambda: [board.remove(todo.id) for todo in board]}[what]()
        return "done"

    model = ScriptedModel(
        [ToolCall("other", {"what": "add"}), ToolCall("work", {"item": 1}), ToolCall("other", {"what": "clear"}), "Done."]
    )
    run = Agent(model, tools=[other, work], todos=board).run_sync("go")
    shown = [[guidance.text for guidance in round.guidance if guidance.cell == "todo_list"] for round in run.rounds]
    assert [len(one) for one in shown] == [1, 1, 0, 1]
    assert "3. [not-started] Listen" in shown[1][0]
    assert "(no todo is open)" in shown[3][0]
    assert run.stop_reason == "natural"


def test_informational_guidance_is_not_judged_as_followed() -> None:
    run = Agent(ScriptedModel(["Fine."]), todos=TodoBoard(["Look"]), max_rounds=1).run_sync("go")
    assert [event.guidance.cell for event in run.events if isinstance(event, GuidanceGiven)] == ["todo_list"]
    assert run.rounds[0].followed[0].followed is None


@pytest.mark.req("R0.57")
def test_model_may_rewrite_a_list_it_has_seen() -> None:
    board = TodoBoard(["First of others", "Second of others"])
    model = ScriptedModel([write("Mine"), write("Mine", "Second")])
    Agent(model, tools=[work], todos=board, max_rounds=2).run_sync("go")
    assert [todo.title for todo in board] == ["Mine", "Second"]


@pytest.mark.req("R0.57")
def test_first_write_that_drops_unseen_todos_is_refused() -> None:
    board = TodoBoard(["First of others", "Second of others"])
    run = Agent(ScriptedModel([write("Mine")]), tools=[work], todos=board, max_rounds=1).run_sync("go")
    (result,) = run.rounds[0].results
    assert result.is_error and "todo 2: Second of others" in result.text and "Todos (0 of 2 completed):" in result.text
    assert [todo.title for todo in board] == ["First of others", "Second of others"]


@pytest.mark.req("R0.57")
def test_user_todos_added_before_the_first_list_are_kept() -> None:
    board = TodoBoard()

    def first(request: object) -> ToolCall:
        board.add("Load")
        board.add("second")  # a todo of the model in another case
        board.add("Plot", dependencies=[1])
        return write("Mine", "Second")

    run = Agent(ScriptedModel([first, write("Mine")]), tools=[work], todos=board, max_rounds=2).run_sync("go")
    result, later = (round.results[0] for round in run.rounds)
    changes = [event.todos for event in run.events if isinstance(event, TodosChanged) and event.by == "model"]
    assert not result.is_error and 'Kept because the user added them: 4 "Load", 3 "Plot".' in result.text
    assert "1. [not-started] Mine\n2. [not-started] Second\n4. [not-started] Load\n3. [not-started] Plot" in result.text
    assert changes[0][3].dependencies == (4,)
    assert not later.is_error and [todo.title for todo in board] == ["Mine"]


def test_todo_list_that_cannot_be_transferred_belongs_to_the_run() -> None:
    class Loose:
        """Keeps what it is given."""

        def __init__(self) -> None:
            self.todos = (Todo(1, "Look"), Todo(1, "Look again"))

        def read(self) -> tuple[Todo, ...]:
            return self.todos

        def change(self, update: Callable[[tuple[Todo, ...]], tuple[Todo, ...]]) -> tuple[Todo, ...]:
            self.todos = update(self.todos)
            return self.todos

    before = Agent(ScriptedModel(["Fine."]), tools=[work], todos=Loose(), max_rounds=1).run_sync("go")
    with pytest.raises(SettingsError, match=f"The todo list of run {before.id} cannot be continued"):
        Agent(ScriptedModel(["Fine."]), tools=[work]).run_sync("go", continue_from=before)


@pytest.mark.req("R0.57")
def test_first_write_that_reuses_ids_of_unseen_todos_is_refused() -> None:
    board = TodoBoard(["First of others", "Second of others"])
    run = Agent(ScriptedModel([write("A", "B", "C")]), tools=[work], todos=board, max_rounds=1).run_sync("go")
    assert run.rounds[0].results[0].is_error and "todo 1: First of others" in run.rounds[0].results[0].text
    assert [todo.title for todo in board] == ["First of others", "Second of others"]
