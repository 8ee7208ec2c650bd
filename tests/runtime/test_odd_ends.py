"""Unexpected endings: GeneratorExit from foreign code, a log that cannot be created, an abandoned tool."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from property_settings import size
from run_checks import assert_every_call_has_one_result
from scripted_runs import bare, work

from agentnb import Agent, Run, RunOptions, Store, ToolCall
from agentnb.core.log.events import ToolStarted
from agentnb.errors import StoreError
from agentnb.models import ScriptedModel
from agentnb.runtime.budget import current_budget
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.mcp_server import MCPServer, servers_among

LONG = 30
WAYS: dict[str, Callable[[Agent, Store], Run]] = {
    "run_sync": lambda agent, store: agent.run_sync("go", store=store),
    "awaited": lambda agent, store: asyncio.run(agent.run("go", store=store)),
    "started": lambda agent, store: agent.start("go", RunOptions(store=store)).result(30),
}


def plain() -> str:
    """Leaves."""
    raise GeneratorExit("mine")


async def awaiting() -> str:
    """Leaves later."""
    await asyncio.sleep(0)
    raise GeneratorExit("mine")


def test_generator_exit_in_a_tool_is_an_ordinary_failure(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for tool in (plain, awaiting):
        for beside in (False, True):
            for way, run_with in WAYS.items():
                with subtests.test(tool.__name__, way=way, beside=beside):
                    store = Store(tmp_path / f"{tool.__name__} {way} {beside}")
                    calls = [ToolCall(tool.__name__), *([ToolCall("work", {"n": 1})] if beside else [])]
                    run = run_with(bare(ScriptedModel([calls, "Done."]), [tool, work]), store)
                    assert (run.status, run.text) == ("completed", "Done.")
                    assert "GeneratorExit: mine" in run.rounds[0].results[0].text and run.rounds[0].results[0].is_error
                    assert_every_call_has_one_result(run)
                    assert store.load(run.id) == run


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_exit_from_foreign_code_ends_the_log(subtests: pytest.Subtests, tmp_path: Path) -> None:
    def gate(call: Any, run: Any) -> None:
        raise error

    for error in (GeneratorExit("mine"), SystemExit(3)):
        for name in ("gate", "model"):
            with subtests.test(name, error=error):
                store = Store(tmp_path / f"{name} {type(error).__name__}")
                model = ScriptedModel([error if name == "model" else ToolCall("work", {"n": 1})])
                agent = bare(model, [work], gates=[gate] if name == "gate" else [])
                with pytest.raises(BaseException):  # noqa: B017  # SystemExit of a model is its failure
                    asyncio.run(agent.run("go", store=store))
                assert [summary.status for summary in store.summaries()] == ["failed"]


def test_run_closed_from_outside_is_cancelled_if_its_loop_continues(subtests: pytest.Subtests, tmp_path: Path) -> None:
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return "never"

    async def begun(store: Store) -> Any:
        life = bare(ScriptedModel([ToolCall("wait")]), [wait]).run("go", store=store)
        life.send(None)
        while not any(b"tool_started" in path.read_bytes() for path in store.folder.glob("*.jsonl")):
            await asyncio.sleep(0)
        return life

    async def closed(life: Any) -> None:
        await asyncio.to_thread(life.close)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    for goes_on, status in {True: "cancelled", False: "interrupted"}.items():
        with subtests.test(goes_on=goes_on):
            store, loop = Store(tmp_path / status), asyncio.new_event_loop()
            life = loop.run_until_complete(begun(store))
            if goes_on:
                loop.run_until_complete(closed(life))
            loop.close()
            life.close()
            gc.collect()  # the task of a closed loop
            assert [summary.status for summary in store.summaries()] == [status]


def test_run_whose_log_cannot_be_created_fails(subtests: pytest.Subtests, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for way, run_with in WAYS.items():
        with subtests.test(way):
            model = ScriptedModel(["Done."])
            with pytest.raises(StoreError, match="cannot be created") as caught:
                run_with(bare(model), Store(tmp_path / "file" / "runs"))
            run = caught.value.run
            assert isinstance(run, Run) and (run.status, run.rounds, model.requests) == ("failed", (), [])
            assert run.error is not None and run.error.type == "StoreError" and run.prompt == "go"
            assert Run.from_events(run.events) == run


def test_run_returns_even_if_its_servers_do_not_end(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    begun, over = threading.Event(), threading.Event()

    async def uses_server() -> None:
        """Uses a server of its run."""
        budget, (item,) = current_budget.get(), servers_among([MCPServer("later", "later")])
        assert budget is not None
        budget.servers.live(item, Path())

    def slow(_: Servers) -> None:
        begun.set()
        over.wait(LONG)

    def fail(_: Servers) -> None:
        raise OSError("no")

    async def ended() -> Run:
        return await asyncio.wait_for(bare(ScriptedModel([ToolCall("uses_server"), "Done."]), [uses_server]).run("go"), LONG)

    async def cancelled() -> None:
        run = asyncio.create_task(ended())
        await asyncio.to_thread(begun.wait, LONG)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        over.set()

    with subtests.test("cancelled meanwhile"):
        monkeypatch.setattr(Servers, "close", slow)
        asyncio.run(cancelled())
    with subtests.test("an error"):
        monkeypatch.setattr(Servers, "close", fail)
        assert asyncio.run(ended()).status == "completed"


LEFT_BEHIND = """
import asyncio, gc, sys, threading
from agentnb import Agent, ToolCall
from agentnb.models import ScriptedModel
began = threading.Event()

async def deaf() -> str:
    "Ignores its cancellation."
    began.set()
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

calls = [ToolCall("deaf")] * int(sys.argv[1])
live = Agent(ScriptedModel([calls]), tools=[deaf], todos=False).start("go")
began.wait(30)
live.stop("enough")
print(live.result(30).status)
for thread in threading.enumerate():
    if thread.name == "agentnb":
        thread.join(5)
del live
gc.collect()
"""


def test_abandoned_tool_prints_nothing_to_the_terminal(subtests: pytest.Subtests) -> None:
    for count in (2, *size((), nightly=(1,))):
        with subtests.test(count=count):
            command = [sys.executable, "-c", LEFT_BEHIND, str(count)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            assert (done.stdout, done.stderr) == ("cancelled\n", "")


def test_run_garbage_collected_after_its_loop_closed_prints_nothing() -> None:
    async def never() -> None:
        """Wait for ever."""
        await asyncio.Event().wait()

    loop, seen = asyncio.new_event_loop(), list[Any]()
    agent = Agent(ScriptedModel([ToolCall("never")]), tools=[never], todos=False)
    outer = loop.create_task(agent.run("go", watch=seen.append))

    async def until_it_waits() -> set[asyncio.Task[Any]]:
        while not any(isinstance(item, ToolStarted) for item in seen):
            await asyncio.sleep(0)
        return asyncio.all_tasks() - {asyncio.current_task(), outer}

    loop.set_exception_handler(lambda *_: None)
    inner = loop.run_until_complete(until_it_waits())
    loop.close()
    for task in inner:  # in any order of collection the run's generator precedes its caller
        task.get_coro().close()  # type: ignore[union-attr]
    outer.get_coro().close()  # type: ignore[union-attr]
