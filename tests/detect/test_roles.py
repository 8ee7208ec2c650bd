"""Tool roles: taken from the spec or the name, so that plans and lists do not count as work."""

from __future__ import annotations

import asyncio

import pytest
from run_builder import RunBuilder
from scripted_runs import add

from agentnb import Agent, ToolCall, tool
from agentnb.core.request import role_of
from agentnb.errors import InvalidTool
from agentnb.models import ScriptedModel


@tool(role="planning")
def sketch(idea: str = "") -> str:
    """Write an idea down."""
    return "noted"


@tool(role="work")
def think(thought: str = "") -> str:
    """Think with consequences."""
    return "changed the world"


def test_tool_can_declare_the_role_it_counts_as() -> None:
    replies = [ToolCall("sketch"), ToolCall("sketch", {"idea": "b"}), ToolCall("think"), ToolCall("sketch"), "Done."]
    run = asyncio.run(Agent(ScriptedModel(replies), tools=[sketch, think]).run("Go"))
    assert {spec.name: spec.role for spec in run.tools} == {"sketch": "planning", "think": "work", "todo_operations": "list"}
    assert [record.role for round_ in run.rounds for record in round_.records] == ["planning", "planning", "work", "planning"]
    assert (run.judged.planning_only, run.judged.planning_since) == (1, 3)
    assert [round_.is_planning_only for round_ in run.rounds] == [True, True, False, True, False]


def test_todo_lists_of_other_products_are_known_by_name() -> None:
    for name in ("TodoWrite", "TodoRead", "write_todos", "update_plan"):
        run = RunBuilder("Go").round(ToolCall(name)).run
        assert role_of(name) == "list" and run.rounds[0].is_planning_only and not run.rounds[0].worked
    assert RunBuilder("Go").round(ToolCall("write")).run.rounds[0].worked


def test_unknown_role_is_refused() -> None:
    with pytest.raises(InvalidTool, match="Use one of work, planning, list"):
        tool(role="play")(add)  # type: ignore[call-overload]
