"""Logs of nested runs: under the lock of their top-level run, with few open files."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from property_settings import size

from agentnb import Agent, Run, Store, ToolCall
from agentnb.core.log.events import SCHEMA, RunFinished, RunRecovered, RunStarted
from agentnb.core.messages import user
from agentnb.errors import StoreError
from agentnb.models import ScriptedModel
from agentnb.store import nested_file
from agentnb.store.run_file import RunFile

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
FAN_OUT = """
import asyncio, os, resource, sys
from agentnb import Agent, Store, ToolCall
from agentnb.models import ScriptedModel
from agentnb.runtime.host.run_options import RunOptions
from agentnb.session.session import Session
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
most = [0]

async def quick() -> str:
    "Look at the others."
    most[0] = max(most[0], len(os.listdir("/proc/self/fd")))
    await asyncio.sleep(0)
    return "ok"

def inner():
    return Agent(ScriptedModel([ToolCall("quick", {}), "Done."]), [quick], guidance="off", todos=False)

async def fan_out(count: int) -> str:
    "Begin many runs."
    runs = await asyncio.gather(*[inner().run("go") for _ in range(count)])
    return str(sum(run.status == "completed" for run in runs))

session, count = Session(Store("runs")), int(sys.argv[1])
before = len(os.listdir("/proc/self/fd"))
outer = Agent(ScriptedModel([ToolCall("fan_out", {"count": count}), "Done."]), [fan_out], guidance="off", todos=False)
run = session.start(outer, "go").result()
after = len(os.listdir("/proc/self/fd"))
found = session.store.summaries()
print(run.rounds[0].results[0].text, most[0] - before, after - before, len({one.status for one in found}), len(found))
"""
KILLED = """
import asyncio, sys
from agentnb import Agent, Store, ToolCall
from agentnb.models import ScriptedModel
from agentnb.session.session import Session

async def forever() -> str:
    "Wait."
    print("waits", flush=True)
    await asyncio.Event().wait()

async def deeper() -> str:
    "Begin a run."
    return (await Agent(ScriptedModel([ToolCall("forever", {})]), [forever], guidance="off").run("deepest")).text

async def delegate() -> str:
    "Begin a run."
    return (await Agent(ScriptedModel([ToolCall("deeper", {})]), [deeper], guidance="off").run("deep")).text

Session(Store("runs")).start(Agent(ScriptedModel([ToolCall("delegate", {})]), [delegate], guidance="off"), "top").result()
"""


def started(run_id: str, parent_id: str | None = None) -> RunStarted:
    return RunStarted(
        seq=0,
        at=datetime.now(UTC),
        run_id=run_id,
        parent_id=parent_id,
        schema=SCHEMA,
        prompt=user("go"),
        agent="",
        model="scripted",
        system="",
        tools=(),
        settings={},
    )


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
@pytest.mark.slow("250 runs, each with a log, at night two thousand")
def test_many_nested_runs_at_once_need_few_open_files(tmp_path: Path) -> None:
    count = size(250, nightly=2_000)
    done = subprocess.run(
        [sys.executable, "-c", FAN_OUT, str(count)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    completed, most, left, statuses, logs = done.stdout.split()
    assert (completed, statuses, logs) == (f"{count}", "1", f"{count + 1}")
    assert int(most) <= nested_file.MAX_OPEN + 20 and int(left) <= 12  # the event loop has some, too


def test_nested_runs_count_as_running_until_their_process_dies(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", KILLED], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "waits\n"
        store = Store(tmp_path / "runs")
        found = {summary.prompt: summary for summary in store.summaries()}
        assert {prompt: one.status for prompt, one in found.items()} == dict.fromkeys(("top", "deep", "deepest"), "running")
        assert store.load(found["deepest"].id).status == "running"
        with pytest.raises(StoreError, match="running in another process"):
            store.reopen(found["deepest"].id)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert {summary.status for summary in store.summaries()} == {"interrupted"}
    assert store.load(found["deepest"].id).status == "interrupted"


def test_nested_run_stays_interrupted_when_its_parent_is_resumed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for run_id, parent_id in (("top", None), ("old", "top")):
        file = RunFile(tmp_path / f"{run_id}.jsonl")
        file.append(started(run_id, parent_id))
        file.close()
    file, _ = store.reopen("top")
    recovered = RunRecovered(seq=1, at=datetime.now(UTC), run_id="top", schema=SCHEMA)
    file.append(recovered)
    new = asyncio.run(store.open("new", nested=True))
    new.append(started("new", "top"))
    assert {summary.id: summary.status for summary in store.summaries()} == {
        "top": "running",
        "old": "interrupted",
        "new": "running",
    }
    assert store.load("old").status == "interrupted" and store.load("new").status == "running"
    new.close()
    file.close()


def test_nested_run_outliving_its_parent_stays_running_until_it_ends(tmp_path: Path) -> None:
    store = Store(tmp_path)

    async def main() -> tuple[Any, Any, Any]:
        return await store.open("top"), await store.open("a", nested=True), await store.open("b", nested=True)

    top, inner, orphan = asyncio.run(main())
    top.append(started("top"))
    inner.append(started("a", "top"))
    orphan.append(started("b", "elsewhere"))
    top.append(RunFinished(seq=1, at=None, run_id="top", status="completed", stop_reason="natural", seconds=0.1))
    top.close()
    assert {summary.id: summary.status for summary in store.summaries()} == {"top": "completed", "a": "running", "b": "running"}
    inner.close()
    orphan.close()
    assert {summary.id: summary.status for summary in store.summaries()} == {
        "top": "completed",
        "a": "interrupted",
        "b": "interrupted",
    }
    for closed in (top, inner, orphan):
        closed.close()
        with pytest.raises(OSError, match="closed"):
            closed.append(started("x"))


def test_logs_closed_to_free_descriptors_are_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested_file, "MAX_OPEN", 2)
    store = Store(tmp_path)
    runs: list[Run] = []

    async def delegate() -> str:
        """Begin runs."""
        inner = [Agent(ScriptedModel([ToolCall("nothing", {}), "Done."]), guidance="off") for _ in range(7)]
        runs.extend(await asyncio.gather(*[one.run(f"go {n}", store=store) for n, one in enumerate(inner)]))
        return "done"

    agent = Agent(ScriptedModel([ToolCall("delegate", {}), "Done."]), [delegate], guidance="off")
    top = asyncio.run(agent.run("top", store=store))
    assert len(store.ids()) == 8 and [store.load(run.id) for run in (top, *runs)] == [top, *runs]


def test_deleted_nested_log_fails_only_its_own_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    top = asyncio.run(store.open("top"))
    top.append(started("top"))
    inner = asyncio.run(store.open("a", nested=True))
    inner.append(started("a", "top"))
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(FileNotFoundError):
        inner.append(RunFinished(seq=1, at=None, run_id="a", status="completed", stop_reason="natural", seconds=0.1))
    inner.close()
    top.close()
