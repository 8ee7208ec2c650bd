"""Forked processes: runs work without the threads and loops of the parent."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress

import pytest
from property_settings import size
from scripted_runs import look

from agentnb import Agent, Store, Workflow
from agentnb.core.log.events import RunFinished
from agentnb.core.messages import ToolCall
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.threads import LoopThread

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
PATIENCE = 30
"""Seconds after which a process counts as hanging; normally it takes milliseconds."""
TEXT = """
workflow:
  - {id: look, type: tool, name: look}
"""


def agent() -> Agent:
    return Agent(ScriptedModel([ToolCall("look"), "seen"]), tools=[look])


async def streamed() -> str:
    items = [item async for item in agent().stream("go")]
    assert isinstance(items[-1], RunFinished) and items[-1].status == "completed"
    return "seen"


KINDS: dict[str, Callable[[], str]] = {
    "run": lambda: asyncio.run(agent().run("go")).text,
    "run_sync": lambda: agent().run_sync("go").text,
    "start": lambda: agent().start("go").result(PATIENCE).text,
    "stream": lambda: asyncio.run(streamed()),
    "workflow, run": lambda: asyncio.run(Workflow.from_yaml(TEXT, tools=[look]).run()).text,
    "workflow, run_sync": lambda: Workflow.from_yaml(TEXT, tools=[look]).run_sync().text,
}


def forked(work: Callable[[], str]) -> tuple[int, int]:
    """Start the work in a forked process; return its id and a pipe with its result."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:  # pytest must not continue in the child
        text = work()
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
    os.write(writing, text.encode())
    os._exit(0)


def texts_of(children: Iterable[tuple[int, int]]) -> list[str]:
    found = []
    for child, reading in children:
        ready, _, _ = select.select([reading], [], [], PATIENCE)
        found.append(os.read(reading, 10_000).decode() if ready else "hangs")
        os.close(reading)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return found


@pytest.mark.nightly("by day a forked process runs an agent")
@pytest.mark.slow("a process for each of 36 pairs")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_process_can_run_each_kind_after_any_other(subtests: pytest.Subtests) -> None:
    for before, run in KINDS.items():
        with subtests.test(before):
            assert run() == "seen"
            assert texts_of([forked(work) for work in KINDS.values()]) == ["seen"] * len(KINDS)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_process_forked_by_a_tool_can_run_agents(subtests: pytest.Subtests) -> None:
    """The tool runs on the waiting thread, in its own thread, or on the event loop."""
    found: dict[str, list[str]] = {}

    def fork() -> str:
        """Fork."""
        found["sync"] = texts_of([forked(work) for work in [*KINDS.values()][:: size(2, nightly=1)]])
        return "ok"

    async def fork_in_loop() -> str:
        """Fork."""
        found["async"] = texts_of([forked(KINDS[name]) for name in ("run_sync", "start", "workflow, run_sync")])
        return "ok"

    for way in ("run_sync", "start"):
        for tool in (fork, fork_in_loop):
            with subtests.test(f"{way}, {tool.__name__}"):
                found.clear()
                run = Agent(ScriptedModel([ToolCall(tool.__name__), "Done."]), tools=[tool])
                run.run_sync("go") if way == "run_sync" else run.start("go").result(PATIENCE)
                assert [set(texts) for texts in found.values()] == [{"seen"}]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_question_in_a_forked_process_cannot_be_answered() -> None:
    found: list[str] = []

    def inner() -> str:
        run = Agent(ScriptedModel([ToolCall("look"), "Done."]), tools=[look]).run_sync("go", approve="ask")
        return run.rounds[0].results[0].text

    def fork() -> str:
        """Fork."""
        found.extend(texts_of([forked(inner)]))
        return "ok"

    model = ScriptedModel([ToolCall("fork"), "Done."])
    Agent(model, tools=[fork]).run_sync("go", answer=lambda question: "approve")
    assert len(found) == 1 and "o person is attached" in found[0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_process_does_not_await_its_parents_live_run() -> None:
    hold = threading.Event()

    def wait() -> str:
        """Wait."""
        hold.wait(PATIENCE)
        return "ok"

    live = Agent(ScriptedModel([ToolCall("wait"), "Done."]), tools=[wait]).start("go")
    (text,) = texts_of([forked(lambda: live.result().text)])
    hold.set()
    assert "is running in the parent process" in text
    assert live.result(PATIENCE).text == "Done."


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_event_loop_thread_restarts_in_a_forked_process() -> None:
    async def seen() -> str:
        return "seen"

    thread = LoopThread()
    assert thread.submit(seen).result(PATIENCE) == "seen"
    assert texts_of([forked(lambda: thread.submit(seen).result(PATIENCE))]) == ["seen"]
    assert thread.submit(seen).result(PATIENCE) == "seen"
    thread.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_process_leaves_its_parents_logs_alone(tmp_path: os.PathLike[str]) -> None:
    store = Store(tmp_path)

    def fork() -> str:
        """Fork."""
        (text,) = texts_of([forked(lambda: agent().run_sync("go", store=store).text)])
        return text

    run = Agent(ScriptedModel([ToolCall("fork"), "Done."]), tools=[fork]).run_sync("go", store=store)
    assert run.rounds[0].results[0].text == "seen"
    assert sorted(stored.status for stored in map(store.load, store.ids())) == ["completed", "completed"]
    assert store.load(run.id).events == run.events
