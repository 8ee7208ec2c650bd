"""`LiveRun.stop` from another thread while the cell waits for a plain tool on the kernel's main thread."""

from __future__ import annotations

from typing import Any

import pytest

STOPPER = """
import threading
from agentnb.core.events import ToolStarted

def stop_soon():
    "Stop the next run when its nap has started, from a thread."
    session = get_ipython().magics_manager.registry["AgentMagics"].session
    known = set(session.running())
    def work():
        while True:
            for live in set(session.running()) - known:
                if any(isinstance(one, ToolStarted) and one.call.name == "nap" for one in list(live.run.events)):
                    live.stop("enough")
                    return
            time.sleep(0.001)
    threading.Thread(target=work, daemon=True).start()
"""


@pytest.mark.req("R0.13")
def test_a_stop_during_a_plain_tool_ends_the_cell_quietly_and_the_next_one_works(kernel: Any) -> None:
    assert kernel.run(STOPPER).status == "ok"
    for _ in range(5):
        kernel.run("stop_soon()")
        cell = kernel.run("%%agent -t nap add\n- sleep `nap(600)`\n- add `add(1)`")
        assert (cell.status, cell.error, cell.result) == ("ok", "", {})
        told = kernel.value("run.status, run.stop_reason, [r.error_code for r in run.rounds[-1].results if r.name == 'nap']")
        assert told == "('cancelled', 'cancelled', ['cancelled'])"
    assert kernel.value("__import__('agentnb').load_trace(f'.agentnb/runs/{run.id}.jsonl') == run") == "True"
    following = kernel.run("%%agent -t add\n- add `add(1)`")
    assert following.status == "ok" and "add: 3" in following.shown


@pytest.mark.req("R0.13")
def test_a_stop_just_when_the_tool_ends_hits_no_later_cell(kernel: Any) -> None:
    assert kernel.run(STOPPER).status == "ok"
    for length in range(20):
        kernel.run("stop_soon()")
        assert kernel.run(f"%%agent -t nap\n- sleep `nap({length / 4000})`").status == "ok"
        assert kernel.value("sum(range(100))") == "4950"
        assert kernel.value("run.status in ('cancelled', 'completed')") == "True"
