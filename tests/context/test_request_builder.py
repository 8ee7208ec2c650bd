"""From run to request: prepared messages alternate, keep everything in order and never change."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_histories import StoredMessages
from run_builder import a_round, called, opening, run_of, said

from agentnb.agent.agent import Agent
from agentnb.context.request_builder import RequestBuilder, merge_messages
from agentnb.core.messages import Image, Message, Text, Thinking, ToolCall, ToolResult, user
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.function import tool


def request_of(run: Run) -> Request:
    return RequestBuilder("", (), {}).request(run)


def shape(request: Request) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in request.messages]


@pytest.mark.req("R0.87")
def test_first_request_contains_only_the_user_message() -> None:
    assert shape(request_of(run_of())) == [("user", "go")]


@pytest.mark.req("R0.87", "R2.10")
def test_results_of_a_round_form_one_message_after_calls() -> None:
    run = run_of(*a_round(0, "I look.", called("look", "a"), called("look", "b")))
    last = request_of(run).messages[-1]
    assert last.role == "tool"
    assert [part.call_id for part in last.parts] == ["a", "b"]  # type: ignore[union-attr]


@pytest.mark.req("R0.87")
def test_user_message_after_results_is_merged_into_their_message() -> None:
    run = run_of(*a_round(0, called("look", "a")), said("Look closer."), *a_round(1)[:1])
    last = request_of(run).messages[-1]
    assert last.role == "tool"
    assert [type(part) for part in last.parts] == [ToolResult, Text]
    assert last.text == "Look closer."


@pytest.mark.req("R0.87")
def test_consecutive_user_messages_are_merged() -> None:
    run = run_of(*a_round(0, "Yes?"), said("First."), said("Second."), *a_round(1)[:1])
    assert shape(request_of(run)) == [("user", "go"), ("assistant", "Yes?"), ("user", "First.\n\nSecond.")]


def test_empty_messages_and_texts_are_not_sent() -> None:
    history = (Message("user", (Text("hi"),)), Message("assistant", (Text(" \n"),)), Message("assistant", ()))
    run = run_of(*a_round(0, "", called("look", "a")), history=history)
    request = request_of(run)
    assert shape(request) == [("user", "hi\n\ngo"), ("assistant", ""), ("tool", "")]
    assert [type(part) for part in request.messages[1].parts] == [ToolCall]


def test_earlier_request_object_is_not_changed_by_later_rounds() -> None:
    conversation = RequestBuilder("", (), {})
    facts = [*a_round(0, called("look", "a")), said("More."), *a_round(1, "Half."), said("And?"), *a_round(2, "Whole.")]
    sent: list[tuple[Request, list[Message]]] = []
    for end in range(len(facts) + 1):
        request = conversation.request(run_of(*facts[:end]))
        sent.append((request, list(request.messages)))
    for request, then in sent:
        assert list(request.messages) == then
    assert len({len(then) for _, then in sent}) > 3


def test_sent_message_is_unchanged_by_a_later_merge() -> None:
    conversation = RequestBuilder("", (), {})
    before = conversation.request(run_of())
    after = conversation.request(run_of(said("And this."), *a_round(0)[:1]))
    assert shape(before) == [("user", "go")]
    assert shape(after) == [("user", "go\n\nAnd this.")]


def test_request_has_the_system_prompt_tools_and_settings() -> None:
    request = RequestBuilder("Be brief.", (), {"a": 1}).request(run_of())
    assert (request.system, request.tools, request.settings) == ("Be brief.", (), {"a": 1})


def test_adjacent_texts_are_joined_by_a_blank_line() -> None:
    picture = Image("image/png", b"x")
    joined = merge_messages(Message("user", (picture, Text("a"))), Message("user", (Text("b"), picture)))
    assert joined == Message("user", (picture, Text("a\n\nb"), picture))
    merged = merge_messages(Message("tool", (ToolResult("1", "f"),)), Message("user", (Text("b"),)))
    assert merged == Message("tool", (ToolResult("1", "f"), Text("b")))


TEXTS = st.sampled_from(["", " ", "a", "b\n", "c"]).map(Text)
PARTS = {
    "user": TEXTS | st.just(Image("image/png", b"x")),
    "assistant": TEXTS,
    "tool": TEXTS,
}
MESSAGES = st.sampled_from(sorted(PARTS)).flatmap(
    lambda role: st.lists(PARTS[role], max_size=3).map(lambda parts: Message(role, tuple(parts)))  # type: ignore[arg-type]
)


def units(messages: Any) -> list[tuple[bool, Any]]:
    """Return the role and content of each part, with merged texts split again."""
    found: list[tuple[bool, Any]] = []
    for message in messages:
        for part in message.parts:
            mine = message.role == "assistant"
            if isinstance(part, Text):
                found += [(mine, text.strip()) for text in part.text.split("\n\n") if text.strip()]
            else:
                found.append((mine, part))
    return found


@given(st.lists(st.lists(MESSAGES, max_size=4), max_size=6))
def test_prepared_messages_alternate_keep_parts_and_are_never_empty(
    batches: list[list[Message]],
) -> None:
    run, conversation = StoredMessages(), RequestBuilder("", (), {})
    sent: list[tuple[Request, bytes]] = []
    for batch in batches:
        run.messages.extend(batch)
        request = conversation.request(run)  # type: ignore[arg-type]
        sides = [message.role == "assistant" for message in request.messages]
        assert all(one != other for one, other in pairwise(sides))
        assert all(message.parts for message in request.messages)
        assert all(part.text.strip() for m in request.messages for part in m.parts if isinstance(part, Text))
        assert units(request.messages) == units(run.messages)
        sent.append((request, msgspec.json.encode(list(request.messages))))
    for request, then in sent:
        assert msgspec.json.encode(list(request.messages)) == then


def test_incremental_and_full_request_building_agree() -> None:
    facts = [*a_round(0, called("look", "a")), said("More."), *a_round(1, "Half."), said("And?"), *a_round(2, "Whole.")]
    growing = RequestBuilder("", (), {})
    for end in range(len(facts)):
        growing.request(run_of(*facts[:end]))
    run = run_of(*facts)
    assert list(growing.request(run).messages) == list(request_of(run).messages)


def test_run_can_be_built_from_its_first_event() -> None:
    assert Run.from_events([opening()]) == run_of()


def test_each_round_prepares_only_new_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[int] = []
    add = RequestBuilder._take

    def counted(self: RequestBuilder, index: int, message: Message) -> None:
        added[-1] += 1
        add(self, index, message)

    def answer(request: Request) -> ToolCall:
        added.append(0)
        return ToolCall("look")

    @tool(repeatable=True)
    def look() -> str:
        """Look."""
        return "seen"

    monkeypatch.setattr(RequestBuilder, "_take", counted)
    added.append(0)
    run = Agent(ScriptedModel([answer] * 30 + ["Done."]), tools=[look]).run_sync("go")
    assert added[:-1] == [1] + [2] * 29
    assert run.text == "Done."


def test_trailing_thought_is_kept_but_thoughts_alone_are_dropped() -> None:
    reply = Message("assistant", (Text("Well."), Thinking("Or not?")))
    thought = Message("assistant", (Thinking("Hm."), Thinking("Well?")))
    history = (user("go"), reply, user("And?"), thought)
    conversation = RequestBuilder("", (), {})
    conversation.take_in(run_of(history=history))
    assert [message.parts for message in conversation.messages[:2]] == [history[0].parts, reply.parts]
    assert thought not in conversation.messages and conversation.empty == {3: thought}
