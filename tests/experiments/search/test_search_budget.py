"""The budget of a search: checked before each cell, with reserves for running cells and the judgement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from judges import RUBRIC, verdict
from made_results import row
from property_settings import AT_NIGHT
from small_searches import CHATTY, PRICED, searched, small_search

from agentnb import Judge
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.experiments.results.experiment_folder import ExperimentFolder
from agentnb.experiments.search.search_budget import Ledger
from agentnb.models.model import Reply
from agentnb.models.scripted import ScriptedModel


def test_cells_start_only_while_the_budget_covers_them() -> None:
    rows = [row("a", f"t{n}", True, cost=cost) for n, cost in enumerate((0.01, 0.03, None))]
    for limit, other, reserved, running, is_spent in (
        (None, 9.0, 9, 9, False),
        (0.10, 0.0, 0, 0, False),
        (0.10, 0.0, 0, 1, False),  # 0.04 and twice 0.03
        (0.10, 0.0, 0, 2, True),
        (0.10, 0.0, 1, 1, True),
        (0.10, 0.04, 0, 0, True),
        (0.04, 0.0, 0, 0, True),
    ):
        ledger = Ledger(limit, rows, other, reserved)
        for number in range(running):
            ledger.begin(f"{number}", ("candidate", "m"))
        assert ledger.is_spent is is_spent, (limit, other, reserved, running)


def test_first_cell_runs_alone_to_measure_its_cost() -> None:
    ledger = Ledger(1.0, [], 0.0, 100)
    states = [ledger.is_spent]
    ledger.begin("a", ("start", "m"))
    ledger.pay("a", 0.01)
    states.append(ledger.is_spent)
    ledger.end("a")
    states.append(ledger.is_spent)
    assert states == [False, True, True] and ledger.dearest == 0.01, "the judgement takes the remainder"
    ledger.reserved = 0
    ledger.begin("b", ("candidate", "m"))
    states.append(ledger.is_spent)
    assert not states[-1] and ledger.has_room, "a candidate that is new costs what others cost"


def test_search_stores_judge_verdicts_and_counts_their_cost(tmp_path: Path) -> None:
    priced = Reply(Message("assistant", (Text(verdict("failed")),)), usage=Usage(cost=0.25), stop_reason="end_turn")
    judge = Judge(ScriptedModel([priced], name="scripted:judge", repeat=True), RUBRIC)
    given: dict[str, Any] = {"primary": judge, "folder": tmp_path, "proposals": 1, "model": CHATTY}
    assert "Cost: unknown" in repr(small_search(**given).design())
    found = searched(small_search(budget=11.0, **given))
    rows = ExperimentFolder(tmp_path / "cells").attempts()
    assert found.spent == sum(row.judging_cost or 0.0 for row in rows) == 0.25 * len(rows) <= 11.0
    assert all(row.judged for row in rows)
    assert searched(small_search(budget=11.0, **given)).spent == found.spent, "it counts what was spent before"


def cost_of(folder: Path) -> float:
    """Sum the spending of a search over the rows of its folders."""
    return sum(
        attempt.cost or 0.0 for place in ("cells", "judgement") for attempt in ExperimentFolder(folder / place).attempts()
    )


@pytest.mark.slow("searches of up to a hundred runs with many budgets")
def test_search_cells_never_exceed_the_budget(tmp_path: Path) -> None:
    whole = searched(small_search(model=PRICED, folder=tmp_path / "whole"))
    assert whole.spent == pytest.approx(cost_of(tmp_path / "whole")) and whole.claims_gain
    cut = 0
    for share in (0.02, 0.3, 0.6, 1.3) if not AT_NIGHT else (0.3, *(place / 40 for place in range(1, 60))):
        folder, budget = tmp_path / f"{share}", whole.spent * share
        found = searched(small_search(model=PRICED, budget=budget, folder=folder))
        assert found.spent == pytest.approx(cost_of(folder)) and found.spent <= budget, share
        ended_by_it = any("the budget of" in note for note in found.notes)
        cut += ended_by_it
        if found.best != found.start and found.judgement is None:
            pytest.fail(f"at {share} the budget was left for no judgement: {found.notes}")
    assert cut >= 3
    more = searched(small_search(model=PRICED, folder=tmp_path / "0.3"))
    assert (more.spent, repr(more.judgement)) == (pytest.approx(whole.spent), repr(whole.judgement)), "no cell was paid twice"
    assert repr(found.judgement) == repr(whole.judgement), "a sufficient budget changes nothing"
