"""Runs with built-in tools: their logs and recovery."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentnb import Agent, Run, Shell, Store, ToolCall, fork_sync, portable, recover, reproduce_sync
from agentnb.agent.from_log import agent_of
from agentnb.agent.portable import from_portable
from agentnb.errors import SettingsError, UnknownTool
from agentnb.models import ScriptedModel

MARK = "## Text that tools read"


def add(a: int) -> int:
    """Add one."""
    return a + 1


def both_tools(store: Store | None = None) -> Run:
    """Return a run that called a function and a built-in tool."""
    Path("notes.txt").write_text("low water\n")
    calls = ScriptedModel([ToolCall("add", {"a": 1}), ToolCall("read_file", {"path": "notes.txt"}), "Done."])
    return Agent(calls, tools=["files", add, "think"]).run_sync("Read.", store=store)


def test_run_loaded_from_a_log_has_its_built_in_tools(tmp_path: Path) -> None:
    run = both_tools(Store(tmp_path / "runs"))
    assert run.rounds[1].results[0].text == "low water\n"
    loaded = Store(tmp_path / "runs").load(run.id)
    again = agent_of(loaded, tools=[add], model=ScriptedModel(["Done."]))
    assert {tool.spec.name for tool in again.toolbox} == set(run.own_tools)
    with pytest.raises(UnknownTool, match="add"):
        agent_of(loaded, model=ScriptedModel(["Done."]))


def test_user_function_named_like_a_built_in_tool_is_kept() -> None:
    def read_file(path: str) -> str:
        """Mine."""
        return "mine"

    model = ScriptedModel([ToolCall("read_file", {"path": "a"}), "Done."])
    run = Agent(model, tools=[read_file]).run_sync("Read.")
    with pytest.raises(UnknownTool, match="read_file"):
        agent_of(run, model=ScriptedModel(["Done."]))


def test_reproduced_run_has_its_built_in_tools() -> None:
    assert reproduce_sync(both_tools(), tools=[add]).text == "Done."


def test_fork_keeps_built_in_tools_only_with_a_fallback() -> None:
    run = both_tools()
    live = fork_sync(run, 1, model=ScriptedModel([ToolCall("list_files", {}), "Done."]), fallback=[add])
    assert live.rounds[0].results[0].text == "notes.txt"
    exact = fork_sync(run, 1, model=ScriptedModel(["Done."]), tools=[add])
    assert exact.own_tools == ["add"]


def test_portable_agent_keeps_its_built_in_tools() -> None:
    agent = Agent("simulated:disciplined", tools=["files", "git_log"])
    assert [tool.spec for tool in from_portable(portable(agent)).toolbox] == [tool.spec for tool in agent.toolbox]


def test_system_prompt_warns_that_tool_output_is_data() -> None:
    with_files, without = Agent("simulated:disciplined", tools=["read_file"]), Agent("simulated:disciplined", tools=[add])
    assert MARK in with_files.first_request("Read.").system
    assert MARK not in without.first_request("Read.").system


def test_path_rule_makes_a_search_require_approval(subtests: pytest.Subtests) -> None:
    Path("data").mkdir()
    Path("data/s.txt").write_text("secret\n")
    calls: list[dict[str, Any]] = [{"pattern": "secret"}, {"glob": "data/*", "pattern": "sec"}]
    for rules in ({"search_files(data/**)": "deny"}, {"file_read(data/**)": "deny"}, {"search_files(data/**)": "ask"}):
        with subtests.test(rules):
            model = ScriptedModel([*[ToolCall("search_files", call) for call in calls], "Done."])
            run = Agent(model, tools=["files"], permissions=rules).run_sync("Search.")
            assert [result.error_code for round in run.rounds for result in round.results] == ["denied"] * 2


def test_suspended_run_recovers_without_naming_its_tools(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    call = ToolCall("write_file", {"path": "notes.txt", "content": "low water"})
    run = Agent(ScriptedModel([call, "Done."]), tools=["files"]).run_sync("Write.", store=store, suspend=True)
    assert run.status == "waiting_on_user" and not Path("notes.txt").exists()
    model = ScriptedModel(["Done."])
    again = asyncio.run(recover(run.id, store=store, model=model, answers={run.waiting[0].id: "approve"}))
    assert again.status == "completed" and Path("notes.txt").read_text() == "low water"


def test_recovery_requires_the_shell_variables(tmp_path: Path) -> None:
    store, shell = Store(tmp_path / "runs"), Shell(env={"STATION": "brest"})
    model = ScriptedModel([ToolCall("bash", {"command": "echo $STATION"}), "Done."])
    run = Agent(model, tools=[shell]).run_sync("Run.", store=store, suspend=True)
    answers, model = {run.waiting[0].id: "approve"}, ScriptedModel(["Done."])
    with pytest.raises(SettingsError, match="STATION"):
        asyncio.run(recover(run.id, store=store, model=model, answers=answers))
    again = asyncio.run(recover(run.id, store=store, model=model, answers=answers, tools=[shell]))
    assert again.rounds[0].results[0].text == "brest\n"
