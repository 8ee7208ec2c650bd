"""Handlers of extensions answer calls before tools: without argument checks, and logged like calls."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from scripted_runs import bare, work

from agentnb import Agent, ToolCall, tool
from agentnb.agent.extension import Extension
from agentnb.core.log.events import ToolFinished, ToolStarted
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.tool import ToolContext

CALLS = [ToolCall("plan_trip", {"to": ["Brest", 3]}, "c1"), ToolCall("work", {"n": "x", "odd": True}, "c2")]
taken: list[tuple[Any, str]] = []


async def plan_trip(arguments: Any, context: ToolContext) -> dict[str, Any]:
    taken.append((arguments, context.call_id))
    return {"planned": arguments["to"]}


def work_instead(arguments: Any, context: ToolContext) -> str:
    taken.append((arguments, threading.current_thread().name))
    return f"handled {arguments['n']}"


def trips(**handlers: Any) -> Extension:
    return Extension(name="trips", virtual_tools=handlers or {"plan_trip": plan_trip, "work": work_instead})


def agent(*replies: Any, tools: Any = (work,), **settings: Any) -> Agent:
    return bare(ScriptedModel([*replies]), tools, **{"extensions": [trips()], **settings})


@pytest.mark.req("R3.35")
def test_handlers_are_called_first_with_unchanged_arguments() -> None:
    taken.clear()
    run = agent(CALLS, "Done.").run_sync("go")
    first, second = run.rounds[0].results
    assert (first.text, second.text) == ('{"planned":["Brest",3]}', "handled x")
    assert taken[0] == ({"to": ["Brest", 3]}, "c1") and taken[1][0] == {"n": "x", "odd": True}
    kinds = [type(event) for event in run.events if isinstance(event, ToolStarted | ToolFinished)]
    assert kinds.count(ToolStarted) == kinds.count(ToolFinished) == 2
    assert [tool_.name for tool_ in run.tools] == ["work"]  # a handler alone is not offered to models
    assert run.settings["extensions"] == [{"name": "trips"}]


def test_tools_without_a_handler_run_unchanged() -> None:
    run = agent([ToolCall("work", {"n": 1}, "c1"), ToolCall("nothing", {}, "c2")], "Done.", extensions=[trips(x=plan_trip)])
    run = run.run_sync("go")
    assert [result.text.splitlines()[0] for result in run.rounds[0].results][:1] == ["made 1"]
    assert run.rounds[0].results[1].error_code == "unknown_tool"


def test_handler_errors_become_results_and_permissions_apply(subtests: pytest.Subtests) -> None:
    def fails(arguments: Any, context: ToolContext) -> None:
        raise LookupError("no trip")

    @tool(effects=["write"])
    def store(n: int = 0) -> str:
        """Store."""
        return "stored"

    run = agent(CALLS[0], "Done.", extensions=[trips(plan_trip=fails)]).run_sync("go")
    assert run.rounds[0].results[0].error_code == "tool_error" and "no trip" in run.rounds[0].results[0].text
    cases: dict[str, tuple[Any, dict[str, Any], bool]] = {
        "a rule": ("plan_trip", {"permissions": {"plan_trip": "deny"}}, False),
        "a mode": ("plan_trip", {"approve": "read_only"}, False),
        "the effects of the tool behind it": ("store", {"approve": "never"}, False),
        "nothing": ("plan_trip", {}, True),
    }
    for name, (called, settings, ran) in cases.items():
        with subtests.test(name):
            taken.clear()
            handlers = trips(**{called: lambda arguments, context: taken.append((arguments, ""))})
            agent(ToolCall(called, {}, "c1"), "Done.", tools=[store], extensions=[handlers], **settings).run_sync("go")
            assert bool(taken) is ran


def test_rules_for_a_builtin_tool_apply_to_its_handler(subtests: pytest.Subtests) -> None:
    call = ToolCall("bash", {"command": "ls"}, "c1")
    cases: dict[str, tuple[dict[str, Any], bool]] = {
        "a flag that is not permitted": ({"permissions": ["file_read"], "approve": lambda call, run: True}, False),
        "a rule about the command": ({"permissions": {"bash(ls)": "deny"}}, False),
        "allowed": ({"permissions": {"bash(ls)": "allow"}}, True),
    }
    for name, (settings, ran) in cases.items():
        with subtests.test(name):
            taken.clear()
            handlers = trips(bash=lambda arguments, context: taken.append((arguments, "")))
            agent(call, "Done.", tools=[Shell()], extensions=[handlers], **settings).run_sync("go")
            assert bool(taken) is ran


def test_first_extension_with_handler_answers_and_invalid_handlers_are_refused() -> None:
    second = Extension(name="others", virtual_tools={"work": lambda arguments, context: "second"})
    run = asyncio.run(agent(CALLS[1], "Done.", extensions=[trips(), second]).run("go", show=False))
    assert run.rounds[0].results[0].text == "handled x"
    for wrong in ({"a b": plan_trip}, {"work": "text"}, {3: plan_trip}):
        with pytest.raises(SettingsError, match="The extension trips has an invalid virtual tool"):
            trips(**wrong) if all(isinstance(key, str) for key in wrong) else Extension(name="trips", virtual_tools=wrong)  # type: ignore[arg-type]
