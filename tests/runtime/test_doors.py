"""All entry points: those that start a run share their options, those that resume one check its gates."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from own_orchestrator import side_by_side
from scripted_runs import agent_of, bare

from agentnb import (
    Agent,
    Matrix,
    Run,
    RunOptions,
    Store,
    TodoBoard,
    ToolCall,
    Workflow,
    fork,
    fork_sync,
    recover,
    reproduce,
    reproduce_sync,
)
from agentnb.core.log.events import ToolFinished
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies import PolicyBundle
from agentnb.policies.gates import Allow, Ask, Deny, Gate, Verdict
from agentnb.runtime.host.run_options import AgentRunKeywords, ResumeKeywords, RunKeywords
from agentnb.tools.tool import ToolContext


async def noted(text: str = "") -> str:
    """Note."""
    return f"noted {text}"


async def asks(context: ToolContext) -> str:
    """Ask the person."""
    return str(await context.ask("Which?"))


agent = partial(agent_of, tools=[noted, asks], guidance="off", todos=False)


def careful(call: ToolCall, run: Run) -> Verdict:
    return Ask("May it?")


def asking() -> Agent:
    return agent(ToolCall("asks"), "Done.", gates=[careful])


async def last_of_stream(prompt: str, **keywords: Any) -> Run:
    items = [item async for item in asking().stream(prompt, **keywords)]
    run: Run = keywords["store"].load(items[-1].run_id)  # type: ignore[union-attr]
    return run


def steps() -> Workflow:
    return Workflow.from_yaml("workflow: [{type: tool, name: asks}]\n", tools=[asks])


def pair() -> Any:
    return side_by_side(asking(), agent("Right."))


DOORS: dict[str, Callable[..., Any]] = {
    "agent.run": lambda **more: asyncio.run(asking().run("Go", **more)),
    "agent.start": lambda **more: asking().start("Go", **more).result(30),
    "agent.run_sync": lambda **more: asking().run_sync("Go", **more),
    "agent.stream": lambda **more: asyncio.run(last_of_stream("Go", **more)),
    "workflow.run": lambda **more: asyncio.run(steps().run("Go", gates=[careful], **more)),
    "workflow.start": lambda **more: steps().start("Go", gates=[careful], **more).result(30),
    "workflow.run_sync": lambda **more: steps().run_sync("Go", gates=[careful], **more),
    "orchestration.run": lambda **more: asyncio.run(pair().run("Go", **more)),
    "orchestration.start": lambda **more: pair().start("Go", **more).result(30),
    "orchestration.run_sync": lambda **more: pair().run_sync("Go", **more),
}


def test_all_entry_points_accept_the_same_options(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, door in DOORS.items():
        with subtests.test(name):
            store, items, judged = Store(tmp_path / name), list[Any](), list[str]()
            run = door(
                store=store,
                watch=items.append,
                answer=lambda question: "this one",
                approve=lambda call, run, judged=judged: judged.append(call.name) is None,
                tags=("night",),
                context_type="task",
                entity="thing",
                parent_id="20260101-000000-000aaaaaaaa",
                suspend=True,
                show=False,
                allow_urls=(),
            )
            assert (run.status, run.tags, judged) == ("completed", ("night",), ["asks"]), run.error
            assert (run.context_type, run.entity, run.parent_id) == ("task", "thing", "20260101-000000-000aaaaaaaa")
            assert store.load(run.id) == run and type(items[-1]).__name__ == "RunFinished"
            assert [one.answer for one in run.questions][-1] == "this one"


def test_recorded_run_entry_points_accept_run_options(tmp_path: Path, subtests: pytest.Subtests) -> None:
    recorded = agent(ToolCall("noted"), "Done.").run_sync("Go", tags=("day",), entity="old")
    doors: dict[str, Callable[..., Run]] = {
        "fork": lambda **more: asyncio.run(fork(recorded, 1, model=ScriptedModel(["Other."]), **more)),
        "fork_sync": lambda **more: fork_sync(recorded, 1, model=ScriptedModel(["Other."]), **more),
        "fork later": lambda **more: fork_sync(recorded, 2, model=ScriptedModel(["Other."]), **more),
        "reproduce": lambda **more: asyncio.run(reproduce(recorded, **more)),
        "reproduce_sync": lambda **more: reproduce_sync(recorded, **more),
    }
    for name, door in doors.items():
        with subtests.test(name):
            store, items = Store(tmp_path / name), list[Any]()
            parent = "20260101-000000-000aaaaaaaa"
            own = {"tags": ("night",), "context_type": "task", "entity": "thing", "parent_id": parent}
            run = store.load(door(store=store, watch=items.append, show=False, **own).id)
            assert run.status == "completed" and type(items[-1]).__name__ == "RunFinished"
            assert {name: getattr(run.events[0], name) for name in own} == own
            assert {event.parent_id for event in run.events} == {parent}
            run = door(show=False)
            assert (run.tags, run.entity, run.parent_id) == (("day",), "old", None), "those of the recorded run"


def test_other_runnables_refuse_agent_options(subtests: pytest.Subtests) -> None:
    earlier = agent("Done.").run_sync("Go")
    for name, options in {"continue_from": RunOptions(continue_from=earlier), "board": RunOptions(board=TodoBoard())}.items():
        for what in (steps(), pair()):
            with (
                subtests.test(f"{name} {type(what).__name__}"),
                pytest.raises(SettingsError, match=f"{name} does not apply to"),
            ):
                what.start("Go", options)


def folder(context: ToolContext) -> str:
    """Name the folder."""
    return context.work_dir.name


def test_tools_use_the_folder_given_in_the_run_options(tmp_path: Path, subtests: pytest.Subtests) -> None:
    def looks() -> Agent:
        return bare(ScriptedModel([ToolCall("folder"), "Done."]), [folder], work_dir=tmp_path / "own")

    tool_step, agent_step = "workflow: [{type: tool, name: folder}]", "workflow: [{type: agent, name: a}]"
    (tmp_path / "inner.yaml").write_text(f"{tool_step}\n")
    here = Path.cwd().name

    def of_yaml(text: str, **parts: Any) -> Callable[[], Workflow]:
        return lambda: Workflow.from_yaml(f"{text}\n", tools=[folder], **parts)

    made: dict[str, tuple[Callable[[], Any], str]] = {
        "agent": (looks, "own"),
        "tool step": (of_yaml(tool_step), here),
        "agent step": (lambda: of_yaml(agent_step, agents={"a": looks()})(), "own"),
        "file": (of_yaml(f"workflow: [{{type: workflow, file: {tmp_path / 'inner.yaml'}}}]"), here),
        "task": (of_yaml("stage: {one: {action: folder}}"), here),
        "orchestration": (lambda: side_by_side(looks(), looks()), "own"),
    }
    doors: dict[str, Callable[..., Run]] = {
        "run": lambda what, **more: asyncio.run(what.run("Go", **more)),
        "start": lambda what, **more: what.start("Go", **more).result(30),
        "run_sync": lambda what, **more: what.run_sync("Go", **more),
    }
    for name, (make, usual) in made.items():
        for door, start in doors.items():
            for work_dir, expected in ((None, usual), (tmp_path / "chosen", "chosen")):
                with subtests.test(f"{name}.{door} {expected}"):
                    store = Store(tmp_path / f"{name} {door} {expected}")
                    start(make(), store=store, work_dir=work_dir, show=False)
                    events = [event for run_id in store.ids() for event in store.load(run_id).events]
                    assert {one.result.text for one in events if isinstance(one, ToolFinished)} == {expected}
    with pytest.raises(SettingsError, match="work_dir=3 is not a folder"):
        RunOptions(work_dir=3)  # type: ignore[arg-type]  # what a person may type


def test_recovered_workflow_uses_the_folder_given_at_recovery(tmp_path: Path) -> None:
    store = Store(tmp_path)
    workflow = Workflow.from_yaml("workflow: [{type: tool, name: folder}]\n", tools=[folder])
    asked = workflow.run_sync("Go", gates=[careful], store=store, suspend=True, work_dir="first")
    again = workflow.orchestration(gates=[careful])
    answers = {asked.waiting[0].id: True}
    assert asyncio.run(recover(asked.id, agent=again, store=store, answers=answers, work_dir="second")).text == "second"


def test_keywords_are_options_and_unknown_ones_are_named(subtests: pytest.Subtests) -> None:
    options = {field.name for field in fields(RunOptions)}
    assert {*AgentRunKeywords.__annotations__, *ResumeKeywords.__annotations__} < options
    assert {*RunKeywords.__annotations__} < {*AgentRunKeywords.__annotations__}
    for name, door in DOORS.items():
        with subtests.test(name), pytest.raises(SettingsError, match="thread is now an option of the run"):
            door(thread=None, store=None)
        with subtests.test(f"{name} unknown"), pytest.raises(TypeError, match="has no keyword 'colour'"):
            door(colour="red", store=None)


def test_workflow_accepts_its_own_gates_at_every_entry_point(subtests: pytest.Subtests) -> None:
    def never(call: ToolCall, run: Run) -> Verdict:
        return Deny("not now")

    workflow = Workflow.from_yaml("workflow: [{type: tool, name: noted, on_error: {continue: refused}}]\n", tools=[noted])
    doors: dict[str, Callable[..., Any]] = {
        "run": lambda **more: asyncio.run(workflow.run("Go", **more)),
        "start": lambda **more: workflow.start("Go", **more).result(30),
        "run_sync": lambda **more: workflow.run_sync("Go", **more),
    }
    for name, door in doors.items():
        for given in ({"gates": [never]}, {"agent_settings": {"gates": [never]}}):
            with subtests.test(f"{name} {[*given]}"):
                assert door(show=False, **given).text == "refused"


# Gates


class Own:
    """A custom policy whose gate changes the judged call."""

    name = "own"

    def rules(self, words: Any, *limits: Any, repeatable: Any = ()) -> PolicyBundle:
        def edits(call: ToolCall, run: Run) -> Verdict:
            call.arguments["text"] = "changed"  # type: ignore[index, call-overload]
            return None

        bundle = Matrix().rules(words, *limits, repeatable=repeatable)
        return bundle._replace(gates=(edits, *bundle.gates))


def test_gate_of_a_custom_policy_cannot_change_calls_in_place() -> None:
    model = ScriptedModel([ToolCall("noted", {"text": "mine"}), "Done."])
    run = bare(model, [noted], policy=Own()).run_sync("Go")
    assert run.rounds[0].records[0].call.arguments == {"text": "mine"}
    assert run.rounds[0].results[0].text == "noted mine"
    assert "changed" not in str(model.requests[1].messages)


def test_different_lambdas_are_different_gates(tmp_path: Path) -> None:
    def made(gate: Gate) -> Agent:
        return agent(ToolCall("noted"), "Done.", gates=[gate])

    store = Store(tmp_path)
    careful: Gate = lambda call, run: Ask("May it?")  # noqa: E731
    careless: Gate = lambda call, run: Allow()  # noqa: E731
    run = made(careful).run_sync("Go", store=store, suspend=True)
    assert run.status == "waiting_on_user"
    answers = {run.waiting[0].id: True}
    with pytest.raises(SettingsError, match="had the gate <lambda>"):
        asyncio.run(recover(run.id, agent=made(careless), store=store, answers=answers))
    again = asyncio.run(recover(run.id, agent=made(lambda call, run: Ask("May it?")), store=store, answers=answers))
    assert again.status == "completed"


def test_resuming_requires_the_original_gates(tmp_path: Path, subtests: pytest.Subtests) -> None:
    def of_agent(*gates: Gate) -> Any:
        return agent(ToolCall("noted"), "Done.", gates=gates)

    def of_workflow(*gates: Gate) -> Any:
        workflow = Workflow.from_yaml("workflow: [{type: tool, name: noted}]\n", tools=[noted])
        return workflow.orchestration(gates=gates)

    def of_tasks(*gates: Gate) -> Any:
        return Workflow.from_yaml("stage:\n  one: {action: noted}\n", tools=[noted]).orchestration(gates=gates)

    for name, make in {"agent": of_agent, "orchestration": of_workflow, "task file": of_tasks}.items():
        with subtests.test(name):
            store = Store(tmp_path / name)
            run = make(careful).run_sync("Go", store=store, suspend=True)
            answers = {run.waiting[0].id: True}
            with pytest.raises(SettingsError, match="had the gate careful"):
                asyncio.run(recover(run.id, agent=make(), store=store, answers=answers))
            assert asyncio.run(recover(run.id, agent=make(careful), store=store, answers=answers)).status == "completed"
