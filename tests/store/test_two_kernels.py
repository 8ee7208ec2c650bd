"""Two kernel processes that store their runs in one folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from property_settings import size

from agentnb import Store
from agentnb.store import run_file

RUNS = size(15, nightly=40)
"""Of each kernel at once."""
KERNEL = """
import asyncio, json, sys, threading
from contextlib import suppress
from agentnb import Agent, Store, ToolCall
from agentnb.errors import TraceError
from agentnb.models import ScriptedModel

name, count = sys.argv[1], int(sys.argv[2])
entered, kept = threading.Event(), []

def use(folder):
    global store
    store = Store(folder)

async def nap(n: int) -> str:
    "Lets the others run."
    await asyncio.sleep(0)
    return f"rested {n}"

async def hang() -> str:
    "Never ends."
    entered.set()
    await asyncio.Event().wait()
    return "never"

async def several(count):
    agents = [Agent(ScriptedModel([[ToolCall("nap", {"n": n})] * 2, "Done."]), tools=[nap]) for n in range(count)]
    return await asyncio.gather(*(agent.run(f"{name} {n}", store=store) for n, agent in enumerate(agents)))

def runs():
    return [run.id for run in asyncio.run(several(count))]

def listed():
    return [[one.id, one.status, one.prompt, one.rounds] for one in store.summaries()]

def loaded():
    found = []
    for run_id in store.ids():
        with suppress(TraceError):  # one whose log has just been made holds no event yet
            run = store.load(run_id)
            found.append([run.id, run.status, run.prompt, len(run.rounds)])
    return found

def hangs():
    live = Agent(ScriptedModel([ToolCall("hang")]), tools=[hang]).start("hang", store=store)
    kept.append(live)
    assert entered.wait(60)
    return live.run_id

for line in sys.stdin:
    what, *given = line.split()
    print(json.dumps(globals()[what](*given)), flush=True)
"""


class Kernel:
    """A process that executes commands and stores its runs in the folder that it is to use."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, "-c", KERNEL, name, str(RUNS)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def begin(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()

    def said(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def __call__(self, what: str) -> Any:
        self.begin(what)
        return self.said()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Kernel, Kernel]]:
    both = Kernel("first"), Kernel("second")
    yield both
    for one in both:
        one.close()


@pytest.fixture
def kernels(both: tuple[Kernel, Kernel], tmp_path: Path) -> tuple[Kernel, Kernel]:
    """The kernels, which all tests here share, with a folder of this test. The last test kills one."""
    for one in both:
        one(f"use {tmp_path / 'runs'}")
    return both


def test_two_kernels_write_list_and_load_one_folder(kernels: tuple[Kernel, Kernel], tmp_path: Path) -> None:
    first, second = kernels
    for kernel in kernels:
        kernel.begin("runs")
    ids = [kernel.said() for kernel in kernels]
    assert [len(set(id_)) for id_ in ids] == [RUNS, RUNS] and not set(ids[0]) & set(ids[1])
    of_both = first("listed")
    assert of_both == second("listed") and {one[0] for one in of_both} == {*ids[0], *ids[1]}
    assert {(one[1], one[3]) for one in of_both} == {("completed", 2)}
    assert sorted(one[2] for one in of_both) == sorted(f"{name} {n}" for name in ("first", "second") for n in range(RUNS))
    assert first("loaded") == second("loaded") == of_both[::-1]
    for run in map(Store(tmp_path / "runs").load, ids[0]):
        assert {event.run_id for event in run.events} == {run.id}


@pytest.mark.nightly("by day two kernels list the runs of both in order")
def test_listing_kernel_sees_every_run_of_another_in_order(kernels: tuple[Kernel, Kernel]) -> None:
    first, second = kernels
    known = second("runs")
    first.begin("runs")
    seen: dict[str, str] = {}
    for what in ("listed", "loaded") * 5:
        for run_id, status, prompt, _ in second(what):
            assert status in ("running", "completed") and seen.get(run_id) in (None, "running", status), prompt
            seen[run_id] = status
    written = first.said()
    assert {one[0]: one[1] for one in second("listed")} == dict.fromkeys([*known, *written], "completed")


@pytest.mark.skipif(run_file.fcntl is None, reason="without locks of files nobody knows who writes")
def test_run_of_a_killed_kernel_becomes_interrupted(
    kernels: tuple[Kernel, Kernel],
) -> None:
    first, second = kernels
    hanging = first("hangs")
    for what in ("listed", "loaded"):
        assert second(what) == first(what) == [[hanging, "running", "hang", 1]]
    assert len(second("runs")) == RUNS
    first.kill()
    for what in ("listed", "loaded"):
        assert {one[0]: one[1] for one in second(what)}[hanging] == "interrupted"
