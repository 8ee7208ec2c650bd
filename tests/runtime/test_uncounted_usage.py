"""Token and cost limits for models that count no usage, or one side only."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_runs import bare, do, work
from summarising import Summarising

from agentnb import History, Store, load_trace, tables
from agentnb.core.messages import Message, Text, ToolCall
from agentnb.core.run.rounds import TOKENS_ESTIMATED
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.models.model import Reply
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.budget import Budget
from agentnb.runtime.host.run_options import RunOptions
from agentnb.testing import NOT_COUNTED, LoopbackServer, Miscount

WIRES = ("anthropic", "openai", "openai-responses", "compatible")
NO_COUNTS: dict[str, Any] = {
    "null": None,
    "left out": NOT_COUNTED,
    "negative": -5,
    "a text": "twelve",
    "endless": 10**30,
}
STREAMS = ["yes", pytest.param("no", marks=pytest.mark.nightly("by day replies are streamed"))]
WORDS = f"{'word' * 12} " * 40
ROUNDS = 30


def run_against(
    wire: str,
    stream: str = "yes",
    price: str | None = "3/15",
    session_budget: Budget | None = None,
    max_rounds: int = ROUNDS,
    **how: Any,
) -> Run:
    """Return a run with miscounted replies that each call a tool."""
    limits = {name: how.pop(name) for name in ("budget", "max_tokens", "unpriced") if name in how}

    def line(body: Any) -> Miscount:
        return Miscount([WORDS, ToolCall("work", {"n": len(str(body))})], **how)

    with LoopbackServer(line) as server:
        options = {"stream": stream} | ({"price": price} if price else {})
        agent = bare(server.model(wire, **options), [work], max_rounds=max_rounds, **limits)
        run = agent.start("Go.", RunOptions(budget=session_budget, can_ask=True)).result(60)
        assert len(server.requests) == len(run.rounds)
    assert Run.from_events(run.events) == run
    return run


def estimate_warnings(run: Run) -> list[str]:
    return [warning for warning in run.warnings if "does not report all the tokens" in warning]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("side", ["input", "output", "both"])
@pytest.mark.req("KX.2", "KX.9")
def test_budget_applies_when_the_server_omits_token_counts(wire: str, stream: str, side: str) -> None:
    how = dict.fromkeys(["input", "output"] if side == "both" else [side])
    run = run_against(wire, stream, budget=0.02, **how)
    assert (run.status, run.stop_reason) == ("limited", "budget")
    assert 1 < len(run.rounds) < 6 and run.cost is not None and 0.02 <= run.cost < 0.04
    assert all(round_.usage is not None and round_.usage.estimated for round_ in run.rounds)
    assert run.rounds[0].metadata[TOKENS_ESTIMATED] is True
    assert len(estimate_warnings(run)) == 1 and len(run.warnings) == 1
    assert tables.usage(run).estimated.all()


@pytest.mark.parametrize("wire", [pytest.param("anthropic", marks=pytest.mark.nightly("by day compatible")), "compatible"])
@pytest.mark.parametrize("kind", NO_COUNTS)
@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.req("KX.2")
def test_budget_applies_despite_any_invalid_token_count(wire: str, kind: str, side: str) -> None:
    run = run_against(wire, budget=0.02, **{side: NO_COUNTS[kind]})
    assert run.stop_reason == "budget" and len(run.rounds) < 6 and len(estimate_warnings(run)) == 1


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.req("KX.2")
def test_zero_usage_replies_are_estimated_and_spend_the_budget(wire: str) -> None:
    no_cache = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0} if wire == "anthropic" else {}
    run = run_against(wire, budget=0.02, input=0, output=0, more=no_cache)
    assert run.stop_reason == "budget" and len(run.rounds) < 6 and len(estimate_warnings(run)) == 1


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.req("KX.2")
def test_counts_reported_by_the_server_are_kept(wire: str) -> None:
    run = run_against(wire, budget=0.02, input=None, output=900)
    assert {round_.usage.output for round_ in run.rounds if round_.usage} == {900}
    assert all(round_.usage.input for round_ in run.rounds if round_.usage)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.req("KX.2")
def test_session_budget_applies_despite_missing_counts(wire: str) -> None:
    budget = Budget(0.02, name="session_budget")
    run = run_against(wire, session_budget=budget, input=None)
    assert (run.stop_reason, len(estimate_warnings(run))) == ("session_budget", 1)
    assert run.cost == pytest.approx(budget.spent)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("side", ["input", "output", "both"])
@pytest.mark.req("KX.2")
def test_max_tokens_applies_with_missing_counts_and_no_price(wire: str, stream: str, side: str) -> None:
    how = dict.fromkeys(["input", "output"] if side == "both" else [side])
    run = run_against(wire, stream, None, max_tokens=2_000, **how)
    assert (run.status, run.stop_reason) == ("limited", "max_tokens") and 1 < len(run.rounds) < 6
    assert run.usage.estimated and run.cost is None and len(estimate_warnings(run)) == 1


@pytest.mark.req("KX.2")
def test_cached_tokens_reported_beside_input_keep_the_cost_known() -> None:
    run = run_against("compatible", budget=0.02, input=10, more={"prompt_tokens_details": {"cached_tokens": 2_000}})
    assert run.stop_reason == "budget" and run.rounds[0].usage is not None and run.rounds[0].usage.input == 2_010


def test_missing_counts_cause_no_warning_without_a_limit() -> None:
    run = run_against("compatible", input=None, max_rounds=5)
    assert (run.stop_reason, run.warnings) == ("max_rounds", ()) and run.cost


def test_ignored_budget_without_a_price_gives_no_warning() -> None:
    run = run_against("compatible", price=None, budget=0.02, unpriced=True, input=None, max_rounds=9)
    assert (run.stop_reason, run.warnings, run.usage.input) == ("max_rounds", (), None)


@pytest.mark.req("KX.2")
def test_max_tokens_applies_to_model_objects_with_invalid_counts(tmp_path: Any) -> None:
    for usage in (Usage(), Usage(-5, 3), Usage("many", 3), Usage(7, None)):  # type: ignore[arg-type]
        replies = [Reply(Message("assistant", (Text(WORDS), do(number))), usage) for number in range(ROUNDS)]
        store = Store(tmp_path)
        run = bare(ScriptedModel(replies), [work], max_tokens=2_000).run_sync("go", store=store)
        assert run.stop_reason == "max_tokens" and len(run.rounds) < 6 and len(estimate_warnings(run)) == 1
        assert load_trace(store.path(run.id)) == run


@pytest.mark.req("KX.2", "KX.9")
def test_summaries_count_towards_max_tokens() -> None:
    model = Summarising([do(number) for number in range(9)], [WORDS * 20])
    run = bare(model, [work], max_tokens=10_000, history=History(compact_above=5, keep_recent=2)).run_sync("go")
    assert run.stop_reason == "max_tokens" and any(round_.compactions for round_ in run.rounds)


@pytest.mark.req("KX.2")
def test_model_object_reporting_no_cost_warns_once_under_a_budget() -> None:
    replies = [Reply(Message("assistant", (do(number),)), Usage(10, 10)) for number in range(3)]
    run = bare(Summarising([*replies, "Done."]), [work], budget=1.0).run_sync("go")
    assert len(run.warnings) == 1 and "does not report the cost of its calls" in run.warnings[0]
    assert run.warned[0].advice and "State a price" not in run.warned[0].message


def test_fully_counted_usage_is_not_estimated() -> None:
    run = run_against("compatible", budget=0.02, max_tokens=10**6)
    assert run.stop_reason == "budget" and not run.usage.estimated and run.warnings == ()
