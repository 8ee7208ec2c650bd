"""The record of an agent's turns: batches of text, and usage by each agent's way of counting."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fork_server import ForkServer
from killed_kernels import Kernel, runs
from msgspec.structs import replace

from agentnb import Agent, Store, recover
from agentnb.acp.known_agents import KnownAgent
from agentnb.acp.turn_record import MAX_BATCH_CHARACTERS, MAX_UNKNOWN_KINDS, SECONDS_OF_BATCH, Pieces, Spending, UnknownUpdates
from agentnb.core.log.events import ReplyStreamed, TextDelta, ThinkingDelta
from agentnb.core.log.well_formed import check_events
from agentnb.core.messages import Text, Thinking
from agentnb.core.usage import UNKNOWN, Usage

Make = Callable[..., Agent]


def test_stream_batch_is_due_after_its_time_or_size() -> None:
    now = [10.0]
    pieces = Pieces(lambda: now[0])
    assert (pieces.due, pieces.is_due) == (None, False)
    pieces.add(ThinkingDelta("Hm"))
    pieces.add(TextDelta("a"))
    assert (pieces.due, pieces.is_due) == (10.0 + SECONDS_OF_BATCH, False)
    now[0] += SECONDS_OF_BATCH
    assert pieces.is_due
    assert pieces.batch({}).parts == (Thinking("Hm"), Text("a"))
    pieces.add(TextDelta("b" * MAX_BATCH_CHARACTERS))
    assert pieces.is_due
    assert pieces.batch({}).parts == (Text("b" * MAX_BATCH_CHARACTERS),)
    assert pieces.parts == (Thinking("Hm"), Text("a" + "b" * MAX_BATCH_CHARACTERS))


def test_many_streamed_pieces_are_batched_into_few_events(fake: Make) -> None:
    run = fake().run_sync("words")
    batches = [event for event in run.events if isinstance(event, ReplyStreamed)]
    assert run.text == "tok " * 5_000
    assert len(batches) < 1_000
    check_events(run.events, "the log")


@pytest.mark.skipif(os.name != "posix", reason="external agents run on POSIX systems only")
@pytest.mark.parametrize(
    "misbehaviour", ["forgetful", *[pytest.param(one, marks=pytest.mark.nightly("by day one")) for one in ("", "lost")]]
)
def test_content_streamed_before_the_process_died_is_logged(
    kernels: ForkServer, fake: Make, table: dict[str, KnownAgent], tmp_path: Path, misbehaviour: str
) -> None:
    kernel = Kernel(kernels, runs, tmp_path, "half", {})
    assert any(line.startswith(ReplyStreamed.__name__) for line in kernel.told)
    kernel.kill()
    store = Store(tmp_path / "runs")
    (cut,) = map(store.load, store.ids())
    assert (cut.status, cut.text, cut.last_round.stop_reason) == ("interrupted", "Half", "broken_off")
    table["fake"] = replace(table["fake"], command=(*table["fake"].command, misbehaviour))
    (tmp_path / "go").touch()
    again = asyncio.run(recover(cut.id, agent=fake(), store=store))
    # Loads the session and continues; without session loading the prompt is sent again.
    assert [current.text for current in again.rounds] == ["Half", "Half and half." if misbehaviour else ""]
    check_events(again.events, "the log")


@pytest.mark.parametrize(
    ("form", "is_loaded", "said", "counted"),
    [
        ("turn", False, [(12, 3), (7, 2)], [Usage(12, 3), Usage(7, 2)]),
        ("session", False, [(12, 3), (20, 5)], [Usage(12, 3), Usage(8, 2)]),
        ("session", False, [(12, 3), (5, 1), (9, 4)], [Usage(12, 3), UNKNOWN, Usage(4, 3)]),
        ("session", True, [(12, 3), (20, 5)], [UNKNOWN, Usage(8, 2)]),
        ("last_request", False, [(12, 3), (7, 2)], [UNKNOWN, UNKNOWN]),
        ("none", False, [(12, 3)], [UNKNOWN]),
        ("turn", False, [("x", -1)], [UNKNOWN]),
    ],
)
def test_tokens_are_counted_according_to_the_usage_setting(form: Any, is_loaded: bool, said: Any, counted: list[Usage]) -> None:
    spending = Spending(KnownAgent(command=("x",), usage=form), is_loaded=is_loaded)
    turns = [spending.tokens({"inputTokens": sent, "outputTokens": received})[0] for sent, received in said]
    assert [(usage.input, usage.output) for usage in turns] == [(usage.input, usage.output) for usage in counted]


@pytest.mark.parametrize(("total", "sent"), [(115, 112), (15, 12), (None, 12)])
def test_input_includes_cached_tokens(total: int | None, sent: int) -> None:
    reported = {"inputTokens": 12, "outputTokens": 3, "cachedReadTokens": 100, "totalTokens": total}
    usage, _ = Spending(KnownAgent(command=("x",), usage="turn")).tokens(reported)
    assert usage == Usage(sent, 3, 100)


def test_last_request_usage_is_read_as_the_conversation_length() -> None:
    spending = Spending(KnownAgent(command=("x",), usage="last_request"))
    assert spending.tokens({"inputTokens": 12, "outputTokens": 3}) == (UNKNOWN, {"context_tokens": 15})


@pytest.mark.parametrize(("form", "continued"), [("session", 0.75), ("process", None)])
def test_cost_is_the_increase_since_the_previous_report(
    fake: Make, table: dict[str, KnownAgent], form: Any, continued: float | None
) -> None:
    table["fake"] = replace(table["fake"], cost=form)
    first = fake().run_sync("spend", approve="auto")
    assert first.usage.cost == 0.75
    assert fake().run_sync("spend", approve="auto", continue_from=first).usage.cost == continued
    assert fake().run_sync("hello").usage.cost is None


def test_total_of_an_earlier_session_is_not_counted_again(fake: Make, table: dict[str, KnownAgent]) -> None:
    table["fake"] = replace(table["fake"], usage="session", command=(*table["fake"].command, "sums"))
    first = fake().run_sync("hello")
    second = fake().run_sync("hello", continue_from=first)
    assert (first.usage, second.usage.input) == (Usage(12, 3), None)


def test_number_of_unknown_update_kinds_is_bounded() -> None:
    updates = UnknownUpdates()
    for number in range(3 * MAX_UNKNOWN_KINDS):
        updates.take(f"kind-{number}", {"text": "x" * 10_000})
    kinds = updates.as_metadata()["unknown_updates"]
    assert sum(kind["count"] for kind in kinds.values()) == 3 * MAX_UNKNOWN_KINDS
    assert len(kinds) == MAX_UNKNOWN_KINDS + 1
    assert max(len(kind["first"]) for kind in kinds.values()) == 2_000
    assert updates.as_metadata() == {}


def test_usage_of_all_requests_is_added_up(fake: Make, table: dict[str, KnownAgent]) -> None:
    table["fake"] = replace(table["fake"], usage="requests")
    assert (fake().run_sync("metered").usage, fake().run_sync("hello").usage) == (Usage(200, 10), UNKNOWN)
