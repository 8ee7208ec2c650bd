"""A person leaves during a question: suspendable questions stay open, the others are withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, RunOptions, Store, ToolCall, Workflow, ask_person, load_trace, recover, tool
from agentnb.core.run.rounds import DENIED
from agentnb.errors import NobodyToAsk
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext


def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


@tool(effects=["read"])
async def measure(context: ToolContext) -> str:
    """Ask how deep the water is."""
    try:
        return f"{await context.ask('How deep?', {'type': 'integer'})} m"
    except NobodyToAsk as error:
        return f"unknown: {error.what}"


@tool(effects=["read"])
async def delegate(context: ToolContext) -> str:
    """Have another agent write."""
    run = await context.start_run(agent(ToolCall("write", {"path": "inner"})), "go")
    return f"{run.status}, {run.rounds[0].results[0].error_code}"


def agent(*calls: ToolCall) -> Agent:
    return Agent(
        ScriptedModel([[call] for call in calls] + ["Done."]), tools=[write, measure, delegate, ask_person], todos=False
    )


def left(text: str, store: Store, worker: Agent | None = None, asked: int = 1) -> Run:
    """Run these steps; the person leaves when so many questions are open."""
    workflow = Workflow.from_yaml(f"workflow:\n{text}", tools=[write, measure], agents={"worker": worker or agent()})
    live = workflow.start(options=RunOptions(store=store, suspend=True, can_ask=True, show=False), approve="ask")
    wait_until(lambda: len(live.run.waiting) == asked or live.done)
    live.leave()
    run = live.result(PATIENCE)
    for run_id in store.ids():
        load_trace(store.path(run_id))  # each log is well-formed
    assert load_trace(store.path(run.id)) == run
    return run


WAITING: dict[str, tuple[str, Callable[[], Agent], list[Any]]] = {
    "a human step": ("  - {id: a, type: human, ask: 'Which?'}", agent, ["red"]),
    "two of them": (
        "  - {type: parallel, id: p, steps: [{id: a, type: human, ask: A?}, {id: b, type: human, ask: B?}]}",
        agent,
        ["red", "blue"],
    ),
    "the call of a step": ("  - {id: a, type: tool, name: write, args: {path: a}}", agent, ["approve"]),
    "the call of an agent": ("  - {type: agent, name: worker, id: a}", lambda: agent(ToolCall("write", {"path": "a"})), [True]),
}


def test_suspendable_questions_stay_open_and_can_be_answered_later(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, (name, (text, built, answers)) in enumerate(WAITING.items()):
        with subtests.test(name):
            store = Store(tmp_path / str(number))
            run = left(f"{text}\n", store, built(), len(answers))
            assert run.is_suspended and len(run.waiting) == len(run.questions) == len(answers)
            assert {question.call_id.rpartition("/")[2] for question in run.waiting} <= {"a", "b"}
            given = {question.id: answer for question, answer in zip(run.waiting, answers, strict=True)}
            again = Workflow.from_yaml(f"workflow:\n{text}\n", tools=[write, measure], agents={"worker": agent()})
            ended = asyncio.run(recover(run.id, agent=again.orchestration(), store=store, answers=given))
            assert ended.status == "completed" and [record.answer for record in ended.questions] == answers
            assert not ended.waiting and load_trace(store.path(ended.id)) == ended


def test_resuming_asks_the_same_question_again(tmp_path: Path) -> None:
    store, text = Store(tmp_path), "  - {type: agent, name: worker, id: a}\n"
    run = left(text, store, agent(ToolCall("write", {"path": "a"})))
    again = Workflow.from_yaml(f"workflow:\n{text}", agents={"worker": agent()})
    writer, loaded = store.reopen(run.id)
    live = again.orchestration().resume(loaded, writer, RunOptions(store=store, can_ask=True))
    wait_until(lambda: live.run.waiting or live.done)
    assert [question.id for question in live.run.waiting] == [question.id for question in run.waiting]
    live.answer("approve")
    ended = live.result(PATIENCE)
    assert ended.status == "completed" and len(ended.questions) == 1 and load_trace(store.path(ended.id)) == ended


def test_tool_that_asks_without_a_person_gets_an_error(tmp_path: Path) -> None:
    for number, (text, worker) in enumerate(
        [
            ("  - {id: a, type: tool, name: measure}\n", agent()),
            ("  - {id: a, type: agent, name: worker}\n", agent(ToolCall("measure"))),
        ]
    ):
        store = Store(tmp_path / str(number))
        run = left(f"{text}  - {{id: b, type: human, ask: 'Which?'}}\n", store, worker)
        assert run.is_suspended and [question.message for question in run.waiting] == ["Which?"]
        assert [record.outcome for record in run.questions] == ["withdrawn", "open"]
        message = (
            run.steps["a"]["output"] if number == 0 else store.load(run.step_records["a"].nested).rounds[0].results[0].text
        )
        assert message.startswith("unknown: No person is attached")


def test_run_started_by_a_tool_cannot_wait_for_approval(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = left("  - {id: a, type: agent, name: worker}\n", store, agent(ToolCall("delegate")))
    assert run.status == "completed" and [record.outcome for record in run.questions] == ["withdrawn"]
    nested = store.load(run.step_records["a"].nested)
    assert nested.rounds[0].results[0].text == f"completed, {DENIED}"
