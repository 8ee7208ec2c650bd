from __future__ import annotations

import base64
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import httpx2
import pytest
from raw_http import HEADERS, MINIMAL, PATHS, Answered, begin, connect, post, streamed

from agentnb import ToolCall
from agentnb.core.messages import Image, Text, Thinking
from agentnb.core.usage import Usage
from agentnb.errors import SettingsError
from agentnb.settings import SERVERS
from agentnb.testing import Answer, LoopbackServer, Opaque, Received, Status

WIRES = list(PATHS)


def text_of(wire: str, answered: Answered) -> str:
    body = answered.body
    if wire == "messages":
        return "".join(block["text"] for block in body["content"])
    if wire == "chat":
        return body["choices"][0]["message"]["content"]
    return "".join(part["text"] for item in body["output"] for part in item["content"])


def test_each_request_uses_one_script_line_on_any_wire(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer(["one", Text("two"), ["th", "ree"]]) as server:
                assert text_of("chat", post(server, "chat")) == "one"
                assert text_of(wire, post(server, wire)) == "two"
                assert text_of(wire, post(server, wire)) == "three"
            assert [request.wire for request in server.requests] == ["chat", wire, wire]


def test_request_after_the_last_line_is_refused_with_the_reason(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer(["one"]) as server:
                post(server, wire)
                over = post(server, wire)
            assert over.status == 400
            assert over.body["error"]["message"] == "This server's script ended after 1 lines."


def test_script_can_repeat_from_the_beginning() -> None:
    with LoopbackServer(["one", "two"], repeat=True) as server:
        assert [text_of("chat", post(server, "chat")) for _ in range(5)] == ["one", "two", "one", "two", "one"]


def test_empty_repeating_script_is_exhausted() -> None:
    with LoopbackServer([], repeat=True) as server:
        assert post(server, "chat").status == 400


def test_function_in_a_script_receives_the_request_body() -> None:
    with LoopbackServer([lambda body: body["messages"][0]["content"] + "!"]) as server:
        assert text_of("chat", post(server, "chat")) == "Hi!"


def test_function_may_return_a_misbehaviour_or_another_function() -> None:
    with LoopbackServer([lambda body: lambda _: Status(418)]) as server:
        assert post(server, "chat").status == 418


def test_one_function_can_answer_many_concurrent_requests() -> None:
    together = threading.Barrier(8)

    def echo(body: dict[str, Any]) -> str:
        together.wait(10)
        return body["messages"][0]["content"]

    with LoopbackServer(echo) as server:

        def ask(number: int) -> str:
            return text_of(
                "chat", post(server, "chat", {"model": "m", "messages": [{"role": "user", "content": f"number {number}"}]})
            )

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(ask, range(8))) == [f"number {number}" for number in range(8)]
    assert len(server.requests) == 8


def test_failing_script_function_is_reported_to_the_client() -> None:
    with LoopbackServer([lambda body: body["no such"]]) as server:
        answered = post(server, "chat")
    assert answered.status == 400
    assert "A line of this server's script failed: KeyError: 'no such'" in answered.body["error"]["message"]


def test_invalid_script_line_is_refused(subtests: pytest.Subtests) -> None:
    for line in [42, [3.5], [Image("image/png", b"x")], Answer]:
        with subtests.test(line=line):
            if callable(line):
                with LoopbackServer([lambda _: 42]) as server:
                    assert "got 42" in post(server, "chat").body["error"]["message"]
            else:
                with pytest.raises(TypeError, match=r"A (script|reply) "):
                    LoopbackServer([line])


def test_received_requests_are_kept_unchanged_but_without_keys() -> None:
    with LoopbackServer(["one"]) as server:
        post(server, "messages", headers={**HEADERS, "X-Api-Key": "secret"})
    (received,) = server.requests
    assert received.wire == "messages"
    assert received.body == MINIMAL["messages"]
    assert json.loads(received.raw) == MINIMAL["messages"]
    assert received.headers["authorization"] == "…"
    assert received.headers["anthropic-version"] == "2026-10-21"
    assert received.answered == 200
    assert "secret" not in repr(received)


def test_refused_request_is_recorded_and_uses_no_line() -> None:
    with LoopbackServer(["one"]) as server:
        refused = post(server, "chat", {**MINIMAL["chat"], "colour": "red"})
        assert text_of("chat", post(server, "chat")) == "one"
    assert refused.status == 400
    assert [request.answered for request in server.requests] == [400, 200]
    assert server.requests[0].problems == ("Unknown parameter: 'colour'.",)
    assert server.requests[1].problems == ()


def test_body_that_is_not_a_json_object_is_refused(subtests: pytest.Subtests) -> None:
    for wire, raw in product(WIRES, [b"{", b"", b"[1]", b'"text"', b"\xff"]):
        with subtests.test(wire=wire, raw=raw):
            with LoopbackServer(["one"]) as server:
                assert post(server, wire, raw).status == 400
            assert server.requests[0].raw == raw
            assert server.requests[0].body == {}


def test_request_without_a_key_is_refused(subtests: pytest.Subtests) -> None:
    for wire, given in product(WIRES, [None, "Bearer ", "Basic secret"]):
        with subtests.test(wire=wire, given=given):
            headers = {name: value for name, value in HEADERS.items() if name != "authorization"}
            with LoopbackServer(["one"]) as server:
                answered = post(server, wire, headers=headers if given is None else {**headers, "authorization": given})
            assert answered.status == 401
            error = answered.body["error"]
            assert error["type" if wire == "messages" else "code"] == (
                "authentication_error" if wire == "messages" else "invalid_api_key"
            )


def test_server_with_a_configured_key_accepts_no_other(subtests: pytest.Subtests) -> None:
    for wire, (key, status) in product(WIRES, [("secret", 200), ("another", 401)]):
        with subtests.test(wire=wire, key=key):
            with LoopbackServer(["one"], key=key) as server:
                assert post(server, wire).status == status


def test_minimal_server_requires_a_key_only_if_configured(subtests: pytest.Subtests) -> None:
    for key, status in [(None, 200), ("secret", 401)]:
        with subtests.test(key=key):
            with LoopbackServer(["one"], key=key, minimal=True) as server:
                assert post(server, "chat", headers={}).status == status


def test_refusals_have_the_format_of_the_provider(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            with LoopbackServer(["one"]) as server:
                answered = post(server, wire, {"model": "m", "colour": "red"})
            assert answered.status == 400
            if wire == "messages":
                assert answered.body["type"] == "error"
                assert answered.body["error"] == {"type": "invalid_request_error", "message": "max_tokens: Field required"}
                assert answered.headers["request-id"].startswith("req_011")
            else:
                wanted = "messages" if wire == "chat" else "input"
                message = f"Missing required parameter: '{wanted}'."
                assert answered.body == {
                    "error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}
                }
                assert answered.headers["x-request-id"].startswith("req_011")


def test_unknown_paths_are_not_found() -> None:
    with LoopbackServer(["one"]) as server:
        connection = connect(server)
        connection.request("POST", "/v2/else", b"{}", HEADERS)
        assert connection.getresponse().status == 404
        connection.close()
        connection.request("GET", "/v1/else", headers=HEADERS)
        assert connection.getresponse().status == 404
        connection.close()
    assert server.requests == []


def test_model_list_has_the_format_of_its_wire(subtests: pytest.Subtests) -> None:
    for anthropic in [True, False]:
        with subtests.test(anthropic=anthropic):
            headers = HEADERS if anthropic else {"authorization": "Bearer secret"}
            with LoopbackServer([]) as server:
                connection = connect(server)
                connection.request("GET", "/v1/models", headers=headers)
                listed = json.loads(connection.getresponse().read())
                connection.request("GET", "/v1/models")
                assert connection.getresponse().status == 401
                connection.close()
            assert [model["id"] for model in listed["data"]] == ["loopback"]
            assert ("has_more" in listed) is anthropic


def test_one_connection_serves_many_requests() -> None:
    with LoopbackServer(["one", "two", Status(500), "three"]) as server:
        connection = connect(server)
        statuses, ports = [], set()
        for body in (MINIMAL["chat"], streamed("chat"), MINIMAL["chat"], MINIMAL["chat"]):
            response = begin(connection, "chat", body)
            statuses.append(response.status)
            response.read()
            ports.add(connection.sock.getsockname()[1])
        connection.close()
    assert statuses == [200, 200, 500, 200]
    assert len(ports) == 1


def test_server_lists_its_models() -> None:
    with LoopbackServer([]) as server:
        assert re.fullmatch(r"anthropic:loopback\?url=http://127\.0\.0\.1:\d+", server.model("anthropic"))
        for provider in ("openai", "openai-responses", "compatible", "ollama"):
            assert re.fullmatch(provider + r":loopback\?url=http://127\.0\.0\.1:\d+/v1", server.model(provider))
        assert server.model("openai", stream="no", max_tokens=5).endswith("/v1&stream=no&max_tokens=5")


def test_server_has_no_address_before_it_is_started() -> None:
    server = LoopbackServer(["one"])
    with pytest.raises(RuntimeError, match="with LoopbackServer"):
        server.model("openai")
    server.close()


def test_closing_ends_open_connections_and_can_be_repeated() -> None:
    server = LoopbackServer(["one"]).start()
    connection = connect(server)
    begin(connection, "chat").read()
    server.close()
    server.close()
    with pytest.raises(ConnectionError):
        begin(connection, "chat")
    connection.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "agentnb-loopback"]


def test_servers_with_the_same_script_send_identical_replies() -> None:
    said = []
    for _ in range(2):
        with LoopbackServer([[Thinking("hm"), "text", ToolCall("add")]], repeat=True) as server:
            said.append([post(server, wire, streamed(wire)).raw for wire in WIRES])
    assert said[0] == said[1]


def test_ids_resemble_those_of_the_providers_and_never_repeat() -> None:
    with LoopbackServer(lambda _: [Thinking("hm"), ToolCall("add"), ToolCall("add")]) as server:
        messages, chat, responses = (post(server, wire).body for wire in WIRES)
    calls = [block["id"] for block in messages["content"][1:]]
    assert all(re.fullmatch(r"toolu_01\w{22}", call) for call in calls)
    assert re.fullmatch(r"msg_01\w{22}", messages["id"])
    more = [call["id"] for call in chat["choices"][0]["message"]["tool_calls"]]
    assert all(re.fullmatch(r"call_\w{24}", call) for call in more)
    items = responses["output"]
    assert re.fullmatch(r"rs_[0-9a-f]{48}", items[0]["id"])
    assert all(re.fullmatch(r"fc_[0-9a-f]{48}", item["id"]) for item in items[1:])
    every = [*calls, *more, *(item["call_id"] for item in items[1:]), *(item["id"] for item in items)]
    assert len(set(every)) == len(every)


def test_call_id_in_the_script_is_kept() -> None:
    with LoopbackServer(lambda _: ToolCall("add", {}, id="mine")) as server:
        messages, chat, responses = (post(server, wire).body for wire in WIRES)
    assert messages["content"][0]["id"] == "mine"
    assert chat["choices"][0]["message"]["tool_calls"][0]["id"] == "mine"
    assert responses["output"][0]["call_id"] == "mine"


def test_stop_reason_uses_the_names_of_its_wire(subtests: pytest.Subtests) -> None:
    cases = [
        (None, "end_turn", "stop", "completed"),
        ("stop", "end_turn", "stop", "completed"),
        ("max_tokens", "max_tokens", "length", "max_output_tokens"),
        ("length", "max_tokens", "length", "max_output_tokens"),
        ("model_context_window_exceeded", "model_context_window_exceeded", "length", "max_output_tokens"),
        ("refusal", "refusal", "stop", "completed"),
        ("content_filter", "refusal", "content_filter", "content_filter"),
        ("pause_turn", "pause_turn", "pause_turn", "pause_turn"),
        ("solar_eclipse", "solar_eclipse", "solar_eclipse", "solar_eclipse"),
    ]
    for given, messages, chat, responses in cases:
        with subtests.test(given=given):
            with LoopbackServer([Answer(["Well"], stop_reason=given)], repeat=True) as server:
                whole = [post(server, wire).body for wire in WIRES]
                ends = [post(server, wire, streamed(wire)).events for wire in WIRES]
            assert whole[0]["stop_reason"] == ends[0][-2][1]["delta"]["stop_reason"] == messages
            assert whole[1]["choices"][0]["finish_reason"] == ends[1][-2][1]["choices"][0]["finish_reason"] == chat
            for response in (whole[2], ends[2][-1][1]["response"]):
                details = response["incomplete_details"]
                assert (details["reason"] if details else response["status"]) == responses
                assert (response["status"] == "incomplete") == bool(details)
            assert ends[2][-1][0] == f"response.{whole[2]['status']}"


def test_refusal_is_placed_in_the_field_of_its_wire() -> None:
    with LoopbackServer(lambda _: Answer(["Not that"], stop_reason="refusal")) as server:
        messages, chat, responses = (post(server, wire).body for wire in WIRES)
        deltas = [event[1]["choices"][0]["delta"] for event in post(server, "chat", streamed("chat")).events[:-1]]
        kinds = [kind for kind, _ in post(server, "responses", streamed("responses")).events]
    assert messages["stop_details"]["type"] == "refusal"
    assert chat["choices"][0]["message"]["refusal"] == "Not that"
    assert chat["choices"][0]["message"]["content"] is None
    assert responses["output"][0]["content"] == [{"type": "refusal", "refusal": "Not that"}]
    assert "".join(delta.get("refusal") or "" for delta in deltas) == "Not that"
    assert "response.refusal.delta" in kinds


def test_script_can_set_the_reported_usage() -> None:
    usage = Usage(input=100, output=20, cache_read=60, cache_write=30, reasoning=7)
    with LoopbackServer(lambda _: Answer(["Well"], usage=usage)) as server:
        messages, chat, responses = (post(server, wire).body["usage"] for wire in WIRES)
    assert (messages["input_tokens"], messages["cache_read_input_tokens"], messages["cache_creation_input_tokens"]) == (
        10,
        60,
        30,
    )
    assert (messages["output_tokens"], messages["output_tokens_details"]["thinking_tokens"]) == (20, 7)
    assert (chat["prompt_tokens"], chat["prompt_tokens_details"]["cached_tokens"], chat["total_tokens"]) == (100, 60, 120)
    assert (responses["input_tokens"], responses["output_tokens_details"]["reasoning_tokens"]) == (100, 7)


def test_usage_is_estimated_by_length() -> None:
    with LoopbackServer(lambda body: "word " * 40) as server:
        used = [post(server, wire).body["usage"] for wire in WIRES]
    assert [usage.get("output_tokens", usage.get("completion_tokens")) for usage in used] == [51, 51, 51]


def test_invalid_json_arguments_are_sent_unchanged() -> None:
    with LoopbackServer(lambda _: ToolCall("add", '{"a": 1')) as server:
        chat = post(server, "chat").body["choices"][0]["message"]["tool_calls"][0]
        events = post(server, "messages", streamed("messages")).events
    assert chat["function"]["arguments"] == '{"a": 1'
    pieces = [data["delta"]["partial_json"] for _, data in events if data.get("delta", {}).get("type") == "input_json_delta"]
    assert "".join(pieces) == '{"a": 1'


def test_messages_block_is_sent_unchanged_and_omitted_on_other_wires() -> None:
    block = {"type": "redacted_thinking", "data": base64.b64encode(b"secret").decode()}
    with LoopbackServer(lambda _: [Opaque(block), "text"]) as server:
        assert post(server, "messages").body["content"][0] == block
        assert post(server, "chat").body["choices"][0]["message"]["content"] == "text"
        assert [item["type"] for item in post(server, "responses").body["output"]] == ["message"]
        started = [
            data for name, data in post(server, "messages", streamed("messages")).events if name == "content_block_start"
        ]
    assert started[0]["content_block"] == block


def test_answer_with_one_text_has_one_part() -> None:
    assert Answer("Hello", stop_reason="length").parts == (Text("Hello"),)


def test_request_repr_is_one_line_without_content(subtests: pytest.Subtests) -> None:
    for wire in WIRES:
        with subtests.test(wire):
            field = "input" if wire == "responses" else "messages"
            long = {**MINIMAL[wire], field: [{"role": "user", "content": "to be or not " * 5_000}]}
            refused = {**MINIMAL[wire], "nobody_knows": "x" * 5_000}
            with LoopbackServer(["Hello"]) as server:
                post(server, wire, long)
                post(server, wire, refused)
                post(server, wire, b"{")
            good, bad, none = map(repr, server.requests)
            assert good == f"<Received {wire} to loopback, 1 message, answered 200>"
            assert (
                bad.startswith(f"<Received {wire} to loopback, 1 message, answered 400, problems: ") and "nobody_knows" in bad
            )
            assert none == f"<Received {wire} to ?, 0 messages, answered 400>"
            assert max(len(good), len(bad), len(none)) < 300


def test_repr_of_an_unanswered_request_is_short() -> None:
    one = Received("chat", b"", {}, {"model": "m" * 10_000, "messages": "none"}, hung_up=True, problems=("p" * 10_000,))
    assert repr(one).startswith("<Received chat to mmm") and "1 message, no answer, problems: ppp" in repr(one)
    assert repr(one).endswith(", hung up>") and len(repr(one)) < 500


def test_key_may_be_sent_in_the_anthropic_header() -> None:
    headers = {name: value for name, value in HEADERS.items() if name != "authorization"}
    with LoopbackServer(["one"], key="the-key") as server:
        assert post(server, "messages", headers={**headers, "x-api-key": "another"}).status == 401
        assert post(server, "messages", headers={**headers, "x-api-key": "the-key"}).status == 200
        assert "the-key" not in str(server.requests[1].headers)


def test_lenient_server_answers_and_records_problems(subtests: pytest.Subtests) -> None:
    odd = {"model": "m", "colour": 1, "messages": [{"role": "tool", "tool_call_id": "x", "content": ""}], "input": "x"}
    for wire in ("messages", "chat", "responses"):
        with subtests.test(wire), LoopbackServer(["one", "two"], lenient=True) as server:
            headers = {name: value for name, value in HEADERS.items() if name != "authorization"}
            assert post(server, wire, odd, headers=headers).status == 200
            assert len(server.problems) >= 2 and any("colour" in problem for problem in server.problems)
            assert post(server, wire, {"model": "m", "messages": [7], "input": {"a": []}}).status == 200


def test_server_can_imitate_only_known_servers() -> None:
    with pytest.raises(SettingsError, match="mistral"):
        LoopbackServer(like="mistrel")
    for name in SERVERS:
        with LoopbackServer(like=name) as server:
            assert server.model().startswith(f"{name}:")


def test_imitating_server_refuses_exactly_the_fields_unknown_to_original(subtests: pytest.Subtests) -> None:
    messages = [{"role": "user", "content": "Hi"}]
    key = {"authorization": "Bearer secret"}
    for like, field, is_known in [
        ("mistral", "random_seed", True),
        ("mistral", "seed", False),
        ("mistral", "store", False),
        ("groq", "logprobs", False),
        ("groq", "top_p", True),
        ("deepseek", "presence_penalty", True),
        ("deepseek", "max_completion_tokens", False),
        ("openai", "max_completion_tokens", True),
        ("openai", "colour", False),
        ("azure", "metadata", True),
    ]:
        with subtests.test(like, field=field), LoopbackServer(["one"], like=like) as server:
            answered = post(server, "chat", {"model": "m", "messages": messages, field: 1}, key)
            assert (answered.status == 200) == is_known and (server.problems == []) == is_known


def test_openai_server_accepts_the_developer_role_and_mistral_does_not(subtests: pytest.Subtests) -> None:
    body = {"model": "m", "messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}
    for like, status in {"openai": 200, "mistral": 400}.items():
        with subtests.test(like), LoopbackServer(["one"], like=like) as server:
            assert post(server, "chat", body, {"authorization": "Bearer secret"}).status == status


def test_lenient_server_lists_its_models_without_a_key() -> None:
    for lenient, status in {True: 200, False: 401}.items():
        with LoopbackServer(lenient=lenient) as server:
            assert httpx2.get(f"{server.url}/v1/models").status_code == status


def test_lenient_server_reports_problems_in_all_parts_of_requests() -> None:
    calls = [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
        {"role": "user", "content": "On"},
    ]
    with LoopbackServer(["one"], like="mistral", lenient=True) as server:
        assert post(server, "chat", {"model": "m", "seed": 1, "messages": messages}, {}).status == 200
        for words in ("API key", "'seed'", "Tool call id", "Unexpected role 'user' after role 'tool'"):
            assert len([problem for problem in server.problems if words in problem]) == 1


def test_each_imitated_server_reports_usage_like_the_original(subtests: pytest.Subtests) -> None:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    for like, place in {"mistral": ["usage"], "groq": ["x_groq", "usage"], "vllm": []}.items():
        with subtests.test(like), LoopbackServer(["one"], like=like) as server:
            lines = post(server, "chat", body, {"authorization": "Bearer secret"}).raw.decode().split("\n\n")
            chunks = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
            found: Any = chunks[-1]
            for key in place:
                found = found[key]
            assert found["prompt_tokens"] > 0 if place else "usage" not in found
