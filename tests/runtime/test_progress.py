"""Progress of tools: sent to watchers while they run, kept with their results."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from run_checks import codes
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, ToolCall, tool
from agentnb.core.log.events import Progress, ToolFinished, ToolProgress
from agentnb.core.log.wire import decode, encode
from agentnb.models import ScriptedModel
from agentnb.runtime.calls.call_reports import MAX_TEXT
from agentnb.tools.tool import ToolContext


def run_of(work: Any, **how: Any) -> tuple[Run, list[Progress]]:
    reports: list[Progress] = []

    def watch(item: Any) -> None:
        if isinstance(item, ToolProgress):
            reports.append(item.progress)

    agent = Agent(ScriptedModel([ToolCall(work.__name__), "Done."]), tools=[work], todos=False)
    return agent.run_sync("go", watch=watch, **how), reports


def last(run: Run) -> Progress | None:
    (finished,) = [event for event in run.events if isinstance(event, ToolFinished)]
    assert decode(encode(finished)) == finished
    assert run.rounds[0].records[0].progress == finished.progress
    return finished.progress


@pytest.mark.req("R0.72")
def test_progress_from_loop_and_thread_is_reported_and_last_kept(subtests: pytest.Subtests) -> None:
    async def on_the_loop(context: ToolContext) -> None:
        context.progress(1, 3, "reading")
        context.progress(2, 3)

    def on_the_waiting_thread(context: ToolContext) -> None:
        context.progress(1, 3, "reading")
        context.progress(2, 3)

    @tool(parallel_safe=True)
    def in_a_thread(context: ToolContext) -> None:
        context.progress(1, 3, "reading")
        context.progress(2, 3)

    for work in (on_the_loop, on_the_waiting_thread, in_a_thread):
        with subtests.test(work.__name__):
            run, _ = run_of(work)
            assert last(run) == Progress(2, 3)

    async def waits(context: ToolContext) -> None:
        context.progress(1, None, "reading")
        await asyncio.sleep(0)

    assert run_of(waits)[1] == [Progress(1, None, "reading")]


def test_progress_of_a_tight_loop_is_throttled_but_ends_complete() -> None:
    seen = threading.Event()

    @tool(parallel_safe=True)
    def count(context: ToolContext) -> None:
        for n in range(10_001):
            context.progress(n, 10_000)
        assert seen.wait(PATIENCE)

    reports: list[Progress] = []

    def watch(item: Any) -> None:
        if isinstance(item, ToolProgress):
            reports.append(item.progress)
            if item.progress.done == 10_000:
                seen.set()

    run = Agent(ScriptedModel([ToolCall("count"), "Done."]), tools=[count], todos=False).run_sync("go", watch=watch)
    assert codes(run) == [None] and reports[-1] == last(run) == Progress(10_000, 10_000)
    assert len(reports) < 1_000


def test_failed_or_stopped_call_keeps_its_progress() -> None:
    def breaks(context: ToolContext) -> None:
        context.progress(2, 5, "writing")
        raise RuntimeError("disk")

    assert last(run_of(breaks)[0]) == Progress(2, 5, "writing")

    async def hangs(context: ToolContext) -> None:
        context.progress(1, 5)
        await asyncio.Event().wait()

    reports: list[Any] = []
    live = Agent(ScriptedModel([ToolCall("hangs")]), tools=[hangs], todos=False).start("go", watch=reports.append)
    wait_until(lambda: any(isinstance(item, ToolProgress) for item in reports))
    live.stop()
    run = live.result(PATIENCE)
    assert codes(run) == ["cancelled"] and last(run) == Progress(1, 5)


def test_progress_after_the_end_of_the_call_is_ignored() -> None:
    kept: list[ToolContext] = []

    async def leaves(context: ToolContext) -> None:
        kept.append(context)

    async def later() -> None:
        kept[0].progress(1, 2)
        await asyncio.sleep(0)

    reports: list[Any] = []
    agent = Agent(ScriptedModel([ToolCall("leaves"), ToolCall("later"), "Done."]), tools=[leaves, later], todos=False)
    run = agent.run_sync("go", watch=reports.append)
    kept[0].progress(2, 2)
    assert run.rounds[0].records[0].progress is None
    assert not [item for item in reports if isinstance(item, ToolProgress)]


def test_progress_text_is_redacted_and_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-0123456789abcdef")

    async def tells(context: ToolContext) -> None:
        context.progress(1, 2, "\ud800" + "x" * (MAX_TEXT - 10) + "sk-planted-0123456789abcdef" + "x" * MAX_TEXT)
        await asyncio.sleep(0)

    run, reports = run_of(tells)
    found = last(run)
    assert found is not None and len(found.text) <= MAX_TEXT
    for one in (found, *reports):
        assert "sk-" not in one.text and "\ud800" not in one.text


def test_invalid_progress_number_is_refused(subtests: pytest.Subtests) -> None:
    for done, total in [(float("nan"), 1), (1, float("inf")), ("many", 2), (10**400, 1)]:
        with subtests.test(f"{done} of {total}"):

            async def tells(context: ToolContext, done: Any = done, total: Any = total) -> None:
                context.progress(done, total)

            run, _ = run_of(tells)
            assert codes(run) == ["tool_error"] and last(run) is None
