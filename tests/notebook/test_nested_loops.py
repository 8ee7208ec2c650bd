"""Tools of a cell that run their own event loop, or the cell's loop with the extra `nest`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from real_kernel import Kernel

from agentnb.runtime.workers.nested_loops import INSTALL

SETUP = '''
%load_ext agentnb
import asyncio, sys
from agentnb import ToolCall
from agentnb.models import ScriptedModel

async def inner():
    await asyncio.wait_for(asyncio.sleep(0.001), 5)
    return "from inside"

def by_run() -> str:
    """Run a loop."""
    return asyncio.run(inner())

def by_loop() -> str:
    """Run the loop of the cell."""
    return asyncio.get_event_loop().run_until_complete(inner())

def other() -> str:
    """Fail otherwise."""
    raise RuntimeError("asyncio.run() cannot be called from a running event loop")

async def waits() -> str:
    """Wait."""
    return await inner()
'''
CELL = "%%agent -t by_run by_loop other waits -m model --max-seconds 60 -p minimal -g off\nGo."


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Kernel]:
    """Return an unshared kernel: the extra changes asyncio permanently."""
    kernel = Kernel(tmp_path)
    assert kernel.run(SETUP).status == "ok"
    yield kernel
    kernel.close()


def results(kernel: Kernel) -> dict[str, str]:
    """Return the results of the tools, each called in its own round."""
    names = ("by_run", "by_loop", "other", "waits")
    kernel.run(f"model = ScriptedModel([*[ToolCall(name, {{}}) for name in {names}], 'Done.'])")
    cell = kernel.run(CELL)
    assert cell.status == "ok", cell.error
    return {name: kernel.value(f"run.rounds[{place}].results[0].text") for place, name in enumerate(names)}


def test_tool_can_run_an_event_loop_or_names_the_extra(own: Kernel) -> None:
    for _ in range(2):
        texts = results(own)
        assert {name for name, text in texts.items() if "from inside" in text} == {"by_run", "waits"}
        assert {name for name, text in texts.items() if INSTALL in text} == {"by_loop"}
    own.run("__import__('gc').collect()")  # else Python may warn in the next cell of coroutines that were not awaited
    code = "asyncio.current_task().get_loop() is asyncio.get_event_loop() is asyncio.get_running_loop()"
    assert own.value(code) == "True", "the loop of the cell still runs"


def test_nest_asyncio_lets_tools_run_the_cells_event_loop(own: Kernel) -> None:
    own.run("import nest_asyncio; nest_asyncio.apply()")
    texts = results(own)
    assert {name for name, text in texts.items() if "from inside" in text} == {"by_run", "by_loop", "waits"}
    assert INSTALL not in str(texts)
    assert own.value("run.status") == "completed"
