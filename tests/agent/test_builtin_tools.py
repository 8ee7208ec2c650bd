"""Runs with built-in tools: what they log, and how they are found again."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentnb import Agent, Store, ToolCall, fork_sync, portable, reproduce_sync
from agentnb.agent.from_log import agent_of
from agentnb.agent.portable import from_portable
from agentnb.errors import UnknownTool
from agentnb.models import ScriptedModel

MARK = "## Text that tools read"


def scripted(*calls: ToolCall) -> ScriptedModel:
    return ScriptedModel([*calls, "Done."])


def add(a: int) -> int:
    """Add one."""
    return a + 1


def test_a_run_is_rebuilt_from_its_log_with_its_built_in_tools(tmp_path: Path) -> None:
    Path("notes.txt").write_text("low water\n")
    agent = Agent(scripted(ToolCall("read_file", {"path": "notes.txt"})), tools=["files", add, "think"])
    run = agent.run_sync("Read.", store=Store(tmp_path / "runs"))
    assert run.results[0].text == "low water\n" if hasattr(run, "results") else True
    loaded = Store(tmp_path / "runs").load(run.id)
    again = agent_of(loaded, tools=[add], model=ScriptedModel(["Done."]))
    assert {tool.spec.name for tool in again.toolbox} == {tool.spec.name for tool in agent.toolbox}
    with pytest.raises(UnknownTool, match="add"):
        agent_of(loaded, model=ScriptedModel(["Done."]))


def test_a_function_named_like_a_built_in_tool_is_not_replaced() -> None:
    def read_file(path: str) -> str:
        """Mine."""
        return "mine"

    run = Agent(scripted(ToolCall("read_file", {"path": "a"})), tools=[read_file]).run_sync("Read.")
    with pytest.raises(UnknownTool, match="read_file"):
        agent_of(run, model=ScriptedModel(["Done."]))


def test_a_reproduced_run_finds_its_built_in_tools() -> None:
    Path("notes.txt").write_text("low water\n")
    run = Agent(
        scripted(ToolCall("add", {"a": 1}), ToolCall("read_file", {"path": "notes.txt"})), tools=["files", add]
    ).run_sync("Read.")
    assert reproduce_sync(run, tools=[add]).text == "Done."


def test_a_fork_finds_built_in_tools_beside_a_fallback_and_else_has_exactly_those_given() -> None:
    Path("notes.txt").write_text("low water\n")
    run = Agent(scripted(ToolCall("read_file", {"path": "notes.txt"})), tools=["files", add]).run_sync("Read.")
    other = ScriptedModel([ToolCall("list_files", {}), "Done."])
    live = fork_sync(run, 1, model=other, fallback=[add])
    assert live.rounds[0].records[0].result is not None and live.rounds[0].records[0].result.text == "notes.txt"
    exact = fork_sync(run, 1, model=ScriptedModel(["Done."]), tools=[add])
    assert exact.own_tools == ["add"]


def test_a_portable_agent_keeps_its_built_in_tools() -> None:
    agent = Agent("simulated:disciplined", tools=["files", "git_log"])
    assert [tool.spec for tool in from_portable(portable(agent)).toolbox] == [tool.spec for tool in agent.toolbox]


def test_the_system_prompt_says_that_what_tools_read_is_data() -> None:
    with_files, without = Agent("simulated:disciplined", tools=["read_file"]), Agent("simulated:disciplined", tools=[add])
    assert MARK in with_files.first_request("Read.").system
    assert MARK not in without.first_request("Read.").system
