"""Ephemeral text: at the end of one request, never in the conversation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ephemeral_text import TAG, reminders
from hypothesis import given
from hypothesis import strategies as st
from made_histories import StoredMessages
from property_settings import examples
from run_builder import a_round, called, guidance_of, run_of, said
from scripted_runs import Counting, last_results

from agentnb import load_trace, save_trace
from agentnb.agent.agent import Agent
from agentnb.context.request_builder import RequestBuilder, ephemeral_text
from agentnb.core.log.events import Event, GuidanceGiven, ModelReplied, RoundStarted
from agentnb.core.messages import Image, Message, Text, ToolCall, ToolResult
from agentnb.core.request import Request
from agentnb.core.view import View
from agentnb.detect.guidance_rules import CELLS
from agentnb.detect.run import Run
from agentnb.guidance import system_reminder
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.todos.board import TodoBoard


def opened(*guidance: str, note: str = "", before: tuple[Any, ...] = ()) -> Run:
    """Return a run whose open round has this guidance."""
    count = sum(kind is RoundStarted for kind, _ in before)
    facts = [*before, (RoundStarted, {"index": count, "reason": "tool_results", "note": note})]
    return run_of(*facts, *[(GuidanceGiven, {"guidance": guidance_of(text=text)}) for text in guidance])


# The text


def test_guidance_comes_first_and_the_note_last_in_ephemeral_text() -> None:
    assert ephemeral_text(opened("One.", "Two.", note="Round 1 of 5.")) == "One.\n\nTwo.\n\nRound 1 of 5."
    assert ephemeral_text(opened("One.")) == "One."
    assert ephemeral_text(opened(note="Round 1 of 5.")) == "Round 1 of 5."


def test_ephemeral_text_is_empty_without_guidance_or_open_round() -> None:
    assert ephemeral_text(opened()) == ""
    assert ephemeral_text(run_of()) == ""
    assert ephemeral_text(run_of(*a_round(0, "Well."))) == ""


# The request


def passed(run: Run, text: str = "Mind the list.") -> Request:
    return RequestBuilder("", (), {}).request(run, text)


@pytest.mark.req("R0.20", "R0.21")
def test_ephemeral_text_is_a_separate_last_part() -> None:
    last = passed(run_of()).messages[-1]
    assert last == Message("user", (Text("go"), Text(system_reminder("Mind the list."))))


@pytest.mark.req("R0.21")
def test_ephemeral_text_follows_tool_results() -> None:
    last = passed(run_of(*a_round(0, called("look", "a"), called("look", "b")))).messages[-1]
    assert last.role == "tool"
    assert [type(part) for part in last.parts] == [ToolResult, ToolResult, Text]
    assert last.text == system_reminder("Mind the list.")


@pytest.mark.req("R0.21")
def test_ephemeral_text_follows_results_and_user_messages() -> None:
    run = run_of(*a_round(0, called("look", "a")), said("Hurry."), *a_round(1)[:1])
    assert [getattr(part, "text", "") for part in passed(run).messages[-1].parts][1:] == [
        "Hurry.",
        system_reminder("Mind the list."),
    ]


@pytest.mark.req("R0.20")
def test_empty_ephemeral_text_adds_no_part() -> None:
    assert passed(run_of(), "").messages == run_of().messages


@pytest.mark.req("R0.20")
def test_ephemeral_text_does_not_appear_in_later_requests() -> None:
    conversation, facts = RequestBuilder("", (), {}), [*a_round(0, called("look", "a")), *a_round(1, "Well."), said("And?")]
    requests = [conversation.request(run_of(*facts[:end], *a_round(9)[:1]), f"Number {end}.") for end in range(len(facts) + 1)]
    for number, request in enumerate(requests):
        assert reminders(request) == [system_reminder(f"Number {number}.")]
        assert TAG in request.messages[-1].parts[-1].text  # type: ignore[union-attr]


@pytest.mark.req("R0.20")
def test_message_merged_later_does_not_include_the_reminder() -> None:
    conversation = RequestBuilder("", (), {})
    first = conversation.request(run_of(), "Mind.")
    second = conversation.request(run_of(said("And this."), *a_round(0)[:1]), "")
    assert [message.text for message in second.messages] == ["go\n\nAnd this."]
    assert reminders(first) == [system_reminder("Mind.")]


PARTS = st.sampled_from(["", " ", "a", "b\n"]).map(Text) | st.just(Image("image/png", b"x")) | st.just(ToolResult("1", "f"))
MESSAGES = st.builds(Message, st.sampled_from(["user", "tool", "assistant"]), st.lists(PARTS, max_size=3).map(tuple))


def seen(request: Request) -> bytes:
    return msgspec.json.encode(list(request.messages))


def ended_by_the_person(batches: list[list[Message]]) -> Iterator[list[Message]]:
    for batch in batches:
        yield [*batch, Message("user", (Text("go on"),))]


@pytest.mark.req("R0.20")
@examples(200)
@given(st.lists(st.lists(MESSAGES, max_size=4), max_size=6), st.lists(st.text(max_size=5), min_size=6, max_size=6))
def test_ephemeral_text_leaves_stored_messages_unchanged(batches: list[list[Message]], texts: list[str]) -> None:
    run, with_it, without = StoredMessages(), RequestBuilder("", (), {}), RequestBuilder("", (), {})
    sent: list[tuple[Request, bytes]] = []
    for batch, text in zip(ended_by_the_person(batches), texts, strict=False):
        run.messages.extend(batch)
        stored = msgspec.json.encode(run.messages)
        request, plain = with_it.request(run, text), without.request(run)  # type: ignore[arg-type]
        sent.append((request, seen(request)))
        assert msgspec.json.encode(run.messages) == stored
        *before, last = request.messages
        assert before == list(plain.messages[:-1])
        end = (Text(system_reminder(text)),) if text else ()
        assert last == Message(plain.messages[-1].role, (*plain.messages[-1].parts, *end))
    for request, then in sent:
        assert seen(request) == then


@given(st.lists(st.integers(), min_size=1, max_size=8), st.integers(1, 8), st.integers(), st.slices(8))
def test_view_with_a_replaced_last_item_behaves_like_tuple(items: list[int], size: int, last: int, part: slice) -> None:
    size = min(size, len(items))
    whole = list(items)
    view, same = View(items, size, last), (*items[: size - 1], last)
    assert view == same and tuple(view) == same and len(view) == size and repr(view) == repr(same)
    assert view[part] == same[part] and view[-1] == last and tuple(reversed(view)) == same[::-1]
    assert [view[i] for i in range(-size, size)] == [same[i] for i in range(-size, size)]
    items.append(5)
    assert view == same and items[:-1] == whole


# Whole runs


def guided_run() -> tuple[Run, ScriptedModel]:
    """Return a run of tools, text, text, tools, text with an open todo."""
    model = ScriptedModel([ToolCall("look"), "I looked.", "I could see.", ToolCall("see"), "It is done.\n[WORKFLOW_COMPLETE]"])
    counting = Counting()
    agent = Agent(model, tools=[counting.tool("look"), counting.tool("see")], todos=TodoBoard(["Look around"]))
    return agent.run_sync("go"), model


@pytest.mark.req("R0.20", "R0.21")
def test_every_request_has_one_reminder_at_its_end() -> None:
    run, model = guided_run()
    assert len(model.requests) == len(run.rounds) == 5
    for one, request in zip(run.rounds, model.requests, strict=True):
        (reminder,) = reminders(request)
        assert request.messages[-1].role != "assistant"
        assert request.messages[-1].parts[-1] == Text(reminder)
        assert reminder == system_reminder("\n\n".join([*[guidance.text for guidance in one.guidance], one.note]))


@pytest.mark.req("R0.20")
def test_ephemeral_text_appears_in_neither_conversation_nor_export(tmp_path: Path) -> None:
    run, _ = guided_run()
    assert all(one.guidance for one in list(run.rounds)[1:])
    loaded = load_trace(save_trace(run, tmp_path / "run.jsonl"))
    assert loaded == run
    conversation = msgspec.json.encode(list(loaded.messages)).decode()
    assert TAG not in conversation
    for round in run.rounds:
        assert round.note and round.note not in conversation
        assert not any(msgspec.json.encode(guidance.text).decode()[1:-1] in conversation for guidance in round.guidance)


@pytest.mark.req("R0.20")
def test_continued_run_does_not_repeat_ephemeral_text() -> None:
    run, _ = guided_run()
    model = ScriptedModel(["Fine."])
    Agent(model).run_sync("And now?", continue_from=run)
    (request,) = model.requests
    assert len(reminders(request)) == 1 and "TODO" not in reminders(request)[0]


@pytest.mark.req("R0.23")
def test_guidance_describes_only_the_previous_round() -> None:
    run, _ = guided_run()
    cells = [[guidance.cell for guidance in round.guidance if guidance.cell in CELLS] for round in run.rounds]
    assert cells == [[], ["todos_tools"], ["todos_text"], ["todos_text"], ["todos_tools"]]


@pytest.mark.req("R0.23")
def test_previous_tool_use_is_known_until_the_model_replies() -> None:
    mine, known = Run(), []

    def watch(item: Any) -> None:
        if isinstance(item, Event):
            mine.apply(item)  # type: ignore[arg-type]
        if isinstance(item, RoundStarted | GuidanceGiven | ModelReplied):
            known.append((type(item).__name__, mine.last_round_had_tool_results))

    counting = Counting()
    model = ScriptedModel([ToolCall("look"), "Well.\n[CONTINUE]", "Done."])
    run = Agent(model, tools=[counting.tool("look")], todos=False).run_sync("go", watch=watch)
    assert mine == run
    assert known == [
        *[("RoundStarted", False), ("ModelReplied", False)],
        *[("RoundStarted", True), ("GuidanceGiven", True), ("ModelReplied", True)],
        *[("RoundStarted", False), ("GuidanceGiven", False), ("ModelReplied", False)],
    ]
    assert [guidance.cell for round in run.rounds for guidance in round.guidance] == ["tools", "text"]


@pytest.mark.req("R0.23")
def test_round_with_only_blocked_calls_counts_as_having_results() -> None:
    model = ScriptedModel([ToolCall("look")] * 3 + ["Done."])
    run = Agent(model, tools=[Counting().tool("look")], todos=False).run_sync("go")
    assert last_results(model.requests[3])[0].error_code == "duplicate_call_blocked"
    assert [guidance.cell for guidance in run.rounds[3].guidance] == ["tools"]
