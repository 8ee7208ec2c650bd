"""Terminal output for compactions and interrupted runs, and views of recovered runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from marked_logs import own_run
from scripted_runs import look

from agentnb import Agent, History, Plan, Run, Store, ToolCall, Workflow, recover
from agentnb.core.log.events import RunFinished, RunRecovered
from agentnb.display.texts.round_notes import RECOVERED, RESUMED
from agentnb.models import ScriptedModel
from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import OpenWidgets
from agentnb.notebook.views import DisplayView, TerminalView
from agentnb.policies.gates import Ask
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions


def run_of_calls(count: int, **how: Any) -> Run:
    model = ScriptedModel([*[ToolCall("look", {"n": n}) for n in range(count)], "Done."])
    return Agent(model, tools=[look], todos=False, guidance="off", **how).run_sync("Go.")


def cut() -> Run:
    """Return a run whose process died after its first call."""
    run = run_of_calls(2)
    return own_run(run.events[: next(event.seq for event in run.events if event.__struct_config__.tag == "tool_finished")])


def gone_on_with(watch: Any) -> LiveRun:
    agent = Agent(ScriptedModel(["Done."]), tools=[look], todos=False, guidance="off")
    return agent.resume(cut(), options=RunOptions(watch=watch, can_ask=True))


def test_terminal_prints_a_compaction_once_as_it_happens(capsys: pytest.CaptureFixture[str]) -> None:
    run, view = run_of_calls(5, history=History(compact_above=8, keep_recent=3)), TerminalView()
    for event in run.events:
        view(event)
    out = capsys.readouterr().out
    why = "because the conversation had more than 8 messages"
    assert out.count(f"summarizing, {why}\n") == 1 and out.count(f" messages summarized, {why}") == 1
    assert out.index("summarizing") < out.index("messages summarized")


@pytest.mark.req("KX.11")
def test_terminal_shows_where_another_process_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    gone_on_with(TerminalView()).result(30)
    out = capsys.readouterr().out
    assert out.count(RECOVERED) == 1 and "■ interrupted: the kernel died" in out and "Done, not checked: 2 rounds" in out


def asks_first(call: ToolCall, run: Any) -> Ask:
    return Ask("May it look?")


def test_terminal_reports_a_run_that_waited_as_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    asks = Workflow.from_yaml("workflow: [{id: h, type: human, ask: Which?}]").orchestration()
    agent = Agent(ScriptedModel([ToolCall("look"), "Done."]), tools=[look], todos=False, gates=[asks_first])
    for name, what in {"a workflow": asks, "an agent": agent}.items():
        with subtests.test(name):
            store = Store(tmp_path / name)
            run = asyncio.run(what.run("Go.", RunOptions(store=store, suspend=True)))
            assert run.is_suspended
            answers = {run.waiting[0].id: "this" if what is asks else "approve"}
            again = asyncio.run(recover(run.id, agent=what, answers=answers, watch=TerminalView(), store=store))
            assert again.status == "completed"
            out = capsys.readouterr().out
            assert RECOVERED not in out and "the kernel died" not in out and RESUMED in out


def test_terminal_notes_how_a_run_without_a_store_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    plan = Plan.read({"steps": [{"name": "look", "args": {"n": 1}}], "elicitation": {"message": "Which?"}})
    run = plan.run_sync(tools=[look], watch=TerminalView())
    out = capsys.readouterr().out
    assert run.is_suspended and "Note: This run has no store" in out and "answer=FUNCTION" in out
    assert "%agent answer" not in out


@pytest.mark.parametrize("in_a_loop", [True, False])
def test_display_updated_from_another_thread_shows_the_end(in_a_loop: bool) -> None:
    shown: list[dict[str, str]] = []

    def recovered() -> None:
        live = gone_on_with(DisplayView(keep=shown.append))
        assert live.result(30).status == "completed"

    async def in_a_cell() -> None:
        recovered()

    asyncio.run(in_a_cell()) if in_a_loop else recovered()
    assert "Done." in shown[-1]["text/plain"] and RECOVERED in shown[-1]["text/plain"]


def test_card_updated_from_another_thread_uses_the_run_loop() -> None:
    view = CardView(OpenWidgets(), blocks=False)
    loops: list[Any] = []

    def watch(item: Any) -> None:
        view(item)
        if isinstance(item, RunRecovered | RunFinished):
            loops.append((view._loop, asyncio.get_running_loop()))

    async def in_a_cell() -> None:
        here = asyncio.get_running_loop()
        live = gone_on_with(watch)
        await asyncio.to_thread(live.result, 30)
        assert len(loops) == 2 and all(known is running is not here for known, running in loops)

    asyncio.run(in_a_cell())
