"""The budget of an experiment: possible spending of running cells is reserved before another begins."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from judges import judge_of_calls
from made_results import row
from small_experiments import CHATTY, check_line, small

from agentnb.experiments.running.spending import CellSpending

PRICE = "simulated:disciplined?price=3/3"
"""US dollars per million tokens: a run costs 0.03."""
OFF = ("off", "m")


def test_possible_spending_of_running_cells_is_reserved() -> None:
    spending = CellSpending(1.0, 0.1, {OFF: 0.4})
    spending.begin("a", OFF)
    spending.begin("b", OFF)
    assert (spending.set_aside, spending.has_room) == (0.8, True)
    spending.begin("c", OFF)
    assert not spending.has_room
    spending.account_of("a").pay(0.3)
    assert math.isclose(spending.set_aside, 0.9) and math.isclose(spending.spent, 0.4)
    spending.account_of("a").pay(0.2)  # its last round may exceed its own budget
    assert math.isclose(spending.set_aside, 0.8)
    spending.end("a")
    spending.pay("a", 0.05)  # reported after its end
    assert math.isclose(spending.spent, 0.65) and not spending.has_room
    spending.end("b")
    spending.begin("d", OFF)  # as expensive as the most expensive, like c
    spending.pay("d", 0.1)
    assert math.isclose(spending.set_aside, 0.9)
    spending.begin("d", OFF)  # again, after a death
    assert math.isclose(spending.set_aside, 1.0)


def test_first_cell_of_unknown_cost_reserves_everything() -> None:
    spending = CellSpending(1.0)
    assert spending.has_room
    spending.begin("a", OFF)
    assert not spending.has_room
    spending.account_of("a").pay(0.01)
    spending.end("a")
    spending.begin("b", OFF)
    assert (spending.set_aside, spending.has_room) == (0.01, True)
    spending.begin("c", ("on", "m"))  # of another variant
    assert not spending.has_room
    without = CellSpending(None)
    without.begin("a", OFF)
    assert without.has_room


def test_runs_under_way_never_exceed_the_budget(tmp_path: Path) -> None:
    running: list[int] = [0, 0]

    async def check_line(name: str) -> str:
        """Check a line of the plant."""
        running[0] += 1
        running[1] = max(running)
        for _ in range(20):  # except cells that may begin meanwhile
            await asyncio.sleep(0)
        running[0] -= 1
        return f"{name} ok"

    def most_at_once(**given: Any) -> int:
        running[:] = [0, 0]
        agent = {"tools": [check_line], **given.pop("agent", {})}
        results = small(8, models=[given.pop("model", PRICE)], primary="answered", agent=agent, **given).run_sync(show=False)
        assert not results.missing
        return running[1]

    assert most_at_once(agent={"budget": 1.0}, budget=2.5, places=8) <= 3
    assert most_at_once(agent={"budget": 1.0}, budget=0.5, places=8) == 1
    assert most_at_once(budget=2.5, places=8) > 3
    assert most_at_once(model=CHATTY, budget=0.1, places=8) > 3


def test_design_shows_the_reserve(tmp_path: Path) -> None:
    given: dict[str, Any] = {"models": [PRICE], "primary": "answered", "budget": 2.0, "places": 3, "folder": tmp_path}
    unknown = small(6, agent={"tools": [check_line]}, **given)
    assert unknown.design().set_aside is None and "all of it reserved for the first run" in repr(unknown.design())
    asyncio.run(unknown.pilot(2, show=False))
    dearest = max(row.cost for row in unknown._pilot_rows() if row.cost is not None)
    assert unknown.design().set_aside == dearest > 0
    bounded = small(6, agent={"tools": [check_line], "budget": 0.25}, **{**given, "folder": False})
    assert bounded.design().set_aside == 0.25
    assert "Budget: $2, up to $0.25 of it reserved for each active run." in repr(bounded.design())
    assert small(6, budget=1.0).design().set_aside == 0.0  # personas cost nothing
    judged = small(6, budget=1.0, primary=judge_of_calls()[0])
    assert judged.design().set_aside is None  # but a judge does
    rows = [row("off", f"t{place}", True, cost=0.1, judging_cost=cost) for place, cost in enumerate((0.2, 0.0))]
    assert judged._bounds(rows) == {("off", rows[0].model): pytest.approx(0.3)}
