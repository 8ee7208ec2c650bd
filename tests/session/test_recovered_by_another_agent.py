"""A run recovered with another agent keeps its history and its list."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cut_runs import cut

from agentnb import Agent, Run, Store, ToolCall, recover
from agentnb.core.log import events as e
from agentnb.core.todos import Todo, Todos
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.tools.todos.board import TodoBoard


def big() -> str:
    """Gives much."""
    return "x" * 50_000


def after_one_round(run: Run, folder: Path) -> str:
    """Write the log of a process that died after the first round; return the run id."""
    over = next(place for place, event in enumerate(run.events) if isinstance(event, e.RoundFinished))
    cut(run.events[: over + 1], folder)
    return run.id


@pytest.mark.req("R0.76", "KX.11")
@pytest.mark.parametrize("history", ["full", "auto", "documented"])
def test_truncated_results_stay_truncated_and_readable_after_recovery(history: str, tmp_path: Path) -> None:
    whole = Agent(ScriptedModel([ToolCall("big"), "Done."]), tools=[big]).run_sync("go", store=Store(tmp_path / "whole"))
    run_id = after_one_round(whole, tmp_path)
    handle = whole.rounds[0].records[0].call.id
    model = ScriptedModel([ToolCall("read_tool_result", {"handle": handle, "offset": 3_000}), "Done."])
    run = asyncio.run(recover(run_id, store=Store(tmp_path), agent=Agent(model, tools=[big], history=history)))
    assert run.status == "completed" and "characters 3,000 to 7,000 of 50,000" in run.rounds[1].results[0].text
    assert "read_tool_result" in [tool.name for tool in model.requests[0].tools]
    assert len(model.requests[0].messages[-1].parts[0].text) < 5_000  # type: ignore[union-attr]


class Untitled(TodoBoard):
    """A board with a todo that `TodoBoard` refuses."""

    def read(self) -> Todos:
        return (*super().read(), Todo(7, "", "not-started"))


@pytest.mark.req("KX.11")
def test_custom_list_is_recovered_only_on_its_own_board(tmp_path: Path) -> None:
    def agent(**settings: Any) -> Agent:
        return Agent(ScriptedModel([ToolCall("big"), *["Done."] * 9]), tools=[big], policy="minimal", **settings)

    whole = agent(todos=Untitled()).run_sync("go", store=Store(tmp_path / "whole"))
    run_id = after_one_round(whole, tmp_path)
    with pytest.raises(SettingsError, match=r"The todo list of run .* cannot be continued") as caught:
        asyncio.run(recover(run_id, store=Store(tmp_path), agent=agent()))
    assert "Agent(todos=TodoBoard([...]))" in caught.value.hint
    run = asyncio.run(recover(run_id, store=Store(tmp_path), agent=agent(todos=Untitled())))
    assert not run.should_continue and [todo.id for todo in run.todos] == [7]


def test_interrupted_round_that_changed_the_list_keeps_its_success(tmp_path: Path) -> None:
    write = ToolCall(
        "todo_operations", {"operation": "write", "todoList": [{"id": 1, "title": "Look", "status": "not-started"}]}
    )
    whole = Agent(ScriptedModel([write, *["Well."] * 9]), tools=[big]).run_sync("go", store=Store(tmp_path / "whole"))
    changed = next(place for place, event in enumerate(whole.events) if isinstance(event, e.TodosChanged))
    cut(whole.events[: changed + 1], tmp_path)
    model = ScriptedModel(["Well."] * 9)
    run = asyncio.run(recover(whole.id, store=Store(tmp_path), agent=Agent(model, tools=[big])))
    assert run.rounds[0].results[0].is_error is False
    assert all("1. [not-started] Look" in str(request.messages) for request in model.requests)
