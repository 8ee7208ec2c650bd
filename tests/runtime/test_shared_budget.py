"""Custom budgets shared by independent runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from asserted_sentences import Snapshot
from run_checks import assert_closed
from scripted_runs import bare, reply, work

from agentnb import Agent, RunOptions, Store, ToolCall
from agentnb.core.messages import Text
from agentnb.core.usage import Usage
from agentnb.errors import SettingsError
from agentnb.models import Reply, ScriptedModel
from agentnb.runtime.budget import SPENDING, Budget

COST = 0.25


class Reached(NamedTuple):
    name: str
    limit: float
    spent: float


class Purse:
    """A budget as an experiment keeps it in another process: without agentnb code, a number and a lock."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.spent = 0.0
        self._lock = threading.Lock()

    def pay(self, dollars: float) -> None:
        with self._lock:
            self.spent += dollars

    def left(self) -> float | None:
        return None if self.limit is None else self.limit - self.spent

    def exhausted(self) -> Reached | None:
        done = self.limit is not None and self.spent >= self.limit
        return Reached("experiment", self.limit or 0.0, self.spent) if done else None

    def has_limit(self) -> bool:
        return self.limit is not None


def paid(part: ToolCall | Text) -> Reply:
    return reply(part, usage=Usage(1, 1, cost=COST), stop_reason="tool_use" if isinstance(part, ToolCall) else "end_turn")


def spending(calls: int) -> Agent:
    """Return an agent that makes so many calls and pays for each."""
    parts = [paid(ToolCall("work", {"n": number})) for number in range(calls)]
    return bare(ScriptedModel([*parts, paid(Text("Done."))]), [work], unpriced=True)


def test_parallel_runs_share_one_budget_and_end_with_it(tmp_path: Path) -> None:
    begun = threading.Event()

    class Held(Purse):
        """A budget that accepts no payment before both runs have started: the first may be quick."""

        def pay(self, dollars: float) -> None:
            assert begun.wait(30)
            super().pay(dollars)

    purse = Held(6 * COST)
    lives = [spending(20).start("go", RunOptions(budget=purse, store=Store(tmp_path))) for _ in range(2)]
    begun.set()
    runs = [live.result(30) for live in lives]
    assert {(run.status, run.stop_reason) for run in runs} == {("limited", "experiment")}
    assert purse.spent == pytest.approx(sum(run.spent for run in runs))
    assert 6 * COST <= purse.spent <= 7 * COST  # a running reply is paid for


def test_run_without_remaining_budget_is_refused(snapshot: Snapshot) -> None:
    purse = Purse(COST)
    purse.pay(COST)
    with pytest.raises(SettingsError, check=snapshot.worded):
        spending(1).start("go", RunOptions(budget=purse))


def test_shared_budget_without_a_limit_only_counts_spending() -> None:
    purse = Purse(None)
    run = spending(2).start("go", RunOptions(budget=purse)).result(30)
    assert (run.status, purse.spent) == ("completed", 3 * COST)


def test_nested_budget_is_capped_by_the_shared_remainder() -> None:
    purse = Purse(1.0)
    inner, outer = Budget(0.6, within=purse), Budget(within=purse)
    outer.settle(0.5)
    assert (inner.left(), outer.left(), inner.has_limit(), Budget(within=Purse(None)).has_limit()) == (0.5, 0.5, True, False)
    inner.settle(0.5)
    assert (inner.exhausted(), outer.exhausted()) == (Reached("experiment", 1.0, 1.0), Reached("experiment", 1.0, 1.0))
    assert not inner.is_over()


def test_invalid_budget_is_refused() -> None:
    with pytest.raises(SettingsError, match="is not a budget"):
        RunOptions(budget=3)  # type: ignore[arg-type]  # what a person may type


def test_error_names_the_failing_budget_and_the_run_is_closed(subtests: pytest.Subtests) -> None:
    class Broken(Purse):
        """The budget of an experiment whose other process is gone."""

        def __repr__(self) -> str:
            return "Broken()"

        def fails(self, *_: float) -> Any:
            raise ValueError("the ledger is closed")

    for name in SPENDING:
        with subtests.test(name):
            purse = Broken(10 * COST)
            setattr(purse, name, purse.fails)
            with pytest.raises(
                SettingsError, match=r"The budget Broken\(\) failed \(ValueError: the ledger is closed\)"
            ) as caught:
                if name == "left":  # a run reads it only for display
                    Budget(within=purse).left()
                spending(0).start("go", RunOptions(budget=purse)).result(30)
            assert "pay, left, exhausted, has_limit" in str(caught.value)


def test_budget_failure_during_a_run_closes_it_with_an_error() -> None:
    purse = Purse(10 * COST)
    paid_before = purse.pay

    def pay(dollars: float) -> None:
        if purse.spent:
            raise ValueError("the ledger is closed")
        paid_before(dollars)

    purse.pay = pay  # type: ignore[method-assign]
    run = spending(3).start("go", RunOptions(budget=purse)).result(30)
    assert run.status == "failed" and run.error is not None and "the ledger is closed" in run.error.message
    assert_closed(run)
