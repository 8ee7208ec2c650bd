"""Every misbehaviour of the loopback server, on the wire."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from functools import partial
from http.client import IncompleteRead, RemoteDisconnected
from itertools import count, product
from types import SimpleNamespace
from typing import Any

import anthropic
import openai
import pytest
from raw_http import MINIMAL, Answered, begin, connect, post, streamed
from waiting import wait_until

from agentnb import ToolCall
from agentnb.core.messages import Thinking
from agentnb.testing import (
    BrokenJson,
    Cut,
    EmptyReply,
    EndEarly,
    ErrorInStream,
    LoopbackServer,
    NotJson,
    Sloppy,
    Stall,
    Status,
    UnknownEvent,
    overflow,
)
from agentnb.testing import listener as loopback
from agentnb.testing.replies.misbehaviour import PINGS

WIRES = ["messages", "chat", "responses"]
CALLS = [Thinking("hm"), "text", ToolCall("add", {"a": 1}), ToolCall("mul", {"b": [2, 3]})]


def answer(line: Any, wire: str, body: Any = None, minimal: bool = False) -> Answered:
    with LoopbackServer([line], minimal=minimal) as server:
        return post(server, wire, body)


NAMES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
NAMES |= {413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 503: "api_error", 529: "overloaded_error"}


def test_error_status_has_the_error_body_of_its_wire(subtests: pytest.Subtests) -> None:
    for status, wire, stream in product(NAMES, WIRES, [True, False]):
        with subtests.test(status=status, wire=wire, stream=stream):
            answered = answer(Status(status, "Not now"), wire, {**MINIMAL[wire], "stream": stream})
            assert answered.status == status
            error = answered.body["error"]
            assert error["message"] == "Not now"
            if wire == "messages":
                assert error["type"] == NAMES[status]
                assert answered.body["type"] == "error"
            else:
                assert set(error) == {"message", "type", "param", "code"}
                assert error["code"] == {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}.get(status)
            assert "retry-after" not in answered.headers


def test_error_status_can_have_a_retry_after_header(subtests: pytest.Subtests) -> None:
    for after in [7, 0.5, "Wed, 21 Oct 2026 07:28:00 GMT"]:
        with subtests.test(after=after):
            line = Status(429, retry_after=after, headers={"x-should-retry": "false"})
            answered = answer(line, "messages")
            assert answered.headers["retry-after"] == str(after)
            assert answered.headers["x-should-retry"] == "false"


def test_error_status_can_have_a_custom_error_type(subtests: pytest.Subtests) -> None:
    cases = [("insufficient_quota", "insufficient_quota", "insufficient_quota"), ("server_error", "server_error", None)]
    for name, kind, code in cases:
        with subtests.test(name):
            error = answer(Status(429, type=name), "chat").body["error"]
            assert (error["type"], error["code"]) == (kind, code)
            assert answer(Status(429, type=name), "messages").body["error"]["type"] == name


def test_overlong_conversation_error_uses_the_wording_of_its_wire() -> None:
    said = [answer(overflow(), wire) for wire in WIRES]
    assert [answered.status for answered in said] == [400, 400, 400]
    messages, chat, responses = (answered.body["error"] for answered in said)
    assert (messages["type"], messages["message"][:18]) == ("invalid_request_error", "prompt is too long")
    assert chat["code"] == responses["code"] == "context_length_exceeded"
    assert "maximum context length" in chat["message"]
    assert "context window" in responses["message"]
    assert "available context size" in answer(overflow(), "chat", minimal=True).body["error"]["message"]


def test_error_can_occur_in_the_middle_of_a_stream(subtests: pytest.Subtests) -> None:
    for wire, after in product(WIRES, [0, 3]):
        with subtests.test(wire=wire, after=after):
            answered = answer(ErrorInStream(after=after), wire, streamed(wire))
            assert answered.status == 200
            assert len(answered.events) == after + 1
            name, data = answered.events[-1]
            if wire == "messages":
                assert (name, data["type"], data["error"]["type"]) == ("error", "error", "overloaded_error")
            elif wire == "chat":
                assert (name, data["error"]["type"]) == (None, "overloaded_error")
            else:
                assert (name, data["type"], data["code"]) == ("error", "error", "overloaded_error")


def test_response_can_end_with_a_failed_event() -> None:
    name, data = answer(ErrorInStream("server_error", failed=True), "responses", streamed("responses")).events[-1]
    assert name == data["type"] == "response.failed"
    assert data["response"]["status"] == "failed"
    assert data["response"]["error"] == {"code": "server_error", "message": "Overloaded"}


def test_stream_error_becomes_a_status_if_nothing_is_streamed(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            assert answer(ErrorInStream(), wire).status == 529


def test_client_libraries_raise_errors_sent_in_streams() -> None:
    async def work() -> None:
        with LoopbackServer(lambda _: ErrorInStream(line="one two three", after=4)) as server:
            async with anthropic.AsyncAnthropic(api_key="x", base_url=server.url, max_retries=0) as claude:
                with pytest.raises(anthropic.APIStatusError) as raised:
                    async for _ in await claude.messages.create(**MINIMAL["messages"], stream=True):
                        pass
                assert raised.value.type == "overloaded_error"
            async with openai.AsyncOpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0) as gpt:
                with pytest.raises(openai.APIError, match="Overloaded"):
                    async for _ in await gpt.chat.completions.create(**MINIMAL["chat"], stream=True):
                        pass

    asyncio.run(work())


@pytest.fixture
def five_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence of 0.1 s is five polls of the client; only polls advance the clock, so a busy machine does not matter."""
    monkeypatch.setattr(loopback, "LOOK_EVERY", 0.0001)
    monkeypatch.setattr(loopback, "time", SimpleNamespace(monotonic=partial(next, count(0.0, 0.02))))


def test_rest_of_the_reply_follows_a_stall(subtests: pytest.Subtests) -> None:
    for wire, after, stream in product(WIRES, [0, 2, 99], [True, False]):
        with subtests.test(wire=wire, after=after, stream=stream):
            body = {**MINIMAL[wire], "stream": stream}
            assert answer(Stall(0.01, after=after, line="one two"), wire, body).raw == answer("one two", wire, body).raw


def test_keepalives_during_a_stall_contain_nothing_of_the_reply(subtests: pytest.Subtests, five_looks: None) -> None:
    for wire, after, pings in product(WIRES, [0, 2, 99], ["comments", "events"]):
        with subtests.test(wire=wire, after=after, pings=pings):
            plain = answer("one two", wire, streamed(wire)).raw
            alive = answer(Stall(0.1, after, "one two", pings), wire, streamed(wire)).raw
            sign = b": keep-alive\n\n" if pings == "comments" else PINGS[wire].encode()
            assert alive.count(sign) >= plain.count(sign) + 2 and alive.replace(sign, b"") == plain.replace(sign, b"")


def test_complete_reply_follows_keepalive_blank_lines(subtests: pytest.Subtests, five_looks: None) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            alive = answer(Stall(0.1, 0, "one two", "comments"), wire)
            assert alive.raw.startswith(b"\n\n") and json.loads(alive.raw) == answer("one two", wire).body


def test_stall_can_follow_the_first_events() -> None:
    with LoopbackServer([Stall(60, after=2)]) as server:
        connection = connect(server)
        response = begin(connection, "messages", streamed("messages"))
        names = [response.readline() for _ in range(6)]
        assert names[0] == b"event: message_start\n"
        assert names[3] == b"event: content_block_start\n"
        server.close()
        with pytest.raises((ConnectionError, IncompleteRead)):
            response.read()
        connection.close()
    assert server.requests[0].hung_up is False


def test_stall_can_follow_the_last_event() -> None:
    with LoopbackServer([Stall(60, after=99, line="x")]) as server:
        connection = connect(server)
        response = begin(connection, "chat", streamed("chat"))
        while response.readline() != b"data: [DONE]\n":
            pass
        server.close()
        with pytest.raises((ConnectionError, IncompleteRead)):
            response.read()
        connection.close()


def test_closing_the_server_ends_a_stall_before_the_headers() -> None:
    with LoopbackServer([Stall(60, after=0)]) as server:
        connection = connect(server)
        connection.request("POST", "/v1/chat/completions", json.dumps(MINIMAL["chat"]), {"authorization": "Bearer x"})
        wait_until(lambda: server.requests)
        server.close()
        with pytest.raises(ConnectionError):
            connection.getresponse()
        connection.close()


def test_client_disconnecting_during_a_stall_is_noticed() -> None:
    with LoopbackServer([Stall(60, after=1), "next"]) as server:
        connection = connect(server)
        begin(connection, "chat", streamed("chat")).close()
        connection.close()
        wait_until(lambda: server.requests[0].hung_up)
        assert post(server, "chat").status == 200


def test_connection_can_be_cut_in_the_middle(subtests: pytest.Subtests) -> None:
    for wire, stream in product(WIRES, [True, False]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([Cut(line="one two three"), "next"]) as server:
                connection = connect(server)
                response = begin(connection, wire, {**MINIMAL[wire], "stream": stream})
                assert response.status == 200
                with pytest.raises(IncompleteRead) as raised:
                    response.read()
                assert len(raised.value.partial) > 0
                connection.close()
                assert post(server, wire).status == 200


def test_connection_can_be_cut_before_any_data(subtests: pytest.Subtests) -> None:
    for stream in [True, False]:
        with subtests.test(stream=stream):
            with LoopbackServer([Cut(after=0)]) as server:
                connection = connect(server)
                with pytest.raises(RemoteDisconnected):
                    begin(connection, "chat", {**MINIMAL["chat"], "stream": stream})
                connection.close()
            assert server.requests[0].answered is None


def test_connection_can_be_reset(subtests: pytest.Subtests) -> None:
    for after in [0, 2]:
        with subtests.test(after=after):
            with LoopbackServer([Cut(after=after, reset=True)]) as server:
                connection = connect(server)
                with pytest.raises((ConnectionResetError, IncompleteRead)) as raised:
                    begin(connection, "chat", streamed("chat")).read()
                connection.close()
            assert after or isinstance(raised.value, ConnectionResetError)
            assert not isinstance(raised.value, RemoteDisconnected)


def test_client_resetting_its_connection_is_not_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with LoopbackServer(["one"]) as server:
        connection = connect(server)
        begin(connection, "chat", MINIMAL["chat"]).read()
        assert connection.sock is not None
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    assert capfd.readouterr().err == ""


def test_stream_can_end_cleanly_before_the_reply_is_complete(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            good = answer("one two three", wire, streamed(wire)).events
            assert answer(EndEarly(after=3, line="one two three"), wire, streamed(wire)).events == good[:3]


def test_broken_complete_reply_is_invalid_json(subtests: pytest.Subtests) -> None:
    for wire, line in product(WIRES, [EndEarly(), BrokenJson()]):
        with subtests.test(wire=wire, line=line):
            answered = answer(line, wire)
            assert answered.status == 200
            with pytest.raises(ValueError):
                json.loads(answered.raw)


def test_broken_json_can_occur_in_the_middle_of_stream(subtests: pytest.Subtests) -> None:
    for wire, after in product(WIRES, [2, 99]):
        with subtests.test(wire=wire, after=after):
            answered = answer(BrokenJson(after=after, line="x"), wire, streamed(wire))
            broken = [index for index, line in enumerate(answered.raw.decode().split("\n\n")) if line.endswith('"ind')]
            good = len(answer("x", wire, streamed(wire)).events)
            # The messages library skips the ping at this position.
            assert broken == [min(after + (wire == "messages"), good - 1)]


def test_client_libraries_raise_on_broken_json() -> None:
    async def work() -> None:
        with LoopbackServer(lambda _: BrokenJson()) as server:
            async with anthropic.AsyncAnthropic(api_key="x", base_url=server.url, max_retries=0) as claude:
                with pytest.raises(ValueError):
                    async for _ in await claude.messages.create(**MINIMAL["messages"], stream=True):
                        pass
            async with openai.AsyncOpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0) as gpt:
                with pytest.raises(ValueError):
                    async for _ in await gpt.responses.create(**MINIMAL["responses"], stream=True):
                        pass

    asyncio.run(work())


def test_unknown_events_can_occur_between_valid_ones(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            good = answer(CALLS, wire, streamed(wire)).events
            strange = answer(UnknownEvent(CALLS), wire, streamed(wire)).events
            assert len(strange) > len(good)
            told = json.dumps(strange)
            assert "weather" in told
            assert ("mood" if wire != "responses" else "hologram") in told
            kept = [name for name, _ in strange if name in {name for name, _ in good}]
            assert len(kept) >= len(good)


def test_complete_reply_can_contain_unknown_fields_and_items(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            body = answer(UnknownEvent(CALLS), wire).body
            assert body["weather"] == "clear"
            assert ("light" if wire == "chat" else "hologram") in json.dumps(body)


def test_unknown_item_may_be_sent_back() -> None:
    user = MINIMAL["responses"]["input"]
    with LoopbackServer(lambda _: UnknownEvent("text")) as server:
        items = post(server, "responses").body["output"]
        assert items[-1]["type"] == "hologram"
        assert post(server, "responses", {**MINIMAL["responses"], "input": [*user, *items, *user]}).status == 200


def test_unknown_block_may_be_sent_back() -> None:
    user = {"role": "user", "content": "Hi"}
    with LoopbackServer(lambda _: UnknownEvent("text")) as server:
        content = post(server, "messages").body["content"]
        body = {**MINIMAL["messages"], "messages": [user, {"role": "assistant", "content": content}, user]}
        assert post(server, "messages", body).status == 200


def test_sloppy_server_streams_calls_in_one_piece(subtests: pytest.Subtests) -> None:
    cases = [
        (Sloppy(CALLS), [None, None], False),
        (Sloppy(CALLS, index=0), [0, 0], False),
        (Sloppy(CALLS, ids=True), [None, None], True),
    ]
    for line, places, has_ids in cases:
        with subtests.test(line=line):
            events = answer(line, "chat", streamed("chat", stream_options={"include_usage": True})).events
            choices = [choice for _, data in events[:-1] for choice in data["choices"]]
            calls = [call for choice in choices for call in choice["delta"].get("tool_calls", [])]
            assert [call.get("index") for call in calls] == places
            assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"a": 1}, {"b": [2, 3]}]
            assert [("id" in call) for call in calls] == [has_ids, has_ids]
            assert choices[-1]["finish_reason"] == "stop"
            assert choices[0]["delta"] == {"reasoning": "hm"}
            assert not [data for _, data in events[:-1] if data.get("usage")]


def test_sloppy_server_omits_usage_and_ids_from_replies() -> None:
    body = answer(Sloppy(CALLS), "chat").body
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["reasoning"] == "hm"
    assert "usage" not in body
    assert [set(call) for call in choice["message"]["tool_calls"]] == [{"function"}, {"function"}]


def test_sloppiness_affects_only_the_chat_wire(subtests: pytest.Subtests) -> None:
    for wire in ["messages", "responses"]:
        with subtests.test(wire):
            assert answer(Sloppy(CALLS), wire, streamed(wire)).raw == answer(CALLS, wire, streamed(wire)).raw


def test_html_page_can_replace_a_reply(subtests: pytest.Subtests) -> None:
    for wire, status in product(WIRES, [502, 200]):
        with subtests.test(wire=wire, status=status):
            answered = answer(NotJson(status), wire, streamed(wire))
            assert answered.status == status
            assert answered.headers["content-type"] == "text/html"
            assert answered.raw.startswith(b"<html>")


def test_empty_reply_is_well_formed() -> None:
    assert [name for name, _ in answer(EmptyReply(), "messages", streamed("messages")).events] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    assert answer(EmptyReply(), "messages").body["content"] == []
    chat = answer(EmptyReply(), "chat").body["choices"][0]
    assert (chat["message"]["content"], chat["finish_reason"]) == ("", "stop")
    assert answer(EmptyReply(), "chat", streamed("chat")).events[-1] == (None, "[DONE]")
    assert answer(EmptyReply(), "responses").body["output"] == []
    kinds = [name for name, _ in answer(EmptyReply(), "responses", streamed("responses")).events]
    assert kinds == ["response.created", "response.in_progress", "response.completed"]


def test_misbehaviour_with_an_invalid_line_is_refused(subtests: pytest.Subtests) -> None:
    cases = [ErrorInStream, Stall, Cut, EndEarly, BrokenJson, UnknownEvent, Sloppy]
    for kind in cases:
        with subtests.test(kind=kind):
            with pytest.raises(TypeError, match="A script line must be"):
                LoopbackServer([kind(line=42)])
