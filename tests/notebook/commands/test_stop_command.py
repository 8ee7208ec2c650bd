"""``%agent stop``, and rerunning a background cell while its run is live."""

from __future__ import annotations

from typing import Any

import pytest

SETUP = '''
import asyncio

async def rest() -> str:
    """Wait."""
    await asyncio.Event().wait()

def live():
    return len(get_ipython()._agentnb_session.running())

def begun(run):
    while not run.id:
        pass
    return run.id
'''


def begin(kernel: Any, name: str) -> str:
    """Start a run in the background and return its id."""
    cell = kernel.run(f"%%agent -t rest -o {name} --background\nTask of {name}.\n- rest `rest()`")
    assert cell.status == "ok", cell.error
    return str(kernel.value(f"begun({name})"))


def test_runs_still_live_are_listed_after_a_stop(kernel: Any) -> None:
    first, second, third = (begin(kernel, name) for name in ("a", "b", "c"))
    printed = kernel.run("%agent stop").printed.splitlines()
    assert printed[0].startswith(f"Run {third} is stopped. ")
    assert printed[1:] == [
        f"Still live: {second} (Task of b. - rest `rest()`), {first} (Task of a. - rest `rest()`). "
        "To stop all: %agent stop --all"
    ]
    assert len(kernel.run(f"%agent stop {first[-6:]}").printed.splitlines()) == 2
    assert len(kernel.run("%agent stop").printed.splitlines()) == 1


def test_stop_all_ends_every_live_run(kernel: Any) -> None:
    ids = [begin(kernel, name) for name in ("a", "b", "c")]
    printed = kernel.run("%agent stop --all").printed.splitlines()
    assert [line.split()[1] for line in printed] == ids and all(" is stopped. " in line for line in printed)
    assert kernel.value("live(), a.status, b.status, c.status") == "(0, 'cancelled', 'cancelled', 'cancelled')"
    assert "Nothing is running" in kernel.run("%agent stop --all").error


def test_rerunning_a_background_cell_starts_nothing_while_its_run_lives(kernel: Any, subtests: pytest.Subtests) -> None:
    steps = "workflow: [{id: wait, type: tool, name: rest}]"
    for text in ("%%agent -t rest --background -o once\n- rest `rest()`", f"%%workflow -t rest --background -o once\n{steps}"):
        with subtests.test(text.split()[0]):
            assert kernel.run(text).status == "ok"
            run_id = kernel.value("begun(once)")
            again = kernel.run(text)
            assert again.error == (
                f"SettingsError: Run {run_id} from this cell is still running, so no new run was started. "
                f"To stop it: %agent stop {run_id}"
            )
            assert again.displays, "its card is not lost"
            assert kernel.value("live(), once.id") == f"(1, '{run_id}')"
            kernel.run(again.error.rpartition(": ")[2])
            assert kernel.run(text).status == "ok" and kernel.value("live()") == "1"
            kernel.run("%agent stop --all")


def test_cell_may_start_several_background_runs(kernel: Any) -> None:
    loop = "for _ in range(2): get_ipython().run_cell_magic('agent', '-t rest --background', '- rest `rest()`')"
    assert kernel.run(loop).status == "ok"
    assert kernel.run("%%agent -t rest --background -o other\n- rest `rest()`").status == "ok"
    assert kernel.value("live()") == "3"
    kernel.run("%agent stop --all")
