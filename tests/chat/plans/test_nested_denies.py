"""Deny rules of an agent apply in all its nested runs; no outer run lifts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from plan_turns import call, plan, step

from agentnb import Agent, Plans, RunOptions, ToolCall, Workflow, tool
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext

DENIES = {"tides_fetch": "deny"}
FREE = RunOptions(approval_mode="auto", permissions={"*": "allow"}, approve=lambda call, run: True)
"""The options of the outermost run, which allows all."""
FETCH = ToolCall("tides_fetch", {"station": "brest"})


class Harbour:
    """Agents whose tool records the fetched stations."""

    def __init__(self) -> None:
        self.fetched: list[str] = []

    def tools(self) -> list[Any]:
        async def tides_fetch(station: str) -> str:
            self.fetched.append(station)
            return f"{station}: 05:10"

        @tool(effects=["read"])
        async def relay(context: ToolContext) -> str:
            """Call the other tool, as code in run_python does."""
            return (await context.call("tides_fetch", {"station": "brest"})).text

        return [tides_fetch, relay]

    def agent(self, *replies: Any, **settings: Any) -> Agent:
        return Agent(ScriptedModel([*replies, "Done."]), tools=self.tools(), todos=False, **settings)

    def around(self, inner: Any, **settings: Any) -> Agent:
        """Return an agent with another as a tool."""
        replies = [ToolCall(inner.name, {"prompt": "go"}), "Done."]
        return Agent(ScriptedModel(replies), tools=[inner], todos=False, **settings)


def as_a_tool(harbour: Harbour, rules: Any) -> Any:
    return harbour.around(harbour.agent(FETCH, permissions=rules, name="inner"))


def in_the_middle(harbour: Harbour, rules: Any) -> Any:
    """The agent's deny applies to its nested agents too."""
    inner = harbour.agent(FETCH, permissions={"tides_fetch": "allow"}, name="inner")
    return harbour.around(harbour.around(inner, permissions=rules, name="middle"))


def innermost(harbour: Harbour, rules: Any) -> Any:
    inner = harbour.agent(FETCH, permissions=rules, name="inner")
    return harbour.around(harbour.around(inner, permissions={"tides_fetch": "allow"}, name="middle"))


def in_a_call(harbour: Harbour, rules: Any) -> Any:
    return harbour.around(harbour.agent(ToolCall("relay"), permissions=rules, name="inner"))


def in_a_function(harbour: Harbour, rules: Any) -> Any:
    inner = harbour.agent(FETCH, permissions=rules)

    async def begin(context: ToolContext) -> str:
        return str((await context.start_run(inner, "go")).text)

    return Agent(ScriptedModel([ToolCall("begin"), "Done."]), tools=[begin], todos=False)


def in_a_step(harbour: Harbour, rules: Any) -> Any:
    text = "workflow:\n  - {type: agent, name: inner, prompt: go}\n"
    return Workflow.from_yaml(text, agents={"inner": harbour.agent(FETCH, permissions=rules)})


def in_a_plan(harbour: Harbour, rules: Any) -> Any:
    """The plan of a nested agent calls the tool."""
    replies = (call(), plan(step(1, "brest")), "It was done.")
    return harbour.around(harbour.agent(*replies, extensions=[Plans()], permissions=rules, name="inner"))


PLACES: dict[str, Callable[[Harbour, Any], Any]] = {
    "an agent as a tool": as_a_tool,
    "the level between": in_the_middle,
    "the innermost of three": innermost,
    "a call of a tool of it": in_a_call,
    "a run that a function begins": in_a_function,
    "a step of a workflow": in_a_step,
    "a plan of it": in_a_plan,
}


def test_deny_rule_of_a_nested_agent_applies_everywhere(subtests: pytest.Subtests) -> None:
    for name, made in PLACES.items():
        for rules, fetched in ((DENIES, []), ({"tides_fetch": "allow"}, ["brest"])):
            with subtests.test(f"{name}: {rules['tides_fetch']}"):
                harbour = Harbour()
                made(harbour, rules).run_sync("go", FREE)
                assert harbour.fetched == fetched
