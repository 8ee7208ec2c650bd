"""Incremental encoding: a request encodes only its new messages, however long the history."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace
from quick_models import FORMATS
from wire_by_hand import PROVIDERS, assistant, call, requests_of_a_run, result, results, user

from agentnb.core.messages import Message
from agentnb.core.request import Request, Sent
from agentnb.models.options import Options
from agentnb.models.provider import Provider

MARK = b',"cache_control":{"type":"ephemeral"}'
CLOSING = b'"]}'


class Maker:
    """Encodes messages and records which."""

    def __init__(self) -> None:
        self.of: list[Message] = []

    def __call__(self, message: Message) -> str:
        self.of.append(message)
        return message.text


def unchanged(before: bytes, after: bytes) -> int:
    """Return the length of the common prefix."""
    return next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))


def conversation(count: int) -> list[Message]:
    return [assistant(str(index)) if index % 2 else user(str(index)) for index in range(count)]


def test_each_message_is_converted_once_per_conversation() -> None:
    items, kept, make = conversation(9), {}, Maker()
    for length in (1, 3, 3, 5, 9):
        made = Sent(items, length, None, kept).map_messages("form", make, length - 1)
        assert made == [str(index) for index in range(length - 1)]
    assert make.of == items[:8]


def test_last_message_is_not_cached_because_it_may_change() -> None:
    items, kept, make = conversation(3), {}, Maker()
    assert Sent(items, 3, None, kept).map_messages("form", make, 3) == ["0", "1"]
    items[2] = user("changed")
    items += [assistant("3"), user("4")]
    assert Sent(items, 5, None, kept).map_messages("form", make, 4) == ["0", "1", "changed", "3"]


def test_older_request_is_rebuilt_from_its_content() -> None:
    items, kept, make = conversation(9), {}, Maker()
    old = Sent(items, 5, None, kept)
    Sent(items, 9, None, kept).map_messages("form", make, 8)
    assert old.map_messages("form", make, 4) == ["0", "1", "2", "3"]


def test_each_converted_form_is_cached_separately() -> None:
    items, kept = conversation(3), {}
    sent = Sent(items, 3, None, kept)
    assert sent.map_messages("text", lambda message: message.text, 2) == ["0", "1"]
    assert sent.map_messages("role", lambda message: message.role, 2) == ["user", "assistant"]


def test_lasting_message_is_the_last_without_ephemeral_text() -> None:
    items = conversation(3)
    sent = Sent(items, 3, user("2", "in passing"), {})
    assert sent[-1].parts != items[2].parts and sent.lasting is items[2]
    assert Sent(items, 3, None, {}).lasting is items[2]


def test_request_head_is_encoded_again_only_if_changed() -> None:
    sent, made = Sent(conversation(1), 1, None, {}), []

    def head(name: str) -> Any:
        return lambda: made.append(name) or name

    tools = ({"a": 1},)
    assert [sent.once("head", ("m", tools), head(name)) for name in "ab"] == ["a", "a"]
    assert sent.once("head", ("m", ({"a": 1},)), head("c")) == "a"
    assert sent.once("head", ("m", ({"a": 2},)), head("d")) == "d"
    assert made == ["a", "d"]


def test_changed_model_options_apply_later_in_a_conversation(subtests: pytest.Subtests) -> None:
    for name, provider in PROVIDERS.items():
        with subtests.test(name):
            first, second = requests_of_a_run()[:2]
            provider.body("m", first, Options(max_tokens=5))
            bodies = [
                json.loads(provider.body("other", second, Options(max_tokens=6))),
                json.loads(provider.body("other", replace(second, settings={"max_tokens": 7}), Options(max_tokens=6))),
            ]
            assert [6 in body.values() and "other" in body.values() for body in bodies] == [True, False]
            assert 7 in bodies[1].values()


def test_request_in_a_conversation_equals_a_standalone_one(subtests: pytest.Subtests) -> None:
    """Caching must not show. (Cache marks are excluded: a standalone request does not know its lasting part.)"""
    for name, provider in PROVIDERS.items():
        with subtests.test(name):
            for request in requests_of_a_run():
                alone = replace(request, messages=tuple(request.messages), settings={})
                for options in (Options(cache="no"), Options(cache="no", images=False), Options(cache="no", echo=True)):
                    assert provider.body("m", request, options) == provider.body("m", alone, options)


def test_lasting_part_of_a_request_starts_the_next_unchanged(subtests: pytest.Subtests) -> None:
    """Providers cache prefixes of requests: after one changed byte everything is paid again."""
    for name, provider in PROVIDERS.items():
        with subtests.test(name):
            requests = requests_of_a_run(8)
            for before, after in pairwise(requests):
                assert before.messages[-1] != before.messages.lasting, "guidance is given in each round"
                lasting = replace(before, messages=(*before.messages[:-1], before.messages.lasting))
                first, second = (provider.body("m", one, Options()).replace(MARK, b"") for one in (lasting, after))
                assert unchanged(first, second) >= len(first.rstrip(CLOSING))


def test_encoding_work_per_round_does_not_grow_with_history(subtests: pytest.Subtests) -> None:
    for name in FORMATS:
        with subtests.test(name), pytest.MonkeyPatch.context() as monkeypatch:
            module = import_module(f"agentnb.models.providers.{name.replace('compatible', 'openai').replace('-', '_')}")
            sizes: list[int] = []
            monkeypatch.setattr(module, "encode", counting(module.encode, sizes))
            in_each_round = list(sizes_of_rounds(PROVIDERS[name], sizes))
            assert len(set(in_each_round[2:])) == 1 and in_each_round[-1] < 1_000


def counting(encode: Callable[[Any], bytes], sizes: list[int]) -> Callable[[Any], bytes]:
    """Wrap the function and record the sizes of its results."""

    def counted(value: Any) -> bytes:
        made = encode(value)
        sizes.append(len(made))
        return made

    return counted


def sizes_of_rounds(provider: Provider, sizes: list[int]) -> Iterator[int]:
    """Return the encoded sizes of each round of a conversation."""
    items: list[Message] = [user("0" * 100)]
    kept: dict[Any, Any] = {}
    options, tools, settings = Options(), (), {}
    for _ in range(40):
        sizes.clear()
        provider.body("m", Request("system", Sent(items, len(items), None, kept), tools, settings), options)
        yield sum(sizes)
        items += [assistant("1" * 100), user("2" * 100)]


def test_continued_reply_reencodes_nothing_and_leaves_the_conversation_unchanged() -> None:
    items, kept, make = conversation(5), {}, Maker()
    sent = Sent(items, 5, user("4", "in passing"), kept)
    sent.map_messages("form", make, 4)
    more = sent.and_then(assistant("5"))
    again = more.and_then(assistant("6"))
    assert again.map_messages("form", make, 6) == ["0", "1", "2", "3", "4in passing", "5"]
    assert make.of == [*items[:4], sent[-1], more[-1]]
    assert [one.text for one in again] == ["0", "1", "2", "3", "4in passing", "5", "6"]
    assert again.lasting is items[4] and (sent.said_since, more.said_since, again.said_since) == (0, 1, 2)
    items += [assistant("answer"), user("6")]
    assert Sent(items, 7, None, kept).map_messages("form", make, 6) == ["0", "1", "2", "3", "4", "answer"]


def test_standalone_request_can_be_continued() -> None:
    request = Request("s", (user("Go"),), (), {"max_tokens": 5}).and_then(assistant("So"))
    assert request == Request("s", (user("Go"), assistant("So")), (), {"max_tokens": 5})


def test_called_tools_are_collected_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent without tools continues a conversation with calls: the API requires their tools."""
    looked: list[str] = []
    monkeypatch.setattr("agentnb.models.providers.anthropic.safe_name", lambda name: looked.append(name) or name)
    items, kept = [user("Go")], {}
    for number in range(20):
        body = json.loads(
            PROVIDERS["anthropic"].body("m", Request("", Sent(items, len(items), None, kept)), Options(cache="no"))
        )
        assert [tool["name"] for tool in body.get("tools", [])] == [f"tool{n}" for n in range(number)]
        items += [assistant(call(number, f"tool{number}")), results(result(number, "1"))]
    assert looked.count("tool0") == 2, "once for its name, once for the message"
