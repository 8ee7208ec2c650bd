"""What is said in passing: at the end of one request, once, and never in the conversation."""

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
    """A run with an open round in which these things are said in passing."""
    count = sum(kind is RoundStarted for kind, _ in before)
    facts = [*before, (RoundStarted, {"index": count, "reason": "tool_results", "note": note})]
    return run_of(*facts, *[(GuidanceGiven, {"guidance": guidance_of(text=text)}) for text in guidance])


# The text


def test_all_that_is_said_is_one_text_in_its_order_with_the_note_at_the_end() -> None:
    assert ephemeral_text(opened("One.", "Two.", note="Round 1 of 5.")) == "One.\n\nTwo.\n\nRound 1 of 5."
    assert ephemeral_text(opened("One.")) == "One."
    assert ephemeral_text(opened(note="Round 1 of 5.")) == "Round 1 of 5."


def test_nothing_is_said_in_passing_without_words_or_an_open_round() -> None:
    assert ephemeral_text(opened()) == ""
    assert ephemeral_text(run_of()) == ""
    assert ephemeral_text(run_of(*a_round(0, "Well."))) == ""


# The request


def passed(run: Run, text: str = "Mind the list.") -> Request:
    return RequestBuilder("", (), {}).request(run, text)


@pytest.mark.req("R0.20", "R0.21")
def test_it_stands_as_a_part_of_its_own_at_the_end_of_the_last_message() -> None:
    last = passed(run_of()).messages[-1]
    assert last == Message("user", (Text("go"), Text(system_reminder("Mind the list."))))


@pytest.mark.req("R0.21")
def test_after_tool_results_it_stands_behind_them() -> None:
    last = passed(run_of(*a_round(0, called("look", "a"), called("look", "b")))).messages[-1]
    assert last.role == "tool"
    assert [type(part) for part in last.parts] == [ToolResult, ToolResult, Text]
    assert last.text == system_reminder("Mind the list.")


@pytest.mark.req("R0.21")
def test_after_results_and_words_of_the_person_it_stands_behind_both() -> None:
    run = run_of(*a_round(0, called("look", "a")), said("Hurry."), *a_round(1)[:1])
    assert [getattr(part, "text", "") for part in passed(run).messages[-1].parts][1:] == [
        "Hurry.",
        system_reminder("Mind the list."),
    ]


@pytest.mark.req("R0.20")
def test_nothing_is_added_where_nothing_is_said() -> None:
    assert passed(run_of(), "").messages == run_of().messages


@pytest.mark.req("R0.20")
def test_what_was_said_in_passing_is_in_no_later_request() -> None:
    conversation, facts = RequestBuilder("", (), {}), [*a_round(0, called("look", "a")), *a_round(1, "Well."), said("And?")]
    requests = [conversation.request(run_of(*facts[:end], *a_round(9)[:1]), f"Number {end}.") for end in range(len(facts) + 1)]
    for number, request in enumerate(requests):
        assert reminders(request) == [system_reminder(f"Number {number}.")]
        assert TAG in request.messages[-1].parts[-1].text  # type: ignore[union-attr]


@pytest.mark.req("R0.20")
def test_a_message_that_joins_the_last_one_later_joins_it_without_the_reminder() -> None:
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
def test_for_any_conversation_what_is_said_in_passing_changes_no_stored_message(
    batches: list[list[Message]], texts: list[str]
) -> None:
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
def test_a_view_with_another_last_item_reads_like_a_tuple_with_it(items: list[int], size: int, last: int, part: slice) -> None:
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
    """Tools, words, words, tools, words: with a todo open all the time."""
    model = ScriptedModel([ToolCall("look"), "I looked.", "I could see.", ToolCall("see"), "It is done.\n[WORKFLOW_COMPLETE]"])
    counting = Counting()
    agent = Agent(model, tools=[counting.tool("look"), counting.tool("see")], todos=TodoBoard(["Look around"]))
    return agent.run_sync("go"), model


@pytest.mark.req("R0.20", "R0.21")
def test_every_request_of_a_run_has_exactly_one_reminder_at_its_end() -> None:
    run, model = guided_run()
    assert len(model.requests) == len(run.rounds) == 5
    for one, request in zip(run.rounds, model.requests, strict=True):
        (reminder,) = reminders(request)
        assert request.messages[-1].role != "assistant"
        assert request.messages[-1].parts[-1] == Text(reminder)
        assert reminder == system_reminder("\n\n".join([*[said.text for said in one.guidance], one.note]))


@pytest.mark.req("R0.20")
def test_what_was_said_in_passing_is_nowhere_in_the_conversation_and_its_export(tmp_path: Path) -> None:
    run, _ = guided_run()
    assert all(one.guidance for one in list(run.rounds)[1:])
    loaded = load_trace(save_trace(run, tmp_path / "run.jsonl"))
    assert loaded == run
    conversation = msgspec.json.encode(list(loaded.messages)).decode()
    assert TAG not in conversation
    for one in run.rounds:
        assert one.note and one.note not in conversation
        assert not any(msgspec.json.encode(said.text).decode()[1:-1] in conversation for said in one.guidance)


@pytest.mark.req("R0.20")
def test_who_goes_on_with_a_run_is_not_told_again_what_was_said_in_passing() -> None:
    run, _ = guided_run()
    model = ScriptedModel(["Fine."])
    Agent(model).run_sync("And now?", continue_from=run)
    (request,) = model.requests
    assert len(reminders(request)) == 1 and "TODO" not in reminders(request)[0]


@pytest.mark.req("R0.23")
def test_what_guidance_says_of_the_round_before_is_true_of_exactly_that_round() -> None:
    run, _ = guided_run()
    cells = [[said.cell for said in one.guidance if said.cell in CELLS] for one in run.rounds]
    assert cells == [[], ["todos_tools"], ["todos_text"], ["todos_text"], ["todos_tools"]]


@pytest.mark.req("R0.23")
def test_whether_tools_were_used_is_still_known_when_guidance_was_given_and_until_the_model_has_replied() -> None:
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
    assert [said.cell for one in run.rounds for said in one.guidance] == ["tools", "text"]


@pytest.mark.req("R0.23")
def test_a_round_of_which_all_calls_were_blocked_had_tool_results_too() -> None:
    model = ScriptedModel([ToolCall("look")] * 3 + ["Done."])
    run = Agent(model, tools=[Counting().tool("look")], todos=False).run_sync("go")
    assert last_results(model.requests[3])[0].error_code == "duplicate_call_blocked"
    assert [said.cell for said in run.rounds[3].guidance] == ["tools"]
