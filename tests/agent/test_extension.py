"""Extensions add parts to an agent that knows nothing about them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from marked_logs import marked
from scripted_runs import bare, think, work

from agentnb import Agent, Run, Store, ToolCall, recover
from agentnb.agent.extension import Extension
from agentnb.agent.from_log import agent_of
from agentnb.core.guidance import Guidance
from agentnb.core.log.wire import encode
from agentnb.errors import InvalidTool, SettingsError, TraceError
from agentnb.interchange.files import load_trace
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Deny
from agentnb.policies.verdict import Continue, Stop, Verdict


def propose(steps: list[str]) -> str:
    """Propose a plan."""
    return f"{len(steps)} steps"


def guide(run: Run) -> Guidance:
    return Guidance("plans", "plans", "Plan first.")


def two_rounds(run: Run) -> Verdict | None:
    return Stop("max_plans", "limited", limit=2) if len(run.rounds) >= 2 else None


def with_parts(**parts: Any) -> Extension:
    return Extension(**{"name": "plans", "prompt": "You may plan.", "tools": [propose], "settings": {"most": 3}, **parts})


PLAN = ToolCall("propose", {"steps": ["a", "b"]})


def test_extension_adds_prompt_and_tools_and_is_logged() -> None:
    agent = bare(ScriptedModel([PLAN, "Done."]), [work], system="Be brief.", extensions=[with_parts()], instructions=False)
    run = agent.run_sync("go")
    assert run.system == "Be brief.\n\nYou may plan."
    assert [tool.name for tool in run.tools] == ["work", "propose"]
    assert run.rounds[0].results[0].text == "2 steps"
    assert run.settings["extensions"] == [{"name": "plans", "tools": ["propose"], "settings": {"most": 3}}]
    assert run.own_tools == ["work"]


def test_agent_without_extensions_logs_no_extension() -> None:
    assert "extensions" not in bare(ScriptedModel([])).settings


def test_extension_policies_decide_first_and_extension_limits_stop_others() -> None:
    def once_more(run: Run) -> Verdict | None:
        return Continue("once_more") if len(run.rounds) == 1 else None

    run = bare(ScriptedModel(["One.", "Two."]), extensions=[with_parts(policies=(once_more,), limits=(two_rounds,))]).run_sync(
        "go"
    )
    assert [round.reason for round in run.rounds] == ["prompt", "once_more"]
    endless = with_parts(policies=(lambda run: Continue("on"),), limits=(two_rounds,))
    run = bare(ScriptedModel(["One.", "Two."]), extensions=[endless]).run_sync("go")
    assert (run.status, run.stop_reason, len(run.rounds)) == ("limited", "max_plans", 2)


def test_extension_guides_gates_and_detectors_are_used() -> None:
    kinds: list[str] = []

    class Looks:
        def take(self, event: Any, run: Run) -> list[Any]:
            kinds.append(type(event).__name__)
            return []

    def refuse(call: ToolCall, run: Run) -> Deny | None:
        return Deny("not now", "no_thoughts") if call.name == "think" else None

    extension = with_parts(guides=(guide,), gates=(refuse,), detectors=(Looks,))
    run = bare(ScriptedModel([ToolCall("think", {}), "Done."]), [think], extensions=[extension]).run_sync("go")
    assert [guidance.text for guidance in run.rounds[0].guidance] == ["Plan first."]
    assert run.rounds[0].records[0].rule == "no_thoughts"
    assert "RunFinished" in kinds


def test_parts_of_several_extensions_keep_their_order() -> None:
    first, second = with_parts(prompt="One."), with_parts(name="notes", prompt="Two.", tools=[think])
    run = bare(ScriptedModel(["Done."]), system="Zero.", extensions=[first, second], instructions=False).run_sync("go")
    assert run.system == "Zero.\n\nOne.\n\nTwo."
    assert [tool.name for tool in run.tools] == ["propose", "think"]


def test_extension_supplies_model_limits_and_policy_the_agent_lacks(subtests: pytest.Subtests) -> None:
    deep = ScriptedModel(["Deep."], name="scripted:deep", repeat=True)
    first = with_parts(agent_settings={"policy": "minimal", "max_seconds": 9, "on_limit": "raise", "max_rounds": 7})
    second = Extension(name="others", agent_settings={"model": deep, "max_seconds": 3, "max_tokens": 5})
    cases: dict[str, tuple[dict[str, Any], tuple[Any, ...]]] = {
        "none of its own": ({}, ("minimal", 9, "raise", 7, 5)),
        "its own": ({"policy": "matrix", "max_seconds": 1, "max_rounds": 3}, ("matrix", 1, "raise", 3, 5)),
        "no limit": ({"max_seconds": "none", "on_limit": "stop"}, ("minimal", None, "stop", 7, 5)),
    }
    for name, (settings, expected) in cases.items():
        with subtests.test(name):
            agent = bare(ScriptedModel(["Shallow."]), extensions=[first, second], **settings)
            limits = agent.limits
            used = (agent.used_policy.name, limits.max_seconds, limits.on_limit, limits.max_rounds, limits.max_tokens)
            assert used == expected and agent.run_sync("go").text == "Deep."
            logged = (agent.settings.get("max_seconds"), agent.settings["policy"]["name"], agent.run_sync("go").model)
            assert logged == (expected[1], expected[0], "scripted:deep")


def test_invalid_extension_is_refused(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, type[Exception], str]] = {
        "a text": (lambda: bare("simulated:chatty", extensions="plans"), SettingsError, "is not an extension"),
        "no extension": (lambda: bare("simulated:chatty", extensions=[3]), SettingsError, "is not an extension"),
        "twice": (
            lambda: bare("simulated:chatty", extensions=[with_parts(), with_parts(tools=())]),
            SettingsError,
            "Two extensions",
        ),
        "a name taken": (
            lambda: bare("simulated:chatty", [propose], extensions=[with_parts()]),
            InvalidTool,
            "already registered",
        ),
        "an unknown setting": (lambda: with_parts(agent_settings={"max_second": 1}), SettingsError, "Did you mean max_seconds"),
        "a wrong limit": (
            lambda: bare("simulated:chatty", extensions=[with_parts(agent_settings={"max_seconds": 0})]),
            SettingsError,
            "max_seconds=0",
        ),
        "no name": (lambda: Extension(name=" "), SettingsError, "is not a valid extension name"),
        "settings": (lambda: Extension(name="plans", settings={"of": object()}), SettingsError, "JSON"),
    }
    for name, (make, error, words) in cases.items():
        with subtests.test(name), pytest.raises(error, match=words):
            make()


def interrupted(folder: Path) -> Run:
    agent = bare(ScriptedModel([PLAN, "Done."], name="scripted:plans"), extensions=[with_parts()])
    run = agent.run_sync("go", store=Store(folder / "whole"))
    folder.joinpath("cut").mkdir()
    log = marked(run.events[:-4])
    (folder / "cut" / f"{run.id}.jsonl").write_bytes(log)
    return Store(folder / "cut").load(run.id)


def test_recovering_a_run_requires_its_extension(tmp_path: Path) -> None:
    cut, store = interrupted(tmp_path), Store(tmp_path / "cut")
    model = ScriptedModel(["Done."])
    for agent in (None, bare(model), bare(model, extensions=[with_parts(name="notes")])):
        with pytest.raises(SettingsError, match=r"does not contain its extension plans.*extensions=\[\.\.\.\]"):
            asyncio.run(recover(cut.id, agent=agent, model=None if agent else model, store=store))
    with pytest.raises(SettingsError, match="does not contain its extension plans"):
        agent_of(cut, model=model)
    again = agent_of(cut, model=model, extensions=[with_parts()])
    assert isinstance(again, Agent)
    run = asyncio.run(recover(cut.id, agent=again, store=store))
    assert (run.status, [tool.name for tool in model.requests[0].tools]) == ("completed", ["propose"])


def test_log_with_invalid_extensions_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    run = bare(ScriptedModel(["Done."]), extensions=[with_parts()]).run_sync("go")
    lines = b"".join(map(encode, run.events)).decode()
    logged = '[{"name":"plans","tools":["propose"],"settings":{"most":3}}]'
    assert logged in lines
    for name, instead in {"number": "3", "texts": '["plans"]', "no name": "[{}]", "tools": '[{"name":"a","tools":3}]'}.items():
        with subtests.test(name):
            path = tmp_path / f"{name}.jsonl"
            path.write_text(lines.replace(logged, instead))
            with pytest.raises(TraceError, match="extension"):
                load_trace(path)


def test_extension_parts_of_the_wrong_kind_are_refused(subtests: pytest.Subtests) -> None:
    parts: list[dict[str, Any]] = [
        {"policies": 5},
        {"policies": lambda run: None},
        {"gates": "abc"},
        {"guides": (5,)},
        {"prompt": 5},
        {"settings": None},
    ]
    for part in parts:
        with subtests.test(**part), pytest.raises(SettingsError):
            Extension(name="plans", **part)
