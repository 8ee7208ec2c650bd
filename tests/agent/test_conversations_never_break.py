"""However a turn ends, every provider accepts the next request."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from generated_conversations import WAYS, Conversation, Way, conversations
from hypothesis import HealthCheck, Phase, given, note, seed, settings
from hypothesis import strategies as st
from played_conversations import Played, Player, was_left
from playing_model import PlayingModel
from property_settings import AT_NIGHT
from request_promises import complaints
from run_checks import checked
from sent_requests import as_bytes, made_again

from agentnb import Run, Store
from agentnb.context.history_settings import as_sent_then
from agentnb.context.request_history import sent_requests
from agentnb.core.log.events import ContextCompacted, ToolStarted
from agentnb.core.messages import Message
from agentnb.core.request import Request
from agentnb.models import Model, Reply, make_model
from agentnb.testing import LoopbackServer
from agentnb.tools.read_result import READ_TOOL

HOW_MANY = int(os.environ.get("AGENTNB_CONVERSATIONS", "500" if AT_NIGHT else "84"))
"""Generated conversations over all ways; `make nightly` plays 5,000 more."""
quickly = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,  # shrinking a second one takes minutes
    phases=[Phase.generate, Phase.shrink],
)
PROVIDERS = ("anthropic", "openai", "openai-responses")


def assert_valid(model: PlayingModel) -> None:
    """Check each request against the rules of the providers and of agentnb."""
    assert model.errors == []
    for number, bodies in enumerate(model.bodies):
        for wire, raw in bodies.items():
            body = json.loads(raw)
            wrong = complaints(wire, body)
            if wrong:
                note(f"request {number} on the wire {wire}:\n{json.dumps(body, indent=1)[:6000]}")
            assert wrong == [], (wire, number)


def assert_made_again(run: Run, sent: list[Request]) -> None:
    """Check the requests rebuilt from the log; an unsent one may follow them."""
    again = made_again(run)
    assert len(again) - len(sent) in (0, 1)
    assert again[: len(sent)] == [as_bytes(request) for request in sent]


def assert_stable_prefix(run: Run) -> None:
    """Check that each request extends the previous one except its last message, unless compacted."""
    history = as_sent_then(run.settings.get("history"))
    if history.max_messages is not None or history.failed_rounds_above is not None:
        return
    for (_, before), (index, after) in pairwise(sent_requests(run)):
        settled = list(before.request.messages)[:-1]
        if not run.rounds[index].compactions:
            assert list(after.request.messages)[: len(settled)] == settled
            assert len(after.request.messages) >= len(before.request.messages)
        assert after.request.system == before.request.system
        assert after.request.tools[: len(before.request.tools)] == before.request.tools


def assert_whole(played: Played) -> None:
    """Check that an ended run is closed, answers each call once and equals its log."""
    run = played.whole
    if run is None:
        return
    checked(run)
    assert_made_again(run, played.model.requests)
    assert_stable_prefix(run)


def assert_continuable(played: Played) -> None:
    """Check that the run to continue from is a prefix of the reported events."""
    run = played.run
    if run is None or run is played.before:
        return
    if played.died is not None:
        assert_recovered(played, played.died, run)
    elif played.turn.way == "process killed":
        assert_rebuilt_until_crash(run, played.model.requests)
    elif played.turn.way != "disk full":
        checked(run)
        assert_made_again(run, played.model.requests)
        assert played.whole is None or run == played.whole


def assert_rebuilt_until_crash(run: Run, sent: list[Request]) -> int:
    """Check the requests before the crash; the last may lack some ephemeral text."""
    settled = made_again(run)
    if run.open_round is not None and run.open_round.reply is None:
        settled = settled[:-1]
    assert settled == [as_bytes(request) for request in sent[: len(settled)]]
    return len(settled)


def assert_recovered(played: Played, died: Run, run: Run) -> None:
    """Check that the recovered run ended, kept all reported events and did nothing twice."""
    assert played.recovering is not None
    checked(run)
    assert list(run.events)[: len(died.events)] == list(died.events)
    assert Run.from_events(run.events) == run == played.stored
    assert not [call_id for call_id, count in call_starts(run).items() if count > 1]
    settled = assert_rebuilt_until_crash(died, played.model.requests)
    again = made_again(run)
    since = [as_bytes(request) for request in played.recovering.requests]
    assert again[settled : settled + len(since)] == since
    assert len(again) - settled - len(since) in (0, 1)


def call_starts(run: Run) -> Counter[str]:
    """Count the starts of each call, except reads of truncated results."""
    begun = [event.call for event in run.events if isinstance(event, ToolStarted)]
    return Counter(call.id for call in begun if call.name != READ_TOOL)


def assert_prompts_are_sent(played: Played) -> None:
    """Check that the first request has the prompt, and earlier prompts if the history is full."""
    if not played.model.requests:
        return
    first = texts(played.model.requests[0].messages)
    assert played.turn.prompt.strip() in first
    history = dict(played.turn.settings).get("history")
    was_compacted = any(isinstance(item, ContextCompacted) for item in played.told)
    if history in (None, "full") and not was_compacted and played.before is not None and played.before.compacted is None:
        assert all(message.text.strip() in first for message in played.before.messages if message.role == "user")


def texts(messages: Any) -> str:
    return "\n".join(message.text for message in messages if isinstance(message, Message))


@pytest.fixture
def player(tmp_path: Path) -> Iterator[Player]:
    made = Player(Store(tmp_path / "runs"))
    yield made
    made.close()


def assert_never_broken(played: Played) -> None:
    assert_whole(played)
    assert_continuable(played)
    assert_prompts_are_sent(played)
    assert_valid(played.model)
    if played.recovering is not None:
        assert_valid(played.recovering)


@pytest.mark.req("R0.25", "R0.26", "R0.27", "R0.28", "R0.29", "R2.30", "KX.11")
@pytest.mark.parametrize("way", WAYS)
def test_interrupted_conversations_produce_valid_requests_on_every_wire(way: Way, player: Player) -> None:
    left: list[bool] = []

    @seed(WAYS.index(way))
    @settings(quickly, max_examples=-(-HOW_MANY // len(WAYS)))
    @given(conversations(way))
    def check(conversation: Conversation) -> None:
        for played in player.play(conversation):
            assert_never_broken(played)
            if played.turn.way == way:
                left.append(was_left(played))

    check()
    assert player.forgotten == []
    assert sum(left) * 3 >= len(left) > 0, "too few of the turns that were drawn for this way were left in it"


@pytest.mark.req("R0.25", "KX.11")
def test_strict_server_accepts_generated_conversations(player: Player) -> None:
    """Sends a sample through the providers' libraries."""
    sent: list[Request] = []

    @settings(quickly, max_examples=20 if AT_NIGHT else 10)
    @given(st.sampled_from(WAYS).flatmap(conversations))
    def collect(conversation: Conversation) -> None:
        sent.extend(played.model.requests[-1] for played in player.play(conversation) if played.model.requests)

    collect()
    with LoopbackServer(lambda body: "ok") as server:
        asyncio.run(_send(sent, [make_model(server.model(name)) for name in PROVIDERS]))
        refused = [request.problems for request in server.requests if request.problems]
    assert refused == []
    assert len(server.requests) == len(sent) * len(PROVIDERS) > 60


async def _send(requests: list[Request], models: list[Model]) -> None:
    for request in requests:
        for model in models:
            items = [item async for item in model.stream(request)]
            assert isinstance(items[-1], Reply) and items[-1].message.text == "ok"
