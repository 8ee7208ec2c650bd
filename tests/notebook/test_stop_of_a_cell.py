"""`LiveRun.stop` from another thread while the cell waits for a plain tool on the kernel's main thread."""

from __future__ import annotations

from typing import Any

import pytest
from real_kernel import PATIENCE

STOPPER = """
import threading
from agentnb.core.log.events import ToolStarted
from agentnb.notebook.ipython_extension import session_of

def stop_soon():
    "Stop the next run when its nap has started, from a thread."
    session = session_of(get_ipython())
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

STOPPED = "KeyboardInterrupt: the run was stopped and its log closed. Continue with %%agent --continue -t {}"
NAP = "-t nap\n- sleep `nap(600)`"


def test_stop_ends_run_all_after_the_variable_is_set(kernel: Any) -> None:
    kernel.run(f"{STOPPER}\nafter = 'not run'\nmine = None\nstop_soon()")
    requests = [kernel.client.execute(code) for code in (f"%%agent -o mine {NAP}", "after = 'run'")]
    replies: dict[str, str] = {}
    while len(replies) < len(requests):
        reply = kernel.client.get_shell_msg(timeout=PATIENCE)
        replies[reply["parent_header"]["msg_id"]] = reply["content"]["status"]
    assert [replies[request] for request in requests] == ["error", "aborted"]
    assert kernel.value("mine.status, after") == "('cancelled', 'not run')"


def test_stopped_run_ends_its_cell_normally_if_configured(subtests: pytest.Subtests, kernel: Any) -> None:
    kernel.run(STOPPER)
    for name, default, option, status in [
        ("by default", "raise", "", "error"),
        ("an option of the cell", "raise", "--on-stop continue", "ok"),
        ("a default of the session", "continue", "", "ok"),
        ("the option goes before the default", "continue", "--on-stop raise", "error"),
    ]:
        with subtests.test(name):
            kernel.run(f"%agent defaults on-stop={default}\nstop_soon()")
            cell = kernel.run(f"%%agent {option} {NAP}")
            assert (cell.status, kernel.value("run.status")) == (status, "cancelled")
    kernel.run("%agent defaults on-stop=raise")


def test_interrupt_always_ends_its_cell_with_an_error(kernel: Any) -> None:
    kernel.run("import signal\ndef interrupt() -> None:\n    'Interrupts.'\n    signal.raise_signal(signal.SIGINT)")
    cell = kernel.run("%%agent -t interrupt --on-stop continue\n- go `interrupt()`")
    assert (cell.status, cell.error, kernel.value("run.status")) == ("error", STOPPED.format("interrupt"), "cancelled")
    assert "Kernel > Interrupt always stops Run All" in kernel.value(
        "get_ipython().magics_manager.magics['cell']['agent'].__doc__"
    )


def test_stopped_run_can_be_continued_at_once(kernel: Any) -> None:
    kernel.run("import asyncio\nfrom agentnb import ToolCall\nfrom agentnb.models import ScriptedModel")
    kernel.run("async def rest() -> str:\n    'Waits.'\n    await asyncio.Event().wait()")
    kernel.run("model = ScriptedModel([ToolCall('rest', {}), 'On I go.'])")
    begun = kernel.run("%%agent -m model -t rest --background\nRest.")
    assert begun.status == "ok", begun.error
    assert "is stopped. Continue with %%agent --continue -t rest -m model\n" in kernel.run("%agent stop").printed
    cell = kernel.run("%%agent -m model --continue\nGo on.")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.text") == "On I go."


def test_tool_that_could_not_be_stopped_is_named(kernel: Any) -> None:
    kernel.run("import threading\nfree, ended, saved = threading.Event(), threading.Event(), []")
    kernel.run(
        "def save() -> str:\n    'Saves.'\n    try:\n        begun.set()\n        free.wait(60)\n        saved.append(1)\n"
        "    finally:\n        ended.set()\nbegun = threading.Event()"
    )
    kernel.run("%%agent --background -t save\n- go `save()`")
    assert kernel.value("begun.wait(60)") == "True"
    printed = kernel.run("%agent stop").printed
    assert "save could not be stopped at once" in printed
    assert "save could not be stopped at once" in kernel.run("run").result["text/plain"]
    kernel.run("free.set()")
    assert kernel.value("ended.wait(60), saved") == "(True, [])"


def test_python_code_awaiting_a_stopped_run_receives_it(subtests: pytest.Subtests, kernel: Any) -> None:
    kernel.run(f"{STOPPER}\nfrom agentnb import Agent, ToolCall\nfrom agentnb.models import ScriptedModel")
    kernel.run("def sleeper(): return Agent(ScriptedModel([ToolCall('nap', {'seconds': 600})]), [nap], todos=False)")
    for name, waits in {"run_sync": "sleeper().run_sync('Sleep.')", "await live": "await sleeper().start('Sleep.')"}.items():
        with subtests.test(name):
            kernel.run("stop_soon()")
            cell = kernel.run(f"kept = {waits}\nprint(kept.status)")
            assert (cell.status, cell.printed) == ("ok", "cancelled\n")


@pytest.mark.req("R0.13")
def test_stop_during_a_plain_tool_ends_only_its_cell(kernel: Any) -> None:
    assert kernel.run(STOPPER).status == "ok"
    for _ in range(5):
        kernel.run("stop_soon()")
        cell = kernel.run("%%agent -t nap add\n- sleep `nap(600)`\n- add `add(1)`")
        assert (cell.status, cell.error, cell.result) == ("error", STOPPED.format("nap add"), {})
        value = kernel.value("run.status, run.stop_reason, [r.error_code for r in run.rounds[-1].results if r.name == 'nap']")
        assert value == "('cancelled', 'cancelled', ['cancelled'])"
    assert kernel.value("__import__('agentnb').load_trace(f'.agentnb/runs/{run.id}.jsonl') == run") == "True"
    following = kernel.run("%%agent -t add\n- add `add(1)`")
    assert following.status == "ok" and "add: 3" in following.shown


@pytest.mark.req("R0.13")
def test_stop_at_tool_end_does_not_affect_later_cells(kernel: Any) -> None:
    assert kernel.run(STOPPER).status == "ok"
    for length in range(20):
        kernel.run("stop_soon()")
        assert kernel.run(f"%%agent -t nap --on-stop continue\n- sleep `nap({length / 4000})`").status == "ok"
        assert kernel.value("sum(range(100))") == "4950"
        assert kernel.value("run.status in ('cancelled', 'completed')") == "True"
