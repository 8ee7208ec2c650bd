"""Budgets of runs, within the remaining budget of their caller."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from marked_logs import marked
from run_checks import checked
from scripted_runs import bare, work
from streamed_replies import FOREVER, Streamed, Streaming
from summarising import Summarising, priced
from waiting import PATIENCE

from agentnb import Agent, Store, ToolCall, recover
from agentnb.core.log.events import ExtraUsage, RoundFinished
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.budget import Budget, current_budget
from agentnb.runtime.host.run_options import RunOptions
from agentnb.tools.function import tool


@pytest.mark.req("KX.2")
def test_settled_amount_is_a_running_total_not_an_increment() -> None:
    budget = Budget(1.0)
    for spent in (0.2, 0.2, 0.5):
        budget.settle(spent)
    assert (budget.spent, budget.left(), budget.exhausted()) == (0.5, 0.5, None)
    budget.settle(1.0)
    assert budget.exhausted() is budget


def test_budget_is_over_when_it_or_its_parent_is_closed() -> None:
    outer = Budget()
    inner = Budget(within=Budget(within=outer))
    beside = Budget(within=outer)
    assert not inner.is_over()
    beside.closed = True
    assert not inner.is_over() and not outer.is_over()
    outer.closed = True
    assert inner.is_over()


@pytest.mark.req("KX.2")
def test_earlier_nested_spending_is_added_to_own_spending() -> None:
    budget = Budget(1.0, spent=0.2, inside=0.5)
    assert (budget.spent, budget.left()) == (0.7, pytest.approx(0.3))
    budget.settle(0.3)
    Budget(within=budget).settle(0.1)
    assert (budget.spent, budget.left()) == (pytest.approx(0.9), pytest.approx(0.1))


@pytest.mark.req("KX.2")
def test_nested_budget_is_capped_by_its_parent_and_spends_both() -> None:
    outer = Budget(1.0, name="session_budget")
    first, second = Budget(0.6, within=outer), Budget(within=outer)
    first.settle(0.5)
    assert (first.left(), second.left(), outer.left()) == (pytest.approx(0.1), 0.5, 0.5)
    second.settle(0.5)
    assert first.exhausted() is outer and second.exhausted() is outer
    assert (first.spent, second.spent, outer.spent) == (0.5, 0.5, 1.0)
    inner = Budget(0.1, within=Budget(within=None))
    inner.settle(0.1)
    assert inner.exhausted() is inner


def test_budget_without_a_limit_is_never_exhausted() -> None:
    budget = Budget(within=Budget())
    budget.settle(10.0)
    assert (budget.has_limit(), budget.left(), budget.exhausted()) == (False, None, None)
    assert Budget(within=Budget(1.0)).has_limit()


def test_parallel_runs_settle_their_full_cost() -> None:
    budget = Budget(1e9)

    def spend() -> None:
        one = Budget(within=budget)
        for number in range(1, 2_001):
            one.settle(float(number))

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert budget.spent == 8_000.0


# Runs


def calls(count: int, cost: float | None) -> list[Any]:
    return [priced(ToolCall("work", {"n": number}), cost=cost) for number in range(count)]


def ended(run: Run) -> tuple[str, str | None]:
    checked(run)
    return run.status, run.stop_reason


@pytest.mark.req("KX.2")
def test_run_ends_when_its_budget_does_and_keeps_its_data() -> None:
    run = bare(ScriptedModel(calls(9, 0.3)), [work], budget=1.0).run_sync("go")
    assert ended(run) == ("limited", "budget")
    assert (len(run.rounds), run.cost) == (4, pytest.approx(1.2))
    assert run.limit is not None and (run.limit.limit, run.limit.value) == ("budget", 1.0)
    again = bare(ScriptedModel([priced("Done.", cost=0.3)]), [work], budget=1.0).run_sync("go on", continue_from=run)
    assert ended(again) == ("completed", "natural") and again.cost == 0.3


class Priceless(Summarising):
    """A model with an unknown price."""

    def __init__(self, replies: Any) -> None:
        super().__init__(replies, priced=False)


@pytest.mark.req("KX.2")
def test_budget_with_unknown_price_is_refused_unless_allowed() -> None:
    model = Priceless(["Done."])
    with pytest.raises(SettingsError, match=r"unknown, so a budget cannot be enforced") as caught:
        bare(model, budget=1.0).run_sync("go")
    assert "price=" in caught.value.hint and "unpriced" in caught.value.hint
    assert model.requests == []
    assert bare(Priceless(["Done."])).run_sync("go").status == "completed"
    run = bare(Priceless([*calls(3, None), priced("Done.", cost=None)]), [work], budget=1.0, unpriced=True).run_sync("go")
    assert ended(run) == ("completed", "natural") and (run.cost, run.spent) == (None, 0.0)


@pytest.mark.req("KX.2")
def test_known_costs_count_when_others_are_unknown() -> None:
    script = [*calls(1, None), *calls(2, 0.6), "Done."]
    run = bare(Priceless(script), [work], budget=1.0, unpriced=True).run_sync("go")
    assert ended(run) == ("limited", "budget") and (run.cost, run.spent) == (None, 1.2)


@pytest.mark.req("KX.2")
def test_run_ended_by_an_outer_budget_names_it() -> None:
    budget = Budget(1.0, name="session_budget")
    run = bare(ScriptedModel(calls(9, 0.3)), [work]).start("go", RunOptions(budget=budget, can_ask=True)).result(20)
    assert ended(run) == ("limited", "session_budget") and budget.spent == pytest.approx(1.2)
    with pytest.raises(SettingsError, match="The session budget is used up"):
        bare(ScriptedModel(["Done."]), [work]).start("go", RunOptions(budget=budget, can_ask=True))


def nested(how: str, inner: Agent, runs: list[Run]) -> Any:
    """A tool that begins a run."""

    async def beside(n: int = 0) -> str:
        """Asks another."""
        runs.append(await inner.run("inner"))
        return str(runs[-1].stop_reason)

    def plain(n: int = 0) -> str:
        """Asks another."""
        runs.append(inner.run_sync("inner"))
        return str(runs[-1].stop_reason)

    if how == "awaited":
        return beside
    return tool(parallel_safe=True)(plain) if how == "in a thread" else plain


WAYS = ["awaited", "plain", "in a thread"]


@pytest.mark.req("KX.2")
@pytest.mark.parametrize("how", WAYS)
def test_nested_run_gets_the_rest_of_the_outer_budget(how: str) -> None:
    runs: list[Run] = []
    inner = bare(ScriptedModel(calls(9, 0.4)), [work])
    made = nested(how, inner, runs)
    model = ScriptedModel([priced(ToolCall(made.__name__), cost=0.5), "Done."])
    outer = bare(model, [made], budget=2.0).run_sync("go")
    assert ended(runs[0]) == ("limited", "budget")
    assert len(runs[0].rounds) == 4, "1.6 and the 0.5 of the outer one are more than 2"
    assert ended(outer) == ("limited", "budget") and len(model.requests) == 1
    assert (outer.own_spent, outer.spent) == (0.5, pytest.approx(2.1))


@pytest.mark.req("KX.2")
@pytest.mark.parametrize("how", WAYS)
def test_nested_run_also_has_its_own_budget(how: str) -> None:
    runs: list[Run] = []
    made = nested(how, bare(ScriptedModel(calls(9, 0.4)), [work], budget=0.7), runs)
    model = ScriptedModel([priced(ToolCall(made.__name__), cost=0.5), priced("Done.", cost=0.5)])
    outer = bare(model, [made], budget=2.0).run_sync("go")
    assert ended(runs[0]) == ("limited", "budget") and len(runs[0].rounds) == 2
    assert ended(outer) == ("completed", "natural")


@pytest.mark.req("KX.2")
def test_reply_that_exhausts_the_budget_starts_no_nested_run() -> None:
    runs: list[Run] = []
    made = nested("awaited", bare(ScriptedModel(["Done."])), runs)
    model = ScriptedModel([priced(ToolCall(made.__name__), cost=2.5), "Done."])
    outer = bare(model, [made], budget=2.0).run_sync("go")
    assert runs == [] and "is used up" in outer.rounds[0].results[0].text
    assert ended(outer) == ("limited", "budget")


@pytest.mark.req("KX.2")
def test_parallel_nested_runs_share_the_remaining_budget() -> None:
    runs: list[Run] = []

    async def inside(n: int) -> str:
        """Asks another."""
        runs.append(await bare(ScriptedModel(calls(50, 0.1)), [work]).run(f"inner {n}"))
        return "ended"

    beside = tool(parallel_safe=True)(inside)
    model = ScriptedModel([[ToolCall("inside", {"n": number}) for number in range(4)], "Done."])
    outer = bare(model, [beside], budget=2.0).run_sync("go")
    assert ended(outer) == ("limited", "budget")
    assert [ended(run) for run in runs] == [("limited", "budget")] * 4
    assert 2.0 <= sum(run.spent for run in runs) + outer.own_spent < 2.0 + 4 * 0.1 + 0.001


@pytest.mark.req("KX.2")
def test_nested_run_of_unknown_price_is_refused_under_a_budget() -> None:
    runs: list[Run] = []
    made = nested("awaited", bare(Priceless(["Done."])), runs)
    outer = bare(ScriptedModel([ToolCall(made.__name__), "Done."]), [made], budget=2.0).run_sync("go")
    assert runs == [] and "budget cannot be enforced" in outer.rounds[0].results[0].text
    assert ended(outer) == ("completed", "natural")


def test_next_run_in_the_same_task_has_its_own_budget() -> None:
    async def both() -> tuple[Run, Run]:
        first = await bare(ScriptedModel(calls(3, 1.0)), [work], budget=1.0).run("one")
        assert current_budget.get() is None
        return first, await bare(ScriptedModel([*calls(3, 1.0), "Done."]), [work]).run("two")

    first, second = asyncio.run(both())
    assert (ended(first)[0], ended(second)[0]) == ("limited", "completed")


# Nested runs that outlive their parent


def test_background_run_outlives_the_run_that_started_it() -> None:
    lives: list[Any] = []

    def begins(n: int = 0) -> str:
        """Sets another to work."""
        lives.append(bare(Streaming([Streamed(FOREVER)])).start("inner"))
        return "begun"

    outer = bare(ScriptedModel([ToolCall("begins"), "Done."]), [begins]).run_sync("outer")
    assert ended(outer) == ("completed", "natural")
    (live,) = lives
    assert not live.done
    live.stop()
    assert ended(live.result(PATIENCE)) == ("cancelled", "cancelled")


# Nested spending after recovery


def inside(run: Run) -> list[float]:
    """Return the nested spending of each round."""
    rounds = [0.0]
    for event in run.events:
        if isinstance(event, ExtraUsage):
            rounds[-1] += event.inside
        elif isinstance(event, RoundFinished):
            rounds.append(0.0)
    return rounds[:-1]


@pytest.mark.req("KX.2")
@pytest.mark.parametrize("how", WAYS)
def test_each_round_reports_spending_of_runs_started_by_tools(how: str) -> None:
    runs: list[Run] = []
    made = nested(how, bare(ScriptedModel([*calls(2, 0.2), priced("Done.", cost=0.1)] * 3), [work]), runs)
    script = [priced(ToolCall(made.__name__, {"n": 1}), cost=0.25), priced(ToolCall("work"), cost=0.25)]
    script += [priced(ToolCall(made.__name__, {"n": 2}), cost=0.25), priced("Done.", cost=0.25)]
    run = bare(ScriptedModel(script), [made, work]).run_sync("go")
    assert ended(run) == ("completed", "natural")
    assert [pytest.approx(told) for told in inside(run)] == [0.5, 0, 0.5, 0]
    assert (run.own_spent, run.spent) == (1.0, pytest.approx(2.0))


@pytest.mark.req("KX.2", "KX.11")
@pytest.mark.parametrize("how", WAYS)
def test_continued_run_counts_earlier_nested_spending(how: str, tmp_path: Path) -> None:
    def made_by(runs: list[Run]) -> Any:
        return nested(how, bare(ScriptedModel([*calls(2, 0.4), priced("Done.", cost=0.1)]), [work]), runs)

    before: list[Run] = []
    tool_before = made_by(before)
    script = [priced(ToolCall(tool_before.__name__, {"n": n}), cost=0.1) for n in range(3)]
    store = Store(tmp_path / "runs")
    whole = bare(ScriptedModel(script[:2]), [tool_before], budget=1.5, max_rounds=1).run_sync("go", store=store)
    assert whole.own_spent == 0.1 and [run.spent for run in before] == [pytest.approx(0.9)]
    first_round = [event for event in whole.events if not type(event).__name__.startswith(("Limit", "RunFinished"))]
    store.path(whole.id).write_bytes(marked(first_round))

    after: list[Run] = []
    agent = bare(ScriptedModel(script[1:]), [made_by(after)], budget=1.5)
    run = asyncio.run(recover(whole.id, agent=agent, store=store))
    assert ended(run) == ("limited", "budget")
    assert [ended(one) for one in after] == [("limited", "budget")]
    assert [len(one.rounds) for one in after] == [1], "0.1, 0.9, 0.1 and 0.4 are no less than 1.5"
    assert (run.own_spent, run.spent) == (pytest.approx(0.2), pytest.approx(1.5))
