"""Runs of a kernel that is restarted or shut down: the commands on their cards resume them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from real_kernel import TOOLS, Kernel, until_ready
from run_checks import codes, results
from waiting import wait_until

from agentnb import Run, Store
from agentnb.errors import TraceError

SETUP = f"""{TOOLS}
import asyncio, pathlib
from agentnb import tool
from agentnb.policies.gates import Ask

def asks(call, run):
    return Ask("May it?") if call.name == "add" else None

@tool(repeatable=True)
async def work() -> str:
    "Work until the kernel is a new one."
    if not pathlib.Path("again").exists():
        pathlib.Path("again").touch()
        await asyncio.sleep(60)
    return "worked"
"""
PATIENT = """
from agentnb.runtime.host import live_run, process_end
live_run.NOTICE = process_end.NOTICE = 60  # on a busy machine, the end of a kernel comes long after its interrupt
"""
AWAITED = """from agentnb import Agent, Store
await Agent("simulated:disciplined", tools={tools}, gates={gates}).run("{text}", store=Store(".agentnb/runs"))"""
ADD, WORK = "- add `add(1)`", "- work `work()`"


def begun(kernel: Kernel, cell: str) -> str:
    """Start a run in an attended notebook; return its id when it asks or works."""
    store = Store(kernel.folder / ".agentnb" / "runs")
    before, again = set(store.ids()), kernel.folder / "again"
    again.unlink(missing_ok=True)
    kernel.client.execute(cell, allow_stdin=True, stop_on_error=False)  # otherwise its end may abort the next

    def waits(run_id: str) -> bool:
        with suppress(TraceError):  # its log has just been created
            return bool(store.load(run_id).waiting)
        return False

    wait_until(lambda: again.exists() or any(map(waits, {*store.ids()} - before)))
    (run_id,) = {*store.ids()} - before
    return run_id


def load(kernel: Kernel, run_id: str) -> Run:
    return Store(kernel.folder / ".agentnb" / "runs").load(run_id)


def restart(kernel: Kernel) -> None:
    kernel.manager.shutdown_wait_time = 60  # after 5 seconds a kernel of a busy machine would be killed as it suspends its runs
    kernel.manager.restart_kernel()
    until_ready(kernel.client)
    assert kernel.run(SETUP + PATIENT).status == "ok"


def test_run_is_recovered_after_restart_or_death_of_its_kernel(tmp_path: Path, subtests: pytest.Subtests) -> None:
    kernel = Kernel(tmp_path)
    cases = {
        "it asks in its cell": (f"%%agent -t add --gate asks\n{ADD}", "waiting_on_user"),
        "it asks in the background": (f"%%agent --background -t add --gate asks\n{ADD}", "waiting_on_user"),
        "it works in its cell": (f"%%agent -t work\n{WORK}", "interrupted"),
        "it asks, and its cell awaits it": (AWAITED.format(tools="[add]", gates="[asks]", text=ADD), "waiting_on_user"),
        "it works, and its cell awaits it": (AWAITED.format(tools="[work]", gates="[]", text=WORK), "interrupted"),
        "it works in the background": (f"%%agent --background -t work\n{WORK}", "interrupted"),
    }
    try:
        assert kernel.run(SETUP).status == "ok"
        with subtests.test("an interrupt alone stops it"):
            run_id = begun(kernel, cases["it asks in its cell"][0])
            kernel.manager.interrupt_kernel()
            wait_until(lambda: load(kernel, run_id).status == "cancelled")
        assert kernel.run(PATIENT).status == "ok"
        for name, (cell, status) in cases.items():
            with subtests.test(name):
                run_id = begun(kernel, cell)
                restart(kernel)
                left = load(kernel, run_id)
                assert left.status == status and len(left.waiting) == (status == "waiting_on_user")
                command = f"answer {run_id} approve" if left.waiting else f"recover {run_id[-8:]}"
                told = kernel.run(f"%agent {command}")
                assert told.status == "ok", told.error
                run = load(kernel, run_id)
                assert (run.status, run.times_recovered) == ("completed", 1), run.events
                assert not any(codes(run)), results(run)
    finally:
        kernel.close()
