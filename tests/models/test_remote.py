"""A model behind a provider's API, on the wire: what is tried again, what is told, and how it is stopped."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as with_changes
from itertools import product
from typing import Any

import pytest
from fake_time import LIMIT
from loopback_thread import Handler, LoopbackThread
from msgspec.structs import replace
from quick_models import FORMATS, NEVER, QUICK, REQUEST, WIRES, ask, items_into, items_of, quick, reply_of

from agentnb import Agent
from agentnb.core.log.events import TextDelta
from agentnb.core.messages import ToolCall
from agentnb.core.run.rounds import CONTEXT_TOKENS
from agentnb.core.usage import Usage
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.errors import (
    BrokenReply,
    ContextOverflow,
    KeyRefused,
    ModelError,
    ProviderTrouble,
    RateLimited,
    RequestRefused,
    SettingsError,
)
from agentnb.models import Reply, Retry
from agentnb.models.defaults import MAX_TURNS
from agentnb.models.estimate import tokens_of_message, tokens_of_request
from agentnb.models.options import Options
from agentnb.models.registry import REMOTE, endpoint_of
from agentnb.models.transport.remote import models_of
from agentnb.models.transport.retry import RetryPolicy
from agentnb.testing import (
    Answer,
    BrokenJson,
    Cut,
    EndEarly,
    ErrorInStream,
    LoopbackServer,
    Misbehaviour,
    NotJson,
    Sloppy,
    Stall,
    Status,
    overflow,
)
from agentnb.testing.replies.reply_format import Asked, Delivery, Wire

CARELESS = ("openai", "compatible", "ollama")
"""Those of whose servers some report no usage."""


def retries_of(told: list[Any]) -> list[Retry]:
    return [item for item in told if isinstance(item, Retry)]


# What is tried again


@pytest.mark.req("R0.10", "R2.40", "KX.3")
def test_the_server_sees_one_request_for_each_attempt(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([Status(500), Status(429), Status(529), "Here."]) as server:
                told = ask(server, wire, stream=stream)
            assert told[-1].message.text == "Here."
            assert [(one.attempt, one.status) for one in retries_of(told)] == [(1, 500), (2, 429), (3, 529)]
            assert [one.answered for one in server.requests] == [500, 429, 529, 200]
            assert len({one.raw for one in server.requests}) == 1


@pytest.mark.req("KX.3", "K0.12")
def test_without_retries_of_ours_there_are_none(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            statuses = [408, 409, 429, 500, 503, 529]
            with LoopbackServer([Status(status) for status in statuses] + ["never"]) as server:
                errors = refusals(server, wire, stream, NEVER, len(statuses))
            assert [one.answered for one in server.requests] == statuses
            assert [f"({status}" in error.what for status, error in zip(statuses, errors, strict=True)] == [True] * 6


def refusals(server: LoopbackServer, wire: str, stream: str, retries: RetryPolicy, count: int) -> list[ModelError]:
    """The errors of so many calls, one after the other."""

    async def some() -> list[ModelError]:
        model = quick(server.model(wire, stream=stream), retries)
        errors = []
        for _ in range(count):
            with pytest.raises(ModelError) as caught:
                await items_of(model)
            errors.append(caught.value)
        return errors

    return asyncio.run(some())


@pytest.mark.req("R0.78", "R2.40", "K0.12")
def test_a_call_ends_after_so_many_attempts(subtests: pytest.Subtests) -> None:
    for wire, (status, attempts, kind) in product(WIRES, [(429, 6, RateLimited), (503, 5, ProviderTrouble)]):
        with subtests.test(wire=wire, status=status):
            with LoopbackServer([Status(status)] * 20) as server:
                told = ask(server, wire)
            assert len(server.requests) == attempts == len(told)
            assert isinstance(told[-1], kind) and f"({status}, " in told[-1].what.replace(f"({status})", f"({status}, ")


@pytest.mark.req("R2.40")
def test_what_the_provider_would_refuse_again_is_sent_once(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            statuses = [400, 401, 402, 403, 404, 413, 422]
            with LoopbackServer([Status(status) for status in statuses] + ["never"]) as server:
                errors = refusals(server, wire, stream, QUICK, len(statuses))
            assert [one.answered for one in server.requests] == statuses
            assert [f"({status}" in error.what for status, error in zip(statuses, errors, strict=True)] == [True] * 7


def test_an_account_without_credit_is_asked_once(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([Status(429, type="insufficient_quota")] * 3) as server:
                told = ask(server, wire)
            assert len(server.requests) == 1 and "no credit left" in told[0].what


@dataclass(frozen=True)
class Gone(Misbehaviour):
    """A reply that begins, and then these bytes."""

    end: bytes

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        good = wire.deliver(Answer("Hello"), asked)
        return with_changes(good, chunks=[*good.chunks[:2], self.end])


def test_words_of_an_error_between_events_are_kept_on_each_wire(subtests: pytest.Subtests) -> None:
    ends = [
        b"upstream is gone\n",
        b"event: error\ndata: upstream is gone\n\n",
        b'data: {"error": {"message": "upstream is gone"}}\n\n',
        b'{"error": "upstream is gone"}\n',
    ]
    for wire, end in product(FORMATS, ends):
        with subtests.test(wire=wire, end=end), LoopbackServer([Gone(end), "Here."]) as server:
            told = ask(server, wire)
            assert [retry.reason.endswith("upstream is gone") for retry in retries_of(told)] == [True]


@pytest.mark.req("R2.40")
def test_a_provider_that_says_not_to_try_again_is_obeyed(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([Status(500, headers={"x-should-retry": "false"})] * 3) as server:
                assert len(ask(server, wire)) == 1 == len(server.requests)


@pytest.mark.slow("loads the libraries of the providers, where it is the first to")
@pytest.mark.req("R2.40")
def test_the_time_that_the_provider_asks_for_is_waited(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            at: list[float] = []
            lines = [Status(429, headers={"retry-after-ms": "50"}), "Here."]
            with LoopbackServer([noted(at, line) for line in lines]) as server:
                (retry,) = retries_of(ask(server, wire))
            assert retry.seconds >= 0.05 and at[1] - at[0] >= 0.05


def noted(at: list[float], line: Any) -> Any:
    """The line, of which is noted when it was asked for."""
    return lambda body: at.append(time.monotonic()) or line


@pytest.mark.req("R2.40", "K0.12")
def test_a_provider_that_asks_for_too_long_a_wait_ends_the_call_at_once(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([Status(429, retry_after=3600)] * 3) as server:
                told = ask(server, wire)
            assert len(server.requests) == 1 and isinstance(told[0], RateLimited)


BROKEN = {
    "a page of a gateway": (lambda: NotJson(502), ProviderTrouble),
    "cut before any answer": (lambda: Cut(after=0), ProviderTrouble),
    "cut in the middle": (lambda: Cut(), ProviderTrouble),
    "torn down in the middle": (lambda: Cut(reset=True), ProviderTrouble),
    "broken JSON": (lambda: BrokenJson(3), BrokenReply),
    "an error inside": (lambda: ErrorInStream(), ProviderTrouble),
    "a limit inside": (lambda: ErrorInStream("rate_limit_error"), RateLimited),
    "silence before any answer": (lambda: Stall(after=0), ProviderTrouble),
    "silence in the middle": (lambda: Stall(), ProviderTrouble),
}


@pytest.mark.slow("many ways to break a reply, on each wire")
@pytest.mark.req("R2.40")
@pytest.mark.usefixtures("skipped_silence")
def test_whatever_breaks_a_reply_is_tried_again_and_then_is_a_clear_error(subtests: pytest.Subtests) -> None:
    for wire, stream, broken in product(FORMATS, ["yes", "no"], BROKEN):
        with subtests.test(wire=wire, stream=stream, broken=broken):
            make, kind = BROKEN[broken]
            options = {"stream": stream, "timeout": LIMIT} if "silence" in broken else {"stream": stream}
            with LoopbackServer([make(), "Here and whole."]) as server:
                told = ask(server, wire, **options)
            (retry,) = retries_of(told)
            assert told[-1].message.text == "Here and whole." and len(server.requests) == 2
            assert retry.reason.startswith(f"{wire}: ")
            begun = told[told.index(retry) + 1 : -1]
            assert "".join(item.text for item in begun) == "Here and whole."
            with LoopbackServer([make()] * 2) as server:
                told = ask(server, wire, NEVER, **options)
            assert isinstance(told[-1], kind) and not retries_of(told)
            assert told[-1].what == retry.reason and told[-1].hint and "\n" not in str(told[-1])


def test_a_reply_that_ends_in_order_before_its_end_is_cut_off(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([EndEarly(1, "One two three"), EndEarly(1, "One two three")]) as server:
                told = ask(server, wire, NEVER)
            assert isinstance(told[-1], ProviderTrouble) and "ended before the reply did" in told[-1].what


def test_a_page_with_status_200_is_no_reply(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([NotJson(200)] * 2) as server:
                told = ask(server, wire, NEVER, stream=stream)
            assert isinstance(told[-1], ProviderTrouble | BrokenReply) and told[-1].hint


def test_a_conversation_that_is_too_long_is_sent_once(subtests: pytest.Subtests) -> None:
    servers = [*product(FORMATS, [False]), *product(["ollama", "compatible"], [True])]
    for (wire, minimal), stream in product(servers, ["yes", "no"]):
        with subtests.test(wire=wire, minimal=minimal, stream=stream):
            with LoopbackServer([overflow()] * 2, minimal=minimal) as server:
                told = ask(server, wire, stream=stream)
            assert len(server.requests) == 1 and isinstance(told[0], ContextOverflow)


def test_an_overflow_inside_a_stream_is_not_sent_again(subtests: pytest.Subtests) -> None:
    for failed, stream in product([False, True], ["yes", "no"]):
        with subtests.test(failed=failed, stream=stream):
            with LoopbackServer([ErrorInStream("context_length_exceeded", 1, failed=failed)] * 2) as server:
                told = ask(server, "openai-responses", stream=stream)
            if stream == "yes":
                assert len(server.requests) == 1 and isinstance(told[-1], ContextOverflow)


def test_a_refused_key_is_told_without_it(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("MY_KEY", "sk-wrong-0123456789")
            with LoopbackServer(["Here."], key="sk-right-0123456789") as server:
                told = ask(server, wire, key="MY_KEY")
            assert isinstance(told[0], KeyRefused) and in_notebook(told[0].advice) == "Type in another: %agent key MY_KEY"
            assert "0123456789" not in str(told[0]) and len(server.requests) == 1
            monkeypatch.setenv("MY_KEY", "sk-right-0123456789")
            with LoopbackServer(["Here."], key="sk-right-0123456789") as server:
                assert ask(server, wire, key="MY_KEY")[-1].message.text == "Here."


def test_a_server_on_this_machine_that_is_not_running_is_said_so_at_once(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer() as server:
                name, url = server.model(wire), server.url if wire == "anthropic" else f"{server.url}/v1"
            (error,) = ask_name(name)
            assert isinstance(error, ProviderTrouble)
            assert str(error) == f"{wire}: nothing answers at {url}. Start the server there, or name another with url=URL"


def ask_name(name: str) -> list[Any]:
    try:
        return asyncio.run(items_of(quick(name)))
    except ModelError as error:
        return [error]


def test_whole_and_streamed_are_the_same_reply(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            script = [
                ["Zwei  Wörter 👀\n", ToolCall("add", {"a": [1, {"b": None}]}), ToolCall("add", {})],
                "Plain.",
                Answer(["Cut"], "max_tokens"),
            ]
            with LoopbackServer(script) as streamed, LoopbackServer(script) as whole:
                for _ in script:
                    one, other = ask(streamed, wire)[-1], ask(whole, wire, stream="no")[-1]
                    assert (without_ids(one), one.stop_reason, one.usage) == (
                        without_ids(other),
                        other.stop_reason,
                        other.usage,
                    )
                    assert one.metadata.keys() == other.metadata.keys()


def without_ids(reply: Reply) -> list[Any]:
    return [replace(part, id="") if isinstance(part, ToolCall) else part for part in reply.message.parts]


# What is no stream, although one was asked for


@contextmanager
def serving(status: int, body: bytes = b"", kind: str = "", **headers: str) -> Iterator[tuple[str, list[Any]]]:
    """A server that answers everything alike: its URL, and the headers of what it was asked."""
    asked: list[Any] = []

    class Alike(Handler):
        def do_GET(self) -> None:
            asked.append(dict(self.headers))
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.reply(status, body, **headers, **({"Content-Type": kind} if kind else {}))

        do_POST = do_GET  # so the library wants it

    with LoopbackThread(Alike) as server:
        yield f"http://127.0.0.1:{server.port}", asked


def ask_at(url: str, wire: str, stream: str = "yes") -> Any:
    """What comes last of one call."""
    told: list[Any] = []
    try:
        told += asyncio.run(items_of(quick(f"{wire}:m?url={url}&stream={stream}")))
    except ModelError as error:
        told.append(error)
    return told[-1]


def test_no_redirect_is_followed(subtests: pytest.Subtests) -> None:
    for wire, stream, status in product(FORMATS, ["yes", "no"], [301, 302, 303, 307, 308]):
        with subtests.test(wire=wire, stream=stream, status=status):
            with serving(200) as (other, asked_there), serving(status, Location=f"{other}/v1?key=1") as (url, asked):
                error = ask_at(url, wire, stream)
                provider = REMOTE[wire]
                with pytest.raises(RequestRefused, match="redirects to"):
                    asyncio.run(models_of(provider, endpoint_of(provider, Options(url=url), by_person=True)))
            assert isinstance(error, RequestRefused) and f"redirects to {other}/v1," in error.what
            assert len(asked) == 2 and not asked_there


HTML, JSON = "text/html; charset=utf-8", "application/json"
INSTEAD: dict[str, tuple[int, bytes, str, str]] = {
    "a page": (200, b"<html><p>Hello</p></html>", HTML, "sent a web page instead of a reply"),
    "nothing": (204, b"", "", "sent nothing instead of a reply"),
    "text": (200, b"Hello", "text/plain", "sent text (Hello) instead of a reply"),
    "other JSON": (200, b'{"hello": 1}', JSON, "sent other JSON ({'hello': 1}) instead of a reply"),
    "a status": (200, b'{"status": "ok"}', JSON, "sent other JSON ({'status': 'ok'}) instead of a reply"),
    "a list": (200, b"[1]", JSON, "sent other JSON (1) instead of a reply"),
}


@pytest.mark.slow("loads the libraries of the providers, where it is the first to")
def test_what_is_neither_a_stream_nor_a_reply_is_told_at_once(subtests: pytest.Subtests) -> None:
    for wire, stream, sent in product(FORMATS, ["yes", "no"], INSTEAD):
        with subtests.test(wire=wire, stream=stream, sent=sent):
            status, body, kind, told = INSTEAD[sent]
            with serving(status, body, kind) as (url, asked):
                error = ask_at(url, wire, stream)
            assert isinstance(error, BrokenReply) and told in error.what and url in error.what and "/v1" in error.hint
            assert len(asked) == 1


def test_an_error_that_comes_as_a_reply_is_told_in_its_words(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with serving(200, b'{"error": {"type": "invalid_request_error", "message": "No such thing."}}', JSON) as (
                url,
                asked,
            ):
                error = ask_at(url, wire, stream)
            assert isinstance(error, RequestRefused) and "No such thing." in error.what and len(asked) == 1
            with serving(200, b'{"error": "Boom."}', JSON) as (url, _):
                assert "Boom." in ask_at(url, wire, stream).what


@pytest.mark.slow("many forms of errors, on each wire")
def test_an_error_is_told_in_its_words_whatever_its_form(subtests: pytest.Subtests) -> None:
    cases = [b'{"error": "Boom."}', b'{"detail": "Boom."}', b"Boom.", b"<p>Boom.</p>"]
    for wire, stream, body in product(FORMATS, ["yes", "no"], cases):
        with subtests.test(wire=wire, stream=stream, body=body):
            with serving(400, body, JSON if body[:1] == b"{" else HTML) as (url, _):
                error = ask_at(url, wire, stream)
            assert error.what == f"{wire}: refuses the request (400): Boom."
            with serving(418, b"", HTML) as (url, _):
                assert ask_at(url, wire, stream).what == f"{wire}: refuses the request (418)"


WHOLE: dict[str, Any] = {
    "anthropic": {"content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn", "usage": {"output_tokens": 1}},
    "openai": {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]},
    "openai-responses": {
        "status": "completed",
        "error": None,
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}],
    },
}


def test_a_server_that_sends_the_reply_whole_although_asked_to_stream_is_understood(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            body = json.dumps(WHOLE.get(wire, WHOLE["openai"])).encode()
            with serving(200, body, JSON) as (url, _):
                assert ask_at(url, wire, stream).message.text == "Hi."


def test_a_stream_under_the_wrong_name_is_read() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]}
    for kind in (JSON, "text/plain", "text/html", ""):
        with serving(200, f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode(), kind) as (url, _):
            assert ask_at(url, "compatible").message.text == "Hi."


def test_a_key_that_the_server_repeats_is_in_no_word_of_ours(subtests: pytest.Subtests) -> None:
    for wire in FORMATS:
        with subtests.test(wire), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("MY_KEY", "own-never-to-be-seen-0123456789")
            for status in (401, 429):
                body = json.dumps({"error": {"message": "Bad: own-never-to-be-seen-0123456789"}}).encode()
                with serving(status, body, JSON) as (url, _):
                    told: list[Any] = []
                    with pytest.raises(ModelError) as caught:
                        asyncio.run(items_into(told, quick(f"{wire}:m?url={url}&key=MY_KEY")))
                    told.append(caught.value)
                    provider = REMOTE[wire]
                    with pytest.raises(ModelError) as caught:
                        asyncio.run(models_of(provider, endpoint_of(provider, Options(url=url, key="MY_KEY"), by_person=True)))
                assert "never" not in repr(told) + repr(caught.value) and len(retries_of(told)) == (0 if status == 401 else 5)
                for error in (told[-1], caught.value):
                    assert error.__cause__ is None and error.__context__ is None and "Bad: [key]" in error.what


# A reply in several turns


PAUSED = Answer(["First ", "half, "], "pause_turn", Usage(100, 10))
REST = Answer(["second half."], usage=Usage(200, 20))


@pytest.mark.req("K2.1")
def test_a_reply_that_was_paused_goes_on_and_is_one(subtests: pytest.Subtests) -> None:
    for stream in ["yes", "no"]:
        with subtests.test(stream):
            with LoopbackServer([PAUSED, PAUSED, REST]) as server:
                told = ask(server, "anthropic", stream=stream)
            reply = told[-1]
            assert [type(item) for item in told].count(Reply) == 1
            assert reply.message.text == "First half, First half, second half." and reply.stop_reason == "end_turn"
            assert (reply.usage.input, reply.usage.output) == (400, 40)
            assert reply.metadata[CONTEXT_TOKENS] == 220  # of the last turn alone: the others are in it
            assert "".join(item.text for item in told if isinstance(item, TextDelta)) == reply.message.text
            sent = [[message["role"] for message in one.body["messages"]] for one in server.requests]
            assert sent == [["user"], ["user", "assistant"], ["user", "assistant", "assistant"]]
            assert server.requests[1].body["messages"][1]["content"][0]["text"] == "First "


@pytest.mark.req("K2.1")
def test_a_reply_that_was_paused_with_calls_is_the_reply_for_they_must_be_answered() -> None:
    paused = Answer(["So", ToolCall("add", {"a": 1}, "t1")], "pause_turn", Usage(100, 10))
    with LoopbackServer([paused, REST]) as server:
        reply = ask(server, "anthropic")[-1]
    assert len(server.requests) == 1 and reply.usage.output == 10 and CONTEXT_TOKENS not in reply.metadata
    assert reply.message.text == "So" and [call.arguments for call in reply.message.calls] == [{"a": 1}]


@pytest.mark.req("K2.1")
def test_a_reply_that_is_paused_for_ever_ends() -> None:
    with LoopbackServer([PAUSED], repeat=True) as server:
        reply = ask(server, "anthropic")[-1]
    assert len(server.requests) == MAX_TURNS and reply.stop_reason == "pause_turn"
    assert reply.message.text == "First half, " * MAX_TURNS and reply.usage.output == 10 * MAX_TURNS


@pytest.mark.req("K2.1", "R2.40")
def test_a_turn_that_is_tried_again_does_not_lose_what_came_before() -> None:
    with LoopbackServer([PAUSED, Cut(line="second quarter", after=4), REST]) as server:
        told = ask(server, "anthropic")
    (retry,) = retries_of(told)
    begun = told[told.index(retry) + 1 : -1]
    assert "".join(item.text for item in begun) == told[-1].message.text == "First half, second half."


# What it needs


def test_its_name_says_how_it_is_called_and_makes_it_again() -> None:
    name = "compatible:hf.co/some/model:Q4#main?max_tokens=9&stop=%26&url=http://localhost:8000/v1"
    model = quick(name)
    assert (model.name, model.model) == (name, "hf.co/some/model:Q4#main")


def test_the_name_of_the_model_is_sent_as_it_was_written(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer(["Here."]) as server:
                name = server.model(wire).replace(":loopback?", ":hf.co/some/model:Q4#main?")
                asyncio.run(reply_of(quick(name)))
            assert server.requests[0].body["model"] == "hf.co/some/model:Q4#main"


# What it costs where the server counts nothing


@pytest.mark.req("KX.2", "KX.9")
def test_where_a_server_counts_nothing_a_price_makes_the_cost_about_right_and_says_that_it_is_a_guess(
    subtests: pytest.Subtests,
) -> None:
    for wire, stream in product(CARELESS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([Sloppy("x" * 3_500)]) as server:
                reply = ask(server, wire, stream=stream, price="1000/2000")[-1]
            used = reply.usage
            assert used.estimated
            assert used.input == tokens_of_request(REQUEST) > 0
            assert used.output == tokens_of_message(reply.message) and 1_000 <= used.output < 1_100
            assert used.cost == pytest.approx((used.input * 1_000 + used.output * 2_000) / 1e6)


def test_without_a_price_what_nobody_counted_stays_unknown(subtests: pytest.Subtests) -> None:
    for wire, stream in product(CARELESS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([Sloppy("x" * 3_500)]) as server:
                used = ask(server, wire, stream=stream)[-1].usage
            assert (used.input, used.output, used.estimated) == (None, None, False)
            assert used.cost is None


def test_what_the_server_counted_is_not_guessed_though_there_is_a_price(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([Answer(["Here."], usage=Usage(700, 30))]) as server:
                used = ask(server, wire, price="1000/2000")[-1].usage
            assert (used.input, used.output, used.estimated) == (700, 30, False)
            assert used.cost == pytest.approx((700 * 1_000 + 30 * 2_000) / 1e6)


@pytest.mark.req("KX.2")
def test_a_budget_holds_with_a_price_though_the_server_counts_nothing(subtests: pytest.Subtests) -> None:
    for wire in CARELESS:
        with subtests.test(wire):

            def look(n: int = 0) -> str:
                return f"seen {n}"

            with LoopbackServer([Sloppy(["x" * 3_500, ToolCall("look", {"n": n})]) for n in range(9)]) as server:
                agent = Agent(server.model(wire, price="0/1000"), tools=[look], todos=False, guidance="off", budget=2.5)
                run = agent.run_sync("Go.")
                assert (run.status, run.stop_reason, len(run.rounds)) == ("limited", "budget", 3)
                assert len(server.requests) == 3
                assert (
                    run.cost is not None and 2.5 <= run.cost < 4 and all(one.usage.estimated for one in run.rounds if one.usage)
                )
                with pytest.raises(SettingsError, match="budget cannot be enforced"):
                    Agent(server.model(wire), tools=[look], budget=2.5).run_sync("Go.")
                assert len(server.requests) == 3
