"""Money: what a run may spend, within what is left to whoever began it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from runs_by_hand import assert_closed, assert_every_call_has_one_result, bare
from summarising import Summarising, priced

from agentnb import Agent, ToolCall
from agentnb.agent.purse import Purse, current_purse
from agentnb.core.run import Run
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.function import tool


@pytest.mark.req("KX.2")
def test_what_is_settled_is_all_that_was_spent_so_far_and_counts_once() -> None:
    purse = Purse(1.0)
    for spent in (0.2, 0.2, 0.5):
        purse.settle(spent)
    assert (purse.spent, purse.left(), purse.exhausted()) == (0.5, 0.5, None)
    purse.settle(1.0)
    assert purse.exhausted() is purse


@pytest.mark.req("KX.2")
def test_a_purse_in_another_has_what_is_left_in_both_and_spends_of_both() -> None:
    outer = Purse(1.0, name="session_budget")
    first, second = Purse(0.6, within=outer), Purse(within=outer)
    first.settle(0.5)
    assert (first.left(), second.left(), outer.left()) == (pytest.approx(0.1), 0.5, 0.5)
    second.settle(0.5)
    assert first.exhausted() is outer and second.exhausted() is outer
    assert (first.spent, second.spent, outer.spent) == (0.5, 0.5, 1.0)
    inner = Purse(0.1, within=Purse(within=None))
    inner.settle(0.1)
    assert inner.exhausted() is inner


def test_without_any_limit_there_is_none() -> None:
    purse = Purse(within=Purse())
    purse.settle(10.0)
    assert (purse.has_limit(), purse.left(), purse.exhausted()) == (False, None, None)
    assert Purse(within=Purse(1.0)).has_limit()


def test_runs_side_by_side_lose_no_cent() -> None:
    purse = Purse(1e9)

    def spend() -> None:
        one = Purse(within=purse)
        for number in range(1, 2_001):
            one.settle(float(number))

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert purse.spent == 8_000.0


# Runs


def work(n: int = 0) -> str:
    """Does the work of one item."""
    return f"made {n}"


def calls(count: int, cost: float | None) -> list[Any]:
    return [priced(ToolCall("work", {"n": number}), cost=cost) for number in range(count)]


def ended(run: Run) -> tuple[str, str | None]:
    assert_closed(run)
    assert_every_call_has_one_result(run)
    assert Run.from_events(run.events) == run
    return run.status, run.stop_reason


@pytest.mark.req("KX.2")
def test_a_run_ends_when_its_budget_is_spent_and_keeps_all_it_has() -> None:
    run = bare(ScriptedModel(calls(9, 0.3)), [work], budget=1.0).run_sync("go")
    assert ended(run) == ("limited", "budget")
    assert (len(run.rounds), run.cost) == (4, pytest.approx(1.2))
    assert run.limit is not None and (run.limit.limit, run.limit.value) == ("budget", 1.0)
    again = bare(ScriptedModel([priced("Done.", cost=0.3)]), [work], budget=1.0).run_sync("go on", continue_from=run)
    assert ended(again) == ("completed", "natural") and again.cost == 0.3


class Priceless(Summarising):
    """A model of which nobody knows what it costs."""

    def __init__(self, replies: Any) -> None:
        super().__init__(replies, priced=False)


@pytest.mark.req("KX.2")
def test_a_budget_and_an_unknown_price_are_refused_before_anything_is_sent_unless_told_otherwise() -> None:
    model = Priceless(["Done."])
    with pytest.raises(SettingsError, match=r"not known.*budget cannot hold") as caught:
        bare(model, budget=1.0).run_sync("go")
    assert "price=" in caught.value.hint and "unpriced" in caught.value.hint
    assert model.requests == []
    assert bare(Priceless(["Done."])).run_sync("go").status == "completed"
    run = bare(Priceless([*calls(3, None), priced("Done.", cost=None)]), [work], budget=1.0, unpriced=True).run_sync("go")
    assert ended(run) == ("completed", "natural") and (run.cost, run.spent) == (None, 0.0)


@pytest.mark.req("KX.2")
def test_what_is_known_of_the_price_counts_even_where_not_all_is() -> None:
    script = [*calls(1, None), *calls(2, 0.6), "Done."]
    run = bare(Priceless(script), [work], budget=1.0, unpriced=True).run_sync("go")
    assert ended(run) == ("limited", "budget") and (run.cost, run.spent) == (None, 1.2)


@pytest.mark.req("KX.2")
def test_what_a_run_is_paid_from_ends_it_by_its_own_name() -> None:
    purse = Purse(1.0, name="session_budget")
    run = bare(ScriptedModel(calls(9, 0.3)), [work]).start("go", purse=purse).result(20)
    assert ended(run) == ("limited", "session_budget") and purse.spent == pytest.approx(1.2)
    with pytest.raises(SettingsError, match="Nothing is left of the session budget"):
        bare(ScriptedModel(["Done."]), [work]).start("go", purse=purse)


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
def test_a_run_inside_a_run_has_what_is_left_of_the_outer_ones_budget(how: str) -> None:
    runs: list[Run] = []
    inner = bare(ScriptedModel(calls(9, 0.4)), [work])
    made = nested(how, inner, runs)
    model = ScriptedModel([priced(ToolCall(made.__name__), cost=0.5), "Done."])
    outer = bare(model, [made], budget=2.0).run_sync("go")
    assert ended(runs[0]) == ("limited", "budget")
    assert len(runs[0].rounds) == 4, "1.6 and the 0.5 of the outer one are more than 2"
    assert ended(outer) == ("limited", "budget") and len(model.requests) == 1
    assert outer.spent == 0.5


@pytest.mark.req("KX.2")
@pytest.mark.parametrize("how", WAYS)
def test_a_run_inside_a_run_has_its_own_budget_besides(how: str) -> None:
    runs: list[Run] = []
    made = nested(how, bare(ScriptedModel(calls(9, 0.4)), [work], budget=0.7), runs)
    model = ScriptedModel([priced(ToolCall(made.__name__), cost=0.5), priced("Done.", cost=0.5)])
    outer = bare(model, [made], budget=2.0).run_sync("go")
    assert ended(runs[0]) == ("limited", "budget") and len(runs[0].rounds) == 2
    assert ended(outer) == ("completed", "natural")


@pytest.mark.req("KX.2")
def test_a_reply_that_spends_the_last_of_it_begins_no_run_inside() -> None:
    runs: list[Run] = []
    made = nested("awaited", bare(ScriptedModel(["Done."])), runs)
    model = ScriptedModel([priced(ToolCall(made.__name__), cost=2.5), "Done."])
    outer = bare(model, [made], budget=2.0).run_sync("go")
    assert runs == [] and "Nothing is left" in outer.rounds[0].results[0].text
    assert ended(outer) == ("limited", "budget")


@pytest.mark.req("KX.2")
def test_runs_side_by_side_inside_a_run_share_what_is_left() -> None:
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
    assert 2.0 <= sum(run.spent for run in runs) + outer.spent < 2.0 + 4 * 0.1 + 0.001


@pytest.mark.req("KX.2")
def test_an_unknown_price_inside_a_run_with_a_budget_is_refused_there() -> None:
    runs: list[Run] = []
    made = nested("awaited", bare(Priceless(["Done."])), runs)
    outer = bare(ScriptedModel([ToolCall(made.__name__), "Done."]), [made], budget=2.0).run_sync("go")
    assert runs == [] and "budget cannot hold" in outer.rounds[0].results[0].text
    assert ended(outer) == ("completed", "natural")


def test_a_run_that_follows_another_in_the_same_task_is_not_paid_from_it() -> None:
    async def both() -> tuple[Run, Run]:
        first = await bare(ScriptedModel(calls(3, 1.0)), [work], budget=1.0).run("one")
        assert current_purse.get() is None
        return first, await bare(ScriptedModel([*calls(3, 1.0), "Done."]), [work]).run("two")

    first, second = asyncio.run(both())
    assert (ended(first)[0], ended(second)[0]) == ("limited", "completed")
