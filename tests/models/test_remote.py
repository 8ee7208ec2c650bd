"""Provider models on the wire: retries, errors and stops."""

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
from property_settings import size
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
"""Wires with servers that report no usage."""


def retries_of(told: list[Any]) -> list[Retry]:
    return [item for item in told if isinstance(item, Retry)]


# Retries


@pytest.mark.req("R0.10", "R2.40", "KX.3")
def test_server_receives_one_request_per_attempt(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([Status(500), Status(429), Status(529), "Here."]) as server:
                items = ask(server, wire, stream=stream)
            assert items[-1].message.text == "Here."
            assert [(retry.attempt, retry.status) for retry in retries_of(items)] == [(1, 500), (2, 429), (3, 529)]
            assert [request.answered for request in server.requests] == [500, 429, 529, 200]
            assert len({request.raw for request in server.requests}) == 1


@pytest.mark.req("KX.3", "K0.12")
def test_provider_libraries_do_not_retry_themselves(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            statuses = [408, 409, 429, 500, 503, 529]
            with LoopbackServer([Status(status) for status in statuses] + ["never"]) as server:
                errors = refusals(server, wire, stream, NEVER, len(statuses))
            assert [request.answered for request in server.requests] == statuses
            assert [f"({status}" in error.what for status, error in zip(statuses, errors, strict=True)] == [True] * 6


def refusals(server: LoopbackServer, wire: str, stream: str, retries: RetryPolicy, count: int) -> list[ModelError]:
    """Return the errors of so many sequential calls."""

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
def test_call_fails_after_the_maximum_number_of_attempts(subtests: pytest.Subtests) -> None:
    for wire, (status, attempts, kind) in product(WIRES, [(429, 6, RateLimited), (503, 5, ProviderTrouble)]):
        with subtests.test(wire=wire, status=status):
            with LoopbackServer([Status(status)] * 20) as server:
                items = ask(server, wire)
            assert len(server.requests) == attempts == len(items)
            assert isinstance(items[-1], kind) and f"({status}, " in items[-1].what.replace(f"({status})", f"({status}, ")


@pytest.mark.req("R2.40")
def test_permanent_refusal_is_sent_once(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            statuses = [400, 401, 402, 403, 404, 413, 422]
            with LoopbackServer([Status(status) for status in statuses] + ["never"]) as server:
                errors = refusals(server, wire, stream, QUICK, len(statuses))
            assert [request.answered for request in server.requests] == statuses
            assert [f"({status}" in error.what for status, error in zip(statuses, errors, strict=True)] == [True] * 7


def test_account_without_credit_gets_one_request(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([Status(429, type="insufficient_quota")] * 3) as server:
                items = ask(server, wire)
            assert len(server.requests) == 1 and "no credit left" in items[0].what


@dataclass(frozen=True)
class Gone(Misbehaviour):
    """The start of a reply, followed by these bytes."""

    end: bytes

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        good = wire.deliver(Answer("Hello"), asked)
        return with_changes(good, chunks=[*good.chunks[:2], self.end])


def test_error_text_between_stream_events_is_kept(subtests: pytest.Subtests) -> None:
    ends = [
        b"upstream is gone\n",
        b"event: error\ndata: upstream is gone\n\n",
        b'data: {"error": {"message": "upstream is gone"}}\n\n',
        b'{"error": "upstream is gone"}\n',
    ]
    for wire, end in product(FORMATS, ends):
        with subtests.test(wire=wire, end=end), LoopbackServer([Gone(end), "Here."]) as server:
            items = ask(server, wire)
            assert [retry.reason.endswith("upstream is gone") for retry in retries_of(items)] == [True]


@pytest.mark.req("R2.40")
def test_retry_prohibition_of_the_provider_is_obeyed(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([Status(500, headers={"x-should-retry": "false"})] * 3) as server:
                assert len(ask(server, wire)) == 1 == len(server.requests)


@pytest.mark.slow("loads the libraries of the providers, where it is the first to")
@pytest.mark.req("R2.40")
def test_requested_retry_time_is_respected(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            at: list[float] = []
            lines = [Status(429, headers={"retry-after-ms": "50"}), "Here."]
            with LoopbackServer([noted(at, line) for line in lines]) as server:
                (retry,) = retries_of(ask(server, wire))
            assert retry.seconds >= 0.05 and at[1] - at[0] >= 0.05


def noted(at: list[float], line: Any) -> Any:
    """Return the line as a function that records its request times."""
    return lambda body: at.append(time.monotonic()) or line


@pytest.mark.req("R2.40", "K0.12")
def test_overlong_provider_wait_ends_the_call_at_once(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([Status(429, retry_after=3600)] * 3) as server:
                items = ask(server, wire)
            assert len(server.requests) == 1 and isinstance(items[0], RateLimited)


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
def test_broken_reply_is_retried_before_a_clear_error(subtests: pytest.Subtests) -> None:
    for broken, stream, wire in [*product(BROKEN, ["yes", "no"], FORMATS)][:: size(3, nightly=1)]:
        with subtests.test(wire=wire, stream=stream, broken=broken):
            make, kind = BROKEN[broken]
            options = {"stream": stream, "timeout": LIMIT} if "silence" in broken else {"stream": stream}
            with LoopbackServer([make(), "Here and whole."]) as server:
                items = ask(server, wire, **options)
            (retry,) = retries_of(items)
            assert items[-1].message.text == "Here and whole." and len(server.requests) == 2
            assert retry.reason.startswith(f"{wire}: ")
            begun = items[items.index(retry) + 1 : -1]
            assert "".join(item.text for item in begun) == "Here and whole."
            with LoopbackServer([make()] * 2) as server:
                items = ask(server, wire, NEVER, **options)
            assert isinstance(items[-1], kind) and not retries_of(items)
            assert items[-1].what == retry.reason and items[-1].hint and "\n" not in str(items[-1])


def test_reply_ending_normally_before_its_end_marker_is_cut_off(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([EndEarly(1, "One two three"), EndEarly(1, "One two three")]) as server:
                items = ask(server, wire, NEVER)
            assert isinstance(items[-1], ProviderTrouble) and "ended before the reply was complete" in items[-1].what


def test_web_page_with_status_200_is_not_a_reply(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([NotJson(200)] * 2) as server:
                items = ask(server, wire, NEVER, stream=stream)
            assert isinstance(items[-1], ProviderTrouble | BrokenReply) and items[-1].hint


def test_overlong_conversation_is_sent_once(subtests: pytest.Subtests) -> None:
    servers = [*product(FORMATS, [False]), *product(["ollama", "compatible"], [True])]
    for (wire, minimal), stream in product(servers, ["yes", "no"]):
        with subtests.test(wire=wire, minimal=minimal, stream=stream):
            with LoopbackServer([overflow()] * 2, minimal=minimal) as server:
                items = ask(server, wire, stream=stream)
            assert len(server.requests) == 1 and isinstance(items[0], ContextOverflow)


def test_request_is_not_resent_after_overflow_in_a_stream(subtests: pytest.Subtests) -> None:
    for failed, stream in product([False, True], ["yes", "no"]):
        with subtests.test(failed=failed, stream=stream):
            with LoopbackServer([ErrorInStream("context_length_exceeded", 1, failed=failed)] * 2) as server:
                items = ask(server, "openai-responses", stream=stream)
            if stream == "yes":
                assert len(server.requests) == 1 and isinstance(items[-1], ContextOverflow)


def test_refused_key_error_does_not_contain_the_key(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire), pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setenv("MY_KEY", "sk-wrong-0123456789")
            with LoopbackServer(["Here."], key="sk-right-0123456789") as server:
                items = ask(server, wire, key="MY_KEY")
            assert isinstance(items[0], KeyRefused) and in_notebook(items[0].advice) == "Enter another key: %agent key MY_KEY"
            assert "0123456789" not in str(items[0]) and len(server.requests) == 1
            monkeypatch.setenv("MY_KEY", "sk-right-0123456789")
            with LoopbackServer(["Here."], key="sk-right-0123456789") as server:
                assert ask(server, wire, key="MY_KEY")[-1].message.text == "Here."


def test_missing_local_server_is_reported_at_once(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer() as server:
                name, url = server.model(wire), server.url if wire == "anthropic" else f"{server.url}/v1"
            (error,) = ask_name(name)
            assert isinstance(error, ProviderTrouble)
            assert str(error) == f"{wire}: no server responds at {url}. Start the server, or use another one: url=URL"


def ask_name(name: str) -> list[Any]:
    try:
        return asyncio.run(items_of(quick(name)))
    except ModelError as error:
        return [error]


def test_unstreamed_and_streamed_calls_return_the_same_reply(subtests: pytest.Subtests) -> None:
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


# Bodies that are not streams


@contextmanager
def serving(status: int, body: bytes = b"", kind: str = "", **headers: str) -> Iterator[tuple[str, list[Any]]]:
    """Run a server with one answer for everything; yield its URL and the request headers."""
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
    """Return the last item of a call."""
    told: list[Any] = []
    try:
        told += asyncio.run(items_of(quick(f"{wire}:m?url={url}&stream={stream}")))
    except ModelError as error:
        told.append(error)
    return told[-1]


def test_redirects_are_not_followed(subtests: pytest.Subtests) -> None:
    for status, stream, wire in [*product([301, 302, 303, 307, 308], ["yes", "no"], FORMATS)][:: size(3, nightly=1)]:
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
def test_body_that_is_neither_stream_nor_reply_fails_immediately(subtests: pytest.Subtests) -> None:
    for sent, stream, wire in [*product(INSTEAD, ["yes", "no"], FORMATS)][:: size(3, nightly=1)]:
        with subtests.test(wire=wire, stream=stream, sent=sent):
            status, body, kind, told = INSTEAD[sent]
            with serving(status, body, kind) as (url, asked):
                error = ask_at(url, wire, stream)
            assert isinstance(error, BrokenReply) and told in error.what and url in error.what and "/v1" in error.hint
            assert len(asked) == 1


def test_error_instead_of_a_reply_keeps_its_message(subtests: pytest.Subtests) -> None:
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
def test_error_keeps_its_message_in_every_known_form(subtests: pytest.Subtests) -> None:
    cases = [b'{"error": "Boom."}', b'{"detail": "Boom."}', b"Boom.", b"<p>Boom.</p>"]
    for body, stream, wire in [*product(cases, ["yes", "no"], FORMATS)][:: size(3, nightly=1)]:
        with subtests.test(wire=wire, stream=stream, body=body):
            with serving(400, body, JSON if body[:1] == b"{" else HTML) as (url, _):
                error = ask_at(url, wire, stream)
            assert error.what == f"{wire}: the request was refused (400): Boom."
            with serving(418, b"", HTML) as (url, _):
                assert ask_at(url, wire, stream).what == f"{wire}: the request was refused (418)"


WHOLE: dict[str, Any] = {
    "anthropic": {"content": [{"type": "text", "text": "Hi."}], "stop_reason": "end_turn", "usage": {"output_tokens": 1}},
    "openai": {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]},
    "openai-responses": {
        "status": "completed",
        "error": None,
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}],
    },
}


def test_unstreamed_reply_to_a_streaming_request_is_accepted(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            body = json.dumps(WHOLE.get(wire, WHOLE["openai"])).encode()
            with serving(200, body, JSON) as (url, _):
                assert ask_at(url, wire, stream).message.text == "Hi."


def test_stream_with_the_wrong_content_type_is_read() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]}
    for kind in (JSON, "text/plain", "text/html", ""):
        with serving(200, f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode(), kind) as (url, _):
            assert ask_at(url, "compatible").message.text == "Hi."


def test_key_repeated_by_the_server_is_redacted(subtests: pytest.Subtests) -> None:
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
def test_paused_reply_is_continued_into_one(subtests: pytest.Subtests) -> None:
    for stream in ["yes", "no"]:
        with subtests.test(stream):
            with LoopbackServer([PAUSED, PAUSED, REST]) as server:
                items = ask(server, "anthropic", stream=stream)
            reply = items[-1]
            assert [type(item) for item in items].count(Reply) == 1
            assert reply.message.text == "First half, First half, second half." and reply.stop_reason == "end_turn"
            assert (reply.usage.input, reply.usage.output) == (400, 40)
            assert reply.metadata[CONTEXT_TOKENS] == 220  # of the last turn alone: the others are in it
            assert "".join(item.text for item in items if isinstance(item, TextDelta)) == reply.message.text
            sent = [[message["role"] for message in request.body["messages"]] for request in server.requests]
            assert sent == [["user"], ["user", "assistant"], ["user", "assistant", "assistant"]]
            assert server.requests[1].body["messages"][1]["content"][0]["text"] == "First "


@pytest.mark.req("K2.1")
def test_paused_reply_with_calls_is_returned_to_be_answered() -> None:
    paused = Answer(["So", ToolCall("add", {"a": 1}, "t1")], "pause_turn", Usage(100, 10))
    with LoopbackServer([paused, REST]) as server:
        reply = ask(server, "anthropic")[-1]
    assert len(server.requests) == 1 and reply.usage.output == 10 and CONTEXT_TOKENS not in reply.metadata
    assert reply.message.text == "So" and [call.arguments for call in reply.message.calls] == [{"a": 1}]


@pytest.mark.req("K2.1")
def test_endlessly_paused_reply_is_cut_off() -> None:
    with LoopbackServer([PAUSED], repeat=True) as server:
        reply = ask(server, "anthropic")[-1]
    assert len(server.requests) == MAX_TURNS and reply.stop_reason == "pause_turn"
    assert reply.message.text == "First half, " * MAX_TURNS and reply.usage.output == 10 * MAX_TURNS


@pytest.mark.req("K2.1", "R2.40")
def test_retried_continuation_keeps_the_earlier_text() -> None:
    with LoopbackServer([PAUSED, Cut(line="second quarter", after=4), REST]) as server:
        items = ask(server, "anthropic")
    (retry,) = retries_of(items)
    begun = items[items.index(retry) + 1 : -1]
    assert "".join(item.text for item in begun) == items[-1].message.text == "First half, second half."


# Requirements


def test_model_name_recreates_the_model() -> None:
    name = "compatible:hf.co/some/model:Q4#main?max_tokens=9&stop=%26&url=http://localhost:8000/v1"
    model = quick(name)
    assert (model.name, model.model) == (name, "hf.co/some/model:Q4#main")


def test_model_name_is_sent_unchanged(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer(["Here."]) as server:
                name = server.model(wire).replace(":loopback?", ":hf.co/some/model:Q4#main?")
                asyncio.run(reply_of(quick(name)))
            assert server.requests[0].body["model"] == "hf.co/some/model:Q4#main"


# Costs without server counts


@pytest.mark.req("KX.2", "KX.9")
def test_cost_is_estimated_from_price_and_uncounted_tokens(
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


def test_uncounted_cost_without_a_price_is_unknown(subtests: pytest.Subtests) -> None:
    for wire, stream in product(CARELESS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([Sloppy("x" * 3_500)]) as server:
                used = ask(server, wire, stream=stream)[-1].usage
            assert (used.input, used.output, used.estimated) == (None, None, False)
            assert used.cost is None


def test_reported_usage_is_not_called_estimated(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer([Answer(["Here."], usage=Usage(700, 30))]) as server:
                used = ask(server, wire, price="1000/2000")[-1].usage
            assert (used.input, used.output, used.estimated) == (700, 30, False)
            assert used.cost == pytest.approx((700 * 1_000 + 30 * 2_000) / 1e6)


@pytest.mark.req("KX.2")
def test_budget_applies_with_a_price_despite_missing_counts(subtests: pytest.Subtests) -> None:
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
                    run.cost is not None
                    and 2.5 <= run.cost < 4
                    and all(round_.usage.estimated for round_ in run.rounds if round_.usage)
                )
                with pytest.raises(SettingsError, match="budget cannot be enforced"):
                    Agent(server.model(wire), tools=[look], budget=2.5).run_sync("Go.")
                assert len(server.requests) == 3
