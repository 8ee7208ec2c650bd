"""Steps that ignore cancellation do not hold a run that failed or no longer needs them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from agentnb import Workflow
from agentnb.errors import WorkflowError
from agentnb.runtime.steps import side_by_side

PARALLEL = """
workflow:
  - {id: both, type: parallel, steps: [{id: a, type: tool, name: deaf}, {id: b, type: tool, name: fails}]}
"""


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Set after the test, to end the tool."""
    event = threading.Event()
    yield event
    event.set()


def test_tool_that_ignores_cancellation_does_not_delay_a_failed_run(
    released: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "CLEANUP_SECONDS", 0.1)
    begun = threading.Event()

    async def deaf() -> str:
        """Hear no cancellation."""
        begun.set()
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        return "late"

    async def fails() -> str:
        """Fail when the other has begun."""
        while not begun.is_set():
            await asyncio.sleep(0)
        raise ValueError("no tide here")

    with pytest.raises(WorkflowError, match="no tide here") as raised:
        Workflow.from_yaml(PARALLEL, tools=[deaf, fails]).run_sync()
    run = raised.value.run
    assert run is not None and run.status == "failed" and not released.is_set()
    assert ["deaf did not stop" in warning.message for warning in run.warned] == [True]
    assert all(call.record.result is not None for call in run.step_calls), "every call has its result"
