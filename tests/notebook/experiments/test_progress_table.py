"""The box of a running experiment: rate-limited, immediate on state changes, complete at the end."""

from __future__ import annotations

import asyncio
from itertools import groupby
from typing import Any

import pytest
from made_results import row
from virtual_time import by_itself

from agentnb.experiments.running.control import Control
from agentnb.notebook.experiments.progress_box import INTERVAL, PULSE, ProgressBox
from agentnb.notebook.views import Cell


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the displays of the cell as text, oldest first."""
    found: list[str] = []
    monkeypatch.setattr(Cell, "keep", lambda self, data: found.append(data["text/plain"]))
    return found


def begun(total: int) -> Control:
    control = Control("e", total)
    control.watchers.append(ProgressBox(control))
    control.begin([], lambda: None)
    return control


def test_many_experiment_cells_are_drawn_at_a_limited_rate(drawn: list[str]) -> None:
    async def work() -> None:
        control = begun(1_000)
        for place in range(1_000):
            control.count_begun()
            control.count_finished(row("a", str(place), True))
            await asyncio.sleep(0.001)
        control.end(spent=False)
        await asyncio.sleep(2 * PULSE)

    by_itself(work())
    assert 3 <= len(drawn) <= 2 + 1 / INTERVAL
    assert "running: 0 of 1,000 runs" in drawn[0] and "ended: 1,000 of 1,000 runs" in drawn[-1]


def test_elapsed_time_is_updated_between_cell_ends(drawn: list[str]) -> None:
    async def work() -> None:
        control = begun(2)
        await asyncio.sleep(3 * PULSE + INTERVAL)
        assert len(drawn) == 4
        control.end(spent=False)

    by_itself(work())
    assert len(drawn) == 5 and "stopped: 0 of 2 runs" in drawn[-1]


def test_state_changes_are_drawn_at_once_from_any_thread(drawn: list[str]) -> None:
    async def work() -> None:
        control = begun(2)
        await asyncio.to_thread(control.pause)
        assert "paused: " in drawn[-1]
        await asyncio.to_thread(control.resume)
        assert "running: " in drawn[-1]
        control.end(spent=True)

    by_itself(work())
    states = [text.split(": ")[1] for text in drawn]
    assert [state for state, _ in groupby(states)] == ["running", "paused", "running", "budget"], drawn


def test_failing_view_does_not_affect_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, data: Any) -> None:
        raise OSError("the frontend is gone")

    monkeypatch.setattr(Cell, "keep", fail)

    async def work() -> Control:
        control = begun(1)
        control.count_begun()
        control.count_finished(row("a", "t", True))
        control.end(spent=False)
        return control

    assert by_itself(work()).progress.state == "done"


def test_stop_is_drawn_before_running_cells_end(drawn: list[str]) -> None:
    async def work() -> None:
        control = begun(2)
        await asyncio.to_thread(control.stop)
        assert "stopping: " in drawn[-1]
        control.end(spent=False)

    by_itself(work())
