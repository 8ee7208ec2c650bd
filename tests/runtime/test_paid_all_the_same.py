"""Money spent on lost replies or dead processes counts, also in the log."""

from __future__ import annotations

import asyncio
import math
import threading
from pathlib import Path
from typing import Any

import pytest
from marked_logs import marked
from scripted_runs import bare, do, even_failed, work
from streamed_replies import FOREVER, Streamed
from summarising import Summarising, priced

from agentnb import History, Run, Store, ToolCall, load_trace, tables
from agentnb.core.compaction_records import Compaction
from agentnb.core.log.events import AnyEvent, Delta, ExtraUsage, TextDelta, ThinkingDelta
from agentnb.core.messages import Message, Text, Thinking
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import ModelError
from agentnb.models.model import Reply, Retry
from agentnb.runtime.budget import Budget
from agentnb.runtime.host.run_options import RunOptions

LONG = 20
SMALL = History(compact_above=5, keep_recent=2)


class Reckons(Summarising):
    """Estimates an interrupted reply at a dollar per part and a thousandth per character."""

    def used_until_cut(self, request: Request, heard: Message) -> Usage:
        characters = sum(len(part.text) for part in heard.parts if isinstance(part, Text | Thinking))
        return Usage(7, characters, cost=len(heard.parts) + characters / 1_000)


def ended(model: Any, **settings: Any) -> Run:
    """Return the run, even if it failed in its first round."""
    return even_failed(lambda: bare(model, [work], **settings).run_sync("go"))


def streaming(*items: Any) -> Reckons:
    """Return a model that streams these items and raises exceptions among them."""
    return Reckons([Streamed(*items)])


@pytest.mark.req("KX.2", "KX.9")
def test_interrupted_thinking_is_charged_with_and_without_text() -> None:
    gone = ModelError("gone")
    run = ended(streaming(ThinkingDelta("Well, "), ThinkingDelta("well."), gone))
    assert (run.cost, run.usage.output, run.usage.estimated, run.text) == (1.011, 11, True, "")
    assert [event.usage.output for event in run.events if isinstance(event, ExtraUsage)] == [11]
    assert tables.usage(run)[["output_tokens", "cost", "estimated"]].values.tolist() == [[11, 1.011, True]]
    run = ended(streaming(ThinkingDelta("Well."), TextDelta("Yes"), gone))
    assert (run.cost, run.text) == (2.008, "Yes") and run.rounds[0].usage == run.usage
    assert ended(streaming(gone)).cost == 0.0  # presumably refused


@pytest.mark.req("KX.9")
def test_reported_usage_counts_for_a_reply_completed_before_the_failure() -> None:
    whole, gone = Reply(Message("assistant", (Text("Yes"),)), Usage(100, 10, cost=0.5)), ModelError("gone")
    for items in ((TextDelta("Yes"), whole, gone), (whole, gone)):
        run = ended(streaming(*items))
        assert (run.status, run.cost, run.usage.estimated) == ("failed", 0.5, False)
    odd = Reply(Message("assistant", (Text("Yes"),)), Usage(100, 10, cost=math.nan))
    assert ended(streaming(odd, gone)).cost is None


@pytest.mark.req("KX.9")
def test_reported_summary_usage_counts_even_if_the_connection_fails() -> None:
    run = ended(summing_up(priced("What was done.", cost=0.5), ModelError("gone")), history=SMALL)
    assert (run.status, run.cost) == ("completed", 0.5)


def summing_up(*items: Any) -> Reckons:
    """Return a model with three calls and an answer, which streams these items as its summary."""
    return Reckons([do(1), do(2), do(3), "Done."], [Streamed(*items)])


def compaction_of(run: Run) -> Compaction:
    (done,) = [compaction for round_ in run.rounds for compaction in round_.compactions]
    return done


@pytest.mark.req("KX.9")
def test_interrupted_summary_counts_only_its_last_attempt() -> None:
    first = (TextDelta("It was "), Retry(1, 0.0, "broken"))
    for items, characters in (((), 0), ((TextDelta("good"),), 4)):
        run = ended(summing_up(*first, *items, ModelError("gone")), history=SMALL)
        assert compaction_of(run).usage.output == characters


@pytest.mark.req("KX.2", "KX.9")
def test_stopped_summary_is_charged_in_run_table_log_and_session(tmp_path: Path) -> None:
    begun, store, budget = threading.Event(), Store(tmp_path), Budget(9.0, name="session_budget")

    live = bare(summing_up("It was ", begun, FOREVER), [work], history=SMALL).start(
        "go", RunOptions(store=store, budget=budget, can_ask=True)
    )
    assert begun.wait(LONG)
    live.stop("enough")
    run = live.result(LONG)
    assert (run.status, run.cost, budget.spent) == ("cancelled", 1.007, 1.007)
    rows = tables.usage(run).query("operation == 'compaction'").to_dict("records")
    assert [(row["output_tokens"], row["cost"], bool(row["estimated"])) for row in rows] == [(7, 1.007, True)]
    assert load_trace(store.path(run.id)) == run


@pytest.mark.req("KX.2", "KX.11")
@pytest.mark.parametrize("where", ["on the loop of the run", "in a thread"])
def test_nested_run_cost_is_logged_before_its_call_ends(where: str, tmp_path: Path) -> None:
    inner = bare(Summarising([priced(do(1), cost=0.25), priced("Done.", cost=0.25)]), [work])
    costs: list[float] = []

    async def awaited() -> str:
        """Begins a run."""
        run = await inner.run("inside")
        costs.append(purse_of_outer())
        return run.text

    def plain() -> str:
        """Begins a run."""
        return inner.run_sync("inside").text

    seen: list[AnyEvent | Delta] = []
    tool = awaited if where == "on the loop of the run" else plain
    outer = bare(Summarising([priced(ToolCall(tool.__name__), cost=0.1), priced("Done.", cost=0.1)]), [tool])

    def purse_of_outer() -> float:
        return sum(item.inside for item in seen if isinstance(item, ExtraUsage))

    run = outer.run_sync("go") if tool is plain else asyncio.run(outer.run("go", watch=seen.append))
    spent = [event for event in run.events if isinstance(event, ExtraUsage)]
    assert sum(event.inside for event in spent) == pytest.approx(0.5) == run.counters.spent_inside
    assert (run.own_cost, run.cost) == (pytest.approx(0.2), pytest.approx(0.7))
    if costs:
        assert costs == [pytest.approx(0.5)]  # at once: the process may die at any moment
    cut = tmp_path / f"{run.id}.jsonl"
    until = max(place for place, event in enumerate(run.events) if isinstance(event, ExtraUsage)) + 1
    cut.write_bytes(marked(run.events[:until]))
    died = load_trace(cut)
    assert died.status == "interrupted" and died.counters.spent_inside == pytest.approx(0.5)


@pytest.mark.req("KX.9")
def test_invalid_summary_is_dropped_and_invalid_cost_is_unknown() -> None:
    run = ended(summing_up(Reply("words")), history=SMALL)  # type: ignore[arg-type]
    assert run.status == "completed" and "has no Message" in compaction_of(run).problem
    run = ended(Summarising([do(1), do(2), do(3), "Done."], [priced("What was done.", cost=math.nan)]), history=SMALL)
    assert compaction_of(run).usage.cost is None and run.compacted is not None and run.cost is None


def test_usage_is_not_logged_without_a_model_estimate() -> None:
    model = streaming(ThinkingDelta("Well."), ModelError("gone"))
    model.used_until_cut = None  # type: ignore[assignment, method-assign]
    assert not [event for event in ended(model).events if isinstance(event, ExtraUsage)]
