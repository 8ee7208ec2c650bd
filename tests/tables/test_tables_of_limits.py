"""Limits, summaries and continued runs in the tables and in the list of runs."""

from __future__ import annotations

import asyncio
import queue
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from marked_logs import cut_log
from msgspec.structs import replace
from scripted_runs import add
from streamed_replies import FOREVER, Streamed
from summarising import Summing, priced
from waiting import PATIENCE

from agentnb import Agent, History, Run, Store, ToolCall, recover, tables
from agentnb.core.log.events import RetryScheduled
from agentnb.core.messages import Text
from agentnb.core.run.timeline import TOO_LONG
from agentnb.display.lists.history_list import history_html, history_text, matches, run_list_html
from agentnb.errors import ContextOverflow
from agentnb.models import Reply, ScriptedModel
from agentnb.models.model import Retry

SHORT = History(compact_above=8, keep_recent=3)


said = partial(priced, cost=0.25, tokens=(10, 5))


def calls(count: int) -> list[Reply]:
    return [said(ToolCall("add", {"a": n})) for n in range(count)]


def run_of_script(*replies: Any, store: Store | None = None, **how: Any) -> Run:
    given: dict[str, Any] = {"tools": [add], "todos": False, "guidance": "off", **how}
    return Agent(Summing(replies), **given).run_sync("Go", store=store)


def summed_up(store: Store | None = None) -> Run:
    """Build a run of five calls; its conversation is summarized before the fifth, at the second attempt."""
    summary = Streamed(Retry(1, 2.0, "busy", 529), said(Text("Sum."), cost=0.125))
    return run_of_script(*calls(4), summary, *calls(1), said(Text("Done.")), history=SHORT, store=store)


@pytest.mark.req("KX.2")
def test_run_row_names_the_reached_limit_and_the_spending() -> None:
    frame = tables.runs([run_of_script(*calls(9), budget=0.5), run_of_script(*calls(2), said(Text("x")))])
    first, second = frame.iloc[0], frame.iloc[1]
    assert (first.status, first.limit, first.limit_value, first.budget, first.spent) == ("limited", "budget", 0.5, 0.5, 0.5)
    assert pd.isna(second.limit) and pd.isna(second.limit_value) and pd.isna(second.budget) and second.spent == 0.75


def test_spending_is_known_even_if_the_cost_is_not() -> None:
    row = tables.runs(run_of_script(*calls(1), said(Text("x"), cost=None))).iloc[0]
    assert pd.isna(row.cost) and row.spent == 0.25


@pytest.mark.req("KX.2")
def test_calls_blocked_by_a_limit_name_it_as_their_rule() -> None:
    run = run_of_script(said(*[ToolCall("add", {"a": n}) for n in range(3)]), said(Text("x")), max_tool_calls=1)
    assert list(tables.tool_calls(run).rule.fillna("")) == ["", "max_tool_calls", "max_tool_calls"]
    assert tables.runs(run).calls_blocked[0] == 2


@pytest.mark.req("KX.9")
def test_summary_has_a_usage_row_and_rows_add_up() -> None:
    run = summed_up()
    frame = tables.usage(run)
    assert list(frame.operation) == ["chat"] * 4 + ["compaction"] + ["chat"] * 2
    assert list(frame["round"]) == [1, 2, 3, 4, 5, 5, 6]
    assert run.cost == frame.cost.sum() == 1.625 and list(frame.cost)[4] == 0.125
    assert list(frame.attempts) == [1, 1, 1, 1, 2, 1, 1] and list(frame.waited)[4:6] == [2.0, 0.0]
    assert frame.error.isna().all() and frame.seconds.notna().all()
    assert (frame.started_at.diff().dropna() >= pd.Timedelta(0)).all()


@pytest.mark.req("KX.9")
def test_final_answer_call_at_a_limit_has_its_own_operation() -> None:
    run = run_of_script(*calls(2), said(Text("So far.")), max_rounds=2, on_limit="final_answer")
    assert list(tables.usage(run).operation) == ["chat", "chat", "final_answer"]


@pytest.mark.req("KX.9")
@pytest.mark.parametrize(
    ("reply", "why", "cost"),
    [(RuntimeError("away"), "RuntimeError: away", 0.0), (said(Text(" ")), "the model returned no summary", 0.25)],
)
def test_failed_summary_call_has_the_reason(reply: Any, why: str, cost: float) -> None:
    run = run_of_script(*calls(4), reply, said(Text("Done.")), history=SHORT)
    row = tables.usage(run).iloc[4]
    assert (row.operation, row.error, row.cost) == ("compaction", why, cost) and pd.isna(row.seconds)
    assert run.cost == tables.usage(run).cost.sum()


def test_summary_without_a_model_is_not_a_model_call() -> None:
    model = ScriptedModel([*[ToolCall("add", {"a": n}) for n in range(5)], "Done."])
    run = Agent(model, tools=[add], todos=False, guidance="off", history=SHORT).run_sync("Go")
    assert tables.runs(run).compactions[0] == 1 and set(tables.usage(run).operation) == {"chat"}


def test_rounds_mark_compactions_and_messages_table_stays_complete() -> None:
    run = summed_up()
    assert list(tables.rounds(run).compacted) == [False] * 4 + [True, False]
    assert tables.runs(run).compactions[0] == 1
    assert len(tables.messages(run)) == len(run.messages) == 12


@pytest.mark.req("KX.11")
def test_continued_run_is_marked_in_every_table(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = summed_up(store)
    cut_log(store.path(run.id), "compaction_started")
    left = tables.usage(store)
    assert list(left.operation)[-2:] == ["compaction", "chat"] and list(left.error)[-2:] == ["interrupted"] * 2
    model = Summing([said(Text("Sum."), cost=0.5), said(Text("Done."))])
    done = asyncio.run(recover(run.id, tools=[add], model=model, store=store))
    assert done.status == "completed"
    assert list(tables.rounds(done).recovered) == [False] * 4 + [True] and tables.runs(store).recovered[0] == 1
    frame = tables.usage(done)
    assert list(frame.operation) == ["chat"] * 4 + ["compaction", "compaction", "chat"]
    assert list(frame.error.fillna("")) == [""] * 4 + ["interrupted", "", ""]
    assert frame.cost.sum() == done.cost == 1.75


def test_attempts_of_a_stopped_summary_exclude_those_of_the_round() -> None:
    model = Summing([*calls(4), Streamed(Retry(1, 3.0, "busy", 529), FOREVER)])
    waits: queue.SimpleQueue[RetryScheduled] = queue.SimpleQueue()
    agent = Agent(model, tools=[add], todos=False, guidance="off", history=SHORT)
    live = agent.start("Go", watch=lambda item: waits.put(item) if isinstance(item, RetryScheduled) else None)
    waits.get(timeout=PATIENCE)
    live.stop()
    frame = tables.usage(live.result(PATIENCE))
    assert list(frame.operation)[-2:] == ["compaction", "chat"] and list(frame.error)[-2:] == ["cancelled"] * 2
    assert list(frame.waited)[-1] == 0.0


# The list of runs


@pytest.mark.req("KX.9")
def test_log_summary_counts_the_cost_of_compactions(tmp_path: Path) -> None:
    run = summed_up(Store(tmp_path))
    (one,) = Store(tmp_path).summaries()
    assert (one.cost, one.tokens, one.recovered) == (run.cost, 105, 0)


@pytest.mark.req("KX.2", "KX.11")
def test_run_list_names_the_limit_of_a_recovered_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = run_of_script(*calls(9), budget=0.5, store=store)
    cut_log(store.path(run.id), "tool_finished")
    (cut,) = store.summaries()
    assert "Interrupted" in history_text([cut], "") and "Interrupted" in run_list_html([cut])
    asyncio.run(recover(run.id, tools=[add], model=Summing(calls(9)), store=store))
    (one,) = store.summaries()
    text = history_text([one], "")
    assert "Limit reached: $0.50 " in text and text.endswith("(resumed)")
    html = history_html([one], "", lambda run_id: run_list_html([]))  # type: ignore[arg-type, return-value]
    assert "Limit reached: $0.50" in html and ">resumed<" in html
    assert "Limit reached: $0.50" in run_list_html([one]) and "resumed" in run_list_html([one])
    assert matches(one, ["budget"]) and matches(one, ["resumed", "limit reached"]) and not matches(one, ["max_rounds"])
    assert "Limit reached" in run_list_html([replace(one, stop_reason="odd")])


def test_call_refused_as_too_long_has_a_row_with_attempts() -> None:
    refused = Streamed(Retry(1, 2.0, "busy", 529), ContextOverflow("Too long"))
    again = Streamed(Retry(1, 3.0, "busy", 529), Retry(2, 4.0, "busy", 529), *calls(1))
    run = run_of_script(*calls(3), refused, said(Text("Sum."), cost=0.125), again, said(Text("Done.")), history="auto")
    found = tables.usage(run)[lambda frame: frame["round"] == 4]
    assert list(found.operation) == ["chat", "compaction", "chat"]
    assert (list(found.attempts), list(found.waited)) == ([2, 1, 3], [2.0, 0.0, 7.0])
    assert list(found.error.fillna("")) == [TOO_LONG, "", ""] and list(found.stop_reason.isna()) == [True, False, False]
    assert found.cost.isna().tolist() == [True, False, False]
    assert found.started_at.is_monotonic_increasing
    assert tables.runs(run).retries[0] == 3
