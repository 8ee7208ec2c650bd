"""The policy `chat`: text ends the turn; limits bring one answer without tools."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from marked_logs import marked
from scripted_runs import bare, do, look, reply, work

from agentnb import Agent, Chat, Matrix, Store, ToolCall, fork_sync, recover, tool
from agentnb.agent.extension import Extension
from agentnb.core.log.events import LimitReached
from agentnb.core.messages import Text
from agentnb.core.run.rounds import MAX_TOOL_CALLS_PER_TURN
from agentnb.errors import SettingsError
from agentnb.guidance import GuidanceSet
from agentnb.models import ScriptedModel
from agentnb.policies import Policy, PolicyBundle
from agentnb.tools.tool import ToolContext


@pytest.mark.req("KX.1")
def test_text_reply_ends_the_turn_even_with_open_todos() -> None:
    todo = ToolCall("todo_operations", {"operation": "write", "todoList": [{"id": 1, "title": "One", "status": "not-started"}]})
    model = ScriptedModel([todo, "I will look at the second one tomorrow.", "Never said."])
    run = Agent(model, tools=[look], policy="chat", instructions=False).run_sync("go")
    assert (run.stop_reason, len(run.rounds), run.status) == ("natural", 2, "completed")
    assert [todo.status for todo in run.todos] == ["not-started"]
    announced = ScriptedModel(["Now I call look to see more.", "Never said."])
    assert len(Agent(announced, tools=[look], policy="chat").run_sync("go").rounds) == 1


@pytest.mark.req("R3.9", "K3.1")
def test_ninth_call_triggers_one_final_answer_without_tools() -> None:
    model = ScriptedModel([*map(do, range(9)), "That is what I have."])
    run = Agent(model, tools=[work], todos=False, policy="chat").run_sync("go")
    records = [record for round in run.rounds for record in round.records]
    assert [record.rule for record in records if record.rule] == [records[8].rule] == [MAX_TOOL_CALLS_PER_TURN]
    assert [event.limit for event in run.events if isinstance(event, LimitReached)] == [MAX_TOOL_CALLS_PER_TURN]
    assert (run.status, run.text, model.requests[-1].settings.get("tool_choice")) == ("limited", "That is what I have.", "none")
    assert len(run.rounds) == 10


@pytest.mark.req("KX.2")
def test_agent_settings_override_policy_limits(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
        "documented": ({"policy": "chat"}, (8, 90, "final_answer")),
        "of the policy": ({"policy": Chat(max_tool_calls_per_turn=3, max_seconds=None)}, (3, None, "final_answer")),
        "of the agent": ({"policy": "chat", "max_seconds": 5, "on_limit": "raise"}, (8, 5, "raise")),
        "none": ({"policy": "chat", "max_tool_calls_per_turn": "none", "max_seconds": "none"}, (None, None, "final_answer")),
        "another policy": ({"policy": "minimal"}, (None, None, "stop")),
        "by default": ({}, (None, None, "stop")),
    }
    for name, (settings, expected) in cases.items():
        with subtests.test(name):
            limits = bare(ScriptedModel([]), **settings).limits
            assert (limits.max_tool_calls_per_turn, limits.max_seconds, limits.on_limit) == expected
    assert isinstance(bare(ScriptedModel([])).used_policy, Matrix)
    with pytest.raises(SettingsError, match="on_limit='none'"):
        bare(ScriptedModel([]), on_limit="none")
    for wrong in ({"max_seconds": 0}, {"max_tool_calls_per_turn": 1.5}, {"tool_seconds": True}, {"max_seconds": "none"}):
        with pytest.raises(SettingsError):
            Chat(**wrong)


async def slow(seconds: float = 60) -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return "waited"


@pytest.mark.req("R3.36")
def test_tool_without_a_timeout_gets_the_policy_timeout() -> None:
    own = tool(timeout=60)(slow)
    for policy, limits in ((Chat(tool_seconds=0.01), True), (Chat(tool_seconds=None), False)):
        model = ScriptedModel([ToolCall("slow", {} if limits else {"seconds": 0}, "c1"), "Done."])
        run = bare(model, [_unlimited], policy=policy).run_sync("go")
        assert run.rounds[0].results[0].error_code == ("timeout" if limits else None)
    assert bare(ScriptedModel([]), policy="chat").bundle.tool_seconds == 30
    for slow_tool, handlers in ((own, {}), (_unlimited, {"slow": _handled}), (own, {"slow": _handled})):
        extensions = [Extension(name="handlers", virtual_tools=handlers)]
        model = ScriptedModel([ToolCall("slow", {"seconds": 0.05}, "c1"), "Done."])
        run = bare(model, [slow_tool], policy=Chat(tool_seconds=0.01), extensions=extensions).run_sync("go")
        assert run.rounds[0].results[0].error_code == (None if slow_tool is own else "timeout")
    inner = bare(ScriptedModel([ToolCall("slow", {"seconds": 0.05}, "c1"), "Waited."]), [own], name="inner")
    outer = bare(ScriptedModel([ToolCall("inner", {"prompt": "go"}, "o1"), "Done."]), [inner], policy=Chat(tool_seconds=0.01))
    assert outer.run_sync("go").rounds[0].results[0].text == "Waited."  # a nested run has its own limits


async def _handled(arguments: dict[str, float], context: ToolContext) -> str:
    return await slow(**arguments)


async def _wait(seconds: float = 60) -> str:
    """Waits."""
    await asyncio.sleep(seconds)
    return "waited"


_unlimited = tool(name="slow")(_wait)


@pytest.mark.req("R3.10")
def test_time_limit_cancels_the_tool_and_asks_for_an_answer() -> None:
    model = ScriptedModel([ToolCall("slow", {}, "c1"), "Out of time."])
    run = bare(model, [_unlimited], policy=Chat(max_seconds=0.05)).run_sync("go")
    assert (run.status, run.stop_reason, run.text) == ("limited", "max_seconds", "Out of time.")
    assert (run.rounds[0].results[0].error_code, model.requests[-1].settings.get("tool_choice")) == ("time_limit", "none")


def test_empty_reply_is_retried_once() -> None:
    model = ScriptedModel([reply(Text("")), "Two."])
    run = bare(model, policy="chat").run_sync("go")
    assert run.text == "Two." and len(run.rounds) == 2


def test_recovered_and_forked_runs_keep_their_limits(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, settings in {"none": {"max_seconds": "none", "on_limit": "stop"}, "documented": {}}.items():
        with subtests.test(name):
            model = ScriptedModel([do(1), "Done."], name="scripted:chat")
            whole = bare(model, [work], policy="chat", **settings).run_sync("go", store=Store(tmp_path / name / "whole"))
            folder = tmp_path / name / "cut"
            folder.mkdir()
            (folder / f"{whole.id}.jsonl").write_bytes(marked(whole.events[:-4]))
            run = asyncio.run(recover(whole.id, store=Store(folder), tools=[work], model=ScriptedModel(["Done."])))
            assert run.status == "completed"
            forked = fork_sync(whole, 1, tools=[work], model=ScriptedModel(["Other."]))
            for key in ("max_seconds", "max_tool_calls_per_turn", "on_limit", "policy"):
                assert forked.settings.get(key) == whole.settings.get(key), key
            freed = fork_sync(whole, 1, tools=[work], model=ScriptedModel(["Other."]), limits={"max_seconds": None})
            assert freed.settings.get("max_seconds") is None


def test_custom_policy_can_set_only_limits(subtests: pytest.Subtests) -> None:
    @dataclass
    class Brief:
        agent_settings: Any
        name: ClassVar[str] = "brief"

        def rules(self, words: GuidanceSet, *limits: Policy, repeatable: Iterable[str] = ()) -> PolicyBundle:
            return PolicyBundle(())

    assert bare(ScriptedModel([]), policy=Brief({"max_seconds": 3})).limits.max_seconds == 3
    for given in (5, ["max_seconds"], {"max_secnds": 3}, {"model": "simulated:disciplined"}):
        with subtests.test(repr(given)), pytest.raises(SettingsError, match="brief"):
            bare(ScriptedModel([]), policy=Brief(given))
