"""Todo lists of runs in a session."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_runs import work
from todo_calls import write

from agentnb import Agent, Run, Store, TodoBoard
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.runtime.host.run_options import RunOptions
from agentnb.session.session import Session


def with_list(session: Session, *titles: str, before: Run | None = None) -> Run:
    agent = Agent(ScriptedModel([write(*titles)] if titles else ["Fine."]), tools=[work], max_rounds=1)
    return session.start(agent, "go", RunOptions(continue_from=before)).result(30)


def without_tools(session: Session, before: Run) -> Run:
    return session.start(Agent(ScriptedModel(["A word."])), "And?", RunOptions(continue_from=before)).result(30)


def titles(run: Run) -> list[tuple[str, str]]:
    return [(todo.title, todo.status) for todo in run.todos]


@pytest.mark.req("R0.62")
def test_todo_edits_between_cells_survive_runs_without_tools(tmp_path: Path) -> None:
    session = Session(Store(tmp_path))
    first = with_list(session, "One", "Two")
    session.board().complete(1)  # type: ignore[attr-defined]
    chat = without_tools(session, first)
    assert chat.todos == () and [todo.status for todo in chat.carried_todos] == ["completed", "not-started"]
    session.board().add("Three")  # type: ignore[attr-defined]
    assert titles(with_list(session, before=chat)) == [("One", "completed"), ("Two", "not-started"), ("Three", "not-started")]


@pytest.mark.req("R0.62")
def test_loaded_run_restores_a_todo_list_it_only_carried(tmp_path: Path) -> None:
    first = Session(Store(tmp_path))
    chat = without_tools(first, with_list(first, "One"))
    second = Session(Store(tmp_path))
    loaded = second.load(chat.id)
    assert [todo.title for todo in second.board().read()] == ["One"]
    assert titles(with_list(second, before=loaded)) == [("One", "not-started")]


def test_loading_a_run_of_this_session_keeps_later_edits(tmp_path: Path) -> None:
    session = Session(Store(tmp_path))
    run = with_list(session, "One")
    session.board().complete(1)  # type: ignore[attr-defined]
    assert titles(with_list(session, before=session.load(run.id))) == [("One", "completed")]


def test_run_with_an_invalid_list_loads_but_cannot_continue(tmp_path: Path) -> None:
    board = TodoBoard(["One"])
    twice = (*board.read(), *board.read())
    board.change(lambda todos: twice)
    Agent(ScriptedModel(["Fine."]), tools=[work], todos=board, max_rounds=1).run_sync("go", store=Store(tmp_path))
    session = Session(Store(tmp_path))
    other = with_list(session, "Another")
    session.load(other.id)
    loaded = session.load(Store(tmp_path).ids()[0])
    assert len(loaded.todos) == 2
    with pytest.raises(SettingsError, match=f"The todo list of run {loaded.id} cannot be continued"):
        with_list(session, before=loaded)


def test_dry_run_shows_the_edited_list(tmp_path: Path) -> None:
    session = Session(Store(tmp_path))
    run = with_list(session, "One")
    session.board().add("Two")  # type: ignore[attr-defined]
    request = session.first_request(Agent(ScriptedModel([]), tools=[work]), "go", run)
    assert "2. [not-started] Two" in request.messages[-1].text
