"""Endless replies: counted while they stream, and cut off at the run's limit or the model maximum."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from property_settings import AT_NIGHT, size
from scripted_runs import bare, do, work
from summarising import Summarising
from waiting import wait_until

from agentnb import History, Run, Store, load_trace
from agentnb.core.log.events import TextDelta, ThinkingDelta
from agentnb.core.messages import Message, Text, Thinking, ToolCall, user
from agentnb.core.request import Request
from agentnb.errors import BrokenReply
from agentnb.models.estimate import CHARACTERS_A_TOKEN
from agentnb.models.model import Reply, Retry, StreamItem, Unshown
from agentnb.models.provider import PART, Reading
from agentnb.models.registry import REMOTE
from agentnb.policies.ending import OVER_LIMIT
from agentnb.runtime.budget import Budget
from agentnb.runtime.defaults import MARGIN, SPARE, SPARE_OF_AN_END
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.replies import reply_limit
from agentnb.runtime.replies.reply_limit import OverLimit, ReplyLimit
from agentnb.testing import Endless, LoopbackServer

WIRES = ("anthropic", "openai", "openai-responses", "compatible")
LINES: dict[str, Any] = {
    "text": "One two three four",
    "thinking": [Thinking("Let me see now")],
    "arguments": ToolCall("work", {"n": 1, "why": "a long argument, and another one"}),
}
MOST = (MARGIN * 300 + SPARE) * CHARACTERS_A_TOKEN
"""Characters after which a reply is cut off with 300 tokens left."""
MUCH = f"{'word' * 12} " * 200
ASKED = Request("", [user("Go.")])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.req("KX.2")
def test_endless_reply_is_cut_off_at_the_run_limit(wire: str, subtests: pytest.Subtests, tmp_path: Any) -> None:
    limits: dict[str, dict[str, Any]] = {"max_tokens": {"max_tokens": 300}, "budget": {"budget": 0.0045}}
    for what, line in LINES.items():
        for reason, settings in limits.items() if AT_NIGHT or what == "text" else [*limits.items()][:1]:
            with subtests.test(what, limit=reason):
                store = Store(tmp_path / what / reason)
                with LoopbackServer([Endless(line)]) as server:
                    run = bare(server.model(wire, price="3/15"), [work], **settings).run_sync("go", store=store)
                    wait_until(lambda: server.requests[0].hung_up)  # called before the next chunk
                assert (run.status, run.stop_reason, len(run.rounds)) == ("limited", reason, 1)
                assert run.rounds[0].stop_reason == OVER_LIMIT and not run.rounds[0].calls
                assert len(run.text) <= MOST + 1_000 and bool(run.text) == (what == "text")
                assert run.usage.estimated and SPARE < (run.usage.output or 0) < 2 * MOST / CHARACTERS_A_TOKEN and run.cost
                assert len(run.warnings) == 1 and "its reply was cut off" in run.warnings[0]
                assert load_trace(store.path(run.id)) == run


@pytest.mark.parametrize("wire", WIRES)
def test_endless_reply_without_limit_is_cut_off_at_model_maximum(
    wire: str, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_limit, "MAX_REPLY", 3_000)
    for what, line in [*LINES.items()][:: size(2, nightly=1)]:
        with subtests.test(what), LoopbackServer([Endless(line)]) as server:
            with pytest.raises(BrokenReply, match=r"was endless: it was cut off after 1\d,\d+ characters") as caught:
                bare(server.model(wire, price="3/15"), [work]).run_sync("go")
            run = caught.value.run
            assert isinstance(run, Run) and run.status == "failed" and len(server.requests) == 1
            assert run.usage.estimated and (run.usage.output or 0) >= 3_000


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.req("KX.9")
def test_stop_ends_an_endless_reply_with_an_estimate(
    wire: str, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = ReplyLimit.count
    for what, line in LINES.items():
        with subtests.test(what), LoopbackServer([Endless(line)]) as server, monkeypatch.context() as patch:
            came = threading.Event()

            def counted(limit: ReplyLimit, characters: int, came: threading.Event = came) -> None:
                count(limit, characters)
                if limit._count > 2_000:
                    came.set()

            patch.setattr(ReplyLimit, "count", counted)
            live = bare(server.model(wire, price="3/15"), [work]).start("go")
            assert came.wait(30)
            live.stop("enough")
            run = live.result(10)
            assert (run.status, run.rounds[0].status) == ("cancelled", "cancelled")
            assert run.usage.estimated and (run.usage.output or 0) > 500 and run.cost


def endless_parts(wire: str) -> list[dict[str, Any]]:
    """Chunks that each begin an empty part."""
    numbers = range(1_000)
    if wire == "anthropic":
        return [{"type": "content_block_start", "index": one, "content_block": {"type": "text", "text": ""}} for one in numbers]
    if wire == "openai-responses":
        return [{"type": "response.output_item.done", "output_index": one, "item": {"type": "message"}} for one in numbers]
    calls = [{"index": one, "id": f"c{one}", "function": {"name": "f"}} for one in numbers]
    return [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]} for call in calls]


def test_empty_parts_count_towards_the_reply_limit(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            reading: Reading = REMOTE[wire].reading()
            for chunk in endless_parts(wire):
                list(reading.take(chunk))
            assert reading.unshown >= 1_000 * PART
    with subtests.test("one call under many numbers"):
        reading = REMOTE["compatible"].reading()
        for index in range(1_000):
            list(reading.take({"choices": [{"delta": {"tool_calls": [{"index": index, "id": "c", "function": {}}]}}]}))
        assert reading.unshown >= 1_000 * PART
    with subtests.test("a signature"):
        reading = REMOTE["anthropic"].reading()
        piece = {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "x" * 400}}
        for _ in range(1_000):
            list(reading.take(piece))
        assert reading.unshown >= 1_000 * PART


def test_arguments_count_towards_the_limit_by_length(subtests: pytest.Subtests) -> None:
    text = "x" * 5_000
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": text}}
    chunks: dict[str, list[dict[str, Any]]] = {
        "anthropic": [
            {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c", "name": "f"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": text}},
        ],
        "openai": [{"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}],
        "openai-responses": [{"type": "response.function_call_arguments.delta", "delta": text}],
    }
    for wire, some in chunks.items():
        with subtests.test(wire):
            reading: Reading = REMOTE[wire].reading()
            for chunk in some:
                list(reading.take(chunk))
            assert 5_000 <= reading.unshown < 5_500


class Own:
    """A model object that yields these items again and again."""

    name = "own:model"

    def __init__(self, *items: StreamItem, times: int = 10**9) -> None:
        self._items, self._times, self.closed = items, times, False

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        try:
            for _ in range(self._times):
                for item in self._items:
                    yield item
            yield Reply(Message("assistant", (Text("Done."),)))
        finally:
            self.closed = True


def test_endless_reply_of_a_model_object_is_cut_off(subtests: pytest.Subtests) -> None:
    for item in (TextDelta("word "), ThinkingDelta("hm "), Unshown(5)):
        with subtests.test(item=item):
            model = Own(item)
            run = bare(model, max_tokens=1_000).run_sync("go")
            assert (run.stop_reason, len(run.rounds), model.closed) == ("max_tokens", 1, True)


def test_retried_attempt_restarts_the_count() -> None:
    model = Own(TextDelta("x" * 3_000), TextDelta("x" * 3_000), Retry(1, 0.0, "again"), times=9)
    assert bare(model, max_tokens=1_000).run_sync("go").text == "Done."


def test_reply_in_one_piece_is_never_cut_off(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire), LoopbackServer([MUCH]) as server:
            run = bare(server.model(wire, stream="no"), max_tokens=100).run_sync("go")
            assert run.text.strip() == MUCH.strip()
    assert bare(Own(TextDelta(MUCH), times=1), max_tokens=100).run_sync("go").text == "Done."


def test_reply_slightly_over_the_limit_is_kept_in_full() -> None:
    text = "word " * 1_000
    with LoopbackServer([text]) as server:
        run = bare(server.model("compatible"), max_tokens=500).run_sync("go")
    assert run.text == text


def test_final_answer_may_exceed_the_limit(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire), LoopbackServer([ToolCall("work", {"n": 1}), MUCH]) as server:
            agent = bare(server.model(wire), [work], max_tokens=10, on_limit="final_answer")
            assert agent.run_sync("go").text == MUCH


def test_endless_summary_is_dropped_with_a_warning() -> None:
    class Rambling(Summarising):
        async def stream(self, request: Request) -> Any:
            if request.system == "":
                async for item in super().stream(request):
                    yield item
                return
            while True:
                yield TextDelta("word ")

    settings: dict[str, Any] = {"history": History(compact_above=5, keep_recent=2), "system": "", "instructions": False}
    run = bare(Rambling([do(1), do(2), do(3), "Done."]), [work], max_tokens=10_000, **settings).run_sync("go")
    assert run.text == "Done." and any("far exceeded a limit" in warning for warning in run.warnings)


def test_raised_limit_lets_the_run_continue() -> None:
    session = Budget(0.01, name="session_budget")

    def watch(item: Any) -> None:
        if type(item).__name__ == "ModelReplied":
            session.limit = 5.0

    with LoopbackServer([Endless(LINES["text"]), "Done."]) as server:
        options = RunOptions(budget=session, watch=watch)
        run = bare(server.model("compatible", price="3/15")).start("go", options).result(30)
    assert (run.status, [round_.stop_reason for round_ in run.rounds]) == ("completed", [OVER_LIMIT, "stop"])


def test_count_is_checked_at_growing_intervals() -> None:
    looks = 0

    class Watched(ReplyLimit):
        def _look(self) -> None:
            nonlocal looks
            looks += 1
            super()._look()

    limit = Watched(Own(), ASKED, Run(), Budget(), (), comes_after_limit=False)
    with pytest.raises(BrokenReply):
        for _ in range(10**6):
            limit.count(10)
    assert looks < 15
    with pytest.raises(OverLimit):
        spent = ReplyLimit(Own(), ASKED, Run(), Budget(), [reply_limit.MaxTokens(10)], comes_after_limit=False)
        for _ in range(10**5):
            spent.count(1)


@pytest.mark.req("KX.2")
def test_each_attempt_is_counted_separately_from_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt is within the limit for a reply or summary; both together exceed it."""
    monkeypatch.setattr(reply_limit, "MAX_REPLY", SPARE_OF_AN_END + 4_000)

    class Retried(Summarising):
        async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
            for attempt in (1, 2):
                for _ in range(4):
                    yield TextDelta("x" * int((SPARE_OF_AN_END + 2_000) * CHARACTERS_A_TOKEN / 4))
                if attempt == 1:
                    yield Retry(1, 0.0, "It broke off")
            async for item in super().stream(request):
                yield item

    small = History(compact_above=5, keep_recent=2)
    run = bare(Retried([do(1), do(2), do(3), "Done."]), [work], history=small).run_sync("go")
    assert (run.status, run.text, len(run.rounds), list(run.warnings)) == ("completed", "Done.", 4, [])
    assert run.compacted is not None and [compaction.problem for round_ in run.rounds for compaction in round_.compactions] == [
        ""
    ]
