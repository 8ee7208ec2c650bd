"""Normalized replies for the log: a unique id for every call, and only serializable content."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_builder import a_round, called, run_of
from run_checks import assert_every_call_has_one_result
from scripted_runs import look, reply

from agentnb.agent.agent import Agent
from agentnb.core.messages import Message, Text, Thinking, ToolCall
from agentnb.detect.run import Run
from agentnb.models.model import Reply
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.replies import normalize_reply as module
from agentnb.store.store import Store


def normalize_reply(message: Message, run: Run) -> Message:
    return module.normalize_reply(Reply(message), run).message


def ids(run: Run) -> list[str]:
    return [call.id for a in run.rounds for call in a.calls]


def assert_fresh(call_id: str) -> None:
    assert call_id.startswith("toolu_") and len(call_id) > len("toolu_")


@pytest.mark.req("R2.11")
def test_calls_without_ids_get_distinct_fresh_ids() -> None:
    run = Agent(ScriptedModel([[ToolCall("look"), ToolCall("look")], ToolCall("look"), "Done."]), tools=[look]).run_sync("go")
    assert len(set(ids(run))) == 3
    for call_id in ids(run):
        assert_fresh(call_id)
    assert_every_call_has_one_result(run)


@pytest.mark.req("R2.11")
def test_id_repeated_within_a_reply_is_replaced_after_the_first() -> None:
    run = Agent(ScriptedModel([[called("look", "x"), called("look", "x")], "Done."]), tools=[look]).run_sync("go")
    first, second = ids(run)
    assert first == "x"
    assert_fresh(second)
    assert_every_call_has_one_result(run)


@pytest.mark.req("R2.11")
def test_an_id_repeated_in_a_later_round_is_replaced() -> None:
    run = Agent(ScriptedModel([called("look", "x"), called("look", "x"), "Done."]), tools=[look]).run_sync("go")
    assert ids(run)[0] == "x"
    assert_fresh(ids(run)[1])
    assert_every_call_has_one_result(run)


@pytest.mark.req("R2.11", "R0.87")
def test_id_repeated_from_the_continued_conversation_is_replaced() -> None:
    agent = Agent(ScriptedModel([called("look", "x"), "One.", [called("look", "x"), ToolCall("look")], "Two."]), tools=[look])
    first = agent.run_sync("one")
    second = agent.run_sync("two", continue_from=first)
    assert "x" not in ids(second)
    assert len(set(ids(first) + ids(second))) == 3
    assert_every_call_has_one_result(second)


@pytest.mark.req("R2.11")
def test_id_from_the_model_is_kept() -> None:
    message = Message("assistant", (called("look", "call_7"),))
    assert normalize_reply(message, run_of()) == message


@pytest.mark.req("R2.11")
def test_same_run_gets_the_same_fresh_ids() -> None:
    message = Message("assistant", (ToolCall("look"), ToolCall("look")))
    assert normalize_reply(message, run_of()) == normalize_reply(message, run_of())


@pytest.mark.req("R2.11")
def test_fresh_id_is_never_already_used() -> None:
    fresh = normalize_reply(Message("assistant", (ToolCall("look"),)), run_of()).calls[0]
    taken = run_of(*a_round(0, fresh))
    again = normalize_reply(Message("assistant", (ToolCall("look"), ToolCall("look", {}, fresh.id))), taken)
    assert len({fresh.id, *(call.id for call in again.calls)}) == 3


def test_lone_surrogates_in_text_and_thinking_are_replaced() -> None:
    message = normalize_reply(Message("assistant", (Text("a\ud800b"), Thinking("\udfff"))), run_of())
    assert [part.text for part in message.parts] == ["a\ufffdb", "\ufffd"]  # type: ignore[union-attr]


def test_complete_characters_are_kept() -> None:
    message = Message("assistant", (Text("žluťoučký 🐎"), Thinking("é")))
    assert normalize_reply(message, run_of()) == message


@pytest.mark.parametrize(
    "call",
    [ToolCall("look", {"name": "\ud800"}, "toolu_1"), ToolCall("lo\ud800ok", {}, "toolu_1"), ToolCall("look", {}, "\ud800")],
    ids=["in an argument", "in the name", "in the id"],
)
def test_lone_surrogates_in_a_call_do_not_break_the_run(call: ToolCall, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    run = Agent(ScriptedModel([reply(call), "Done."]), tools=[look]).run_sync("go", store=store)
    assert run.text == "Done."
    assert store.load(run.id) == run
