"""Runs made from foreign records: gaps are filled and reported, and the result is a valid run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from foreign_traces import CHAT, TEAM, chat_run, team_run
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from some_events import json_values, words

from agentnb import Agent, Run, ToolCall, load_trace, save_trace, tables
from agentnb.context.request_history import sent_requests
from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.wire import decode, encode
from agentnb.core.messages import Image, Text, Thinking
from agentnb.core.request import ToolSpec, role_of
from agentnb.core.todos import Todo
from agentnb.core.usage import Usage
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.errors import SettingsError, TraceError
from agentnb.interchange.conversion.gaps import NO_PROMPT, NO_RESULT
from agentnb.interchange.conversion.run_writer import UNNAMED, RunWriter
from agentnb.models.scripted import ScriptedModel

ORIGIN = e.Origin("by_hand", "runs.json", "3")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
LOOK = ToolCall("look", {"at": 1}, "c1")


def writer(**about: Any) -> RunWriter:
    return RunWriter(ORIGIN, **{"model": "openai:x", "tools": (ToolSpec("look"),), **about})


def calls_of(run: Run) -> list[tuple[str, Any, str, str]]:
    """Return id, arguments, result text and error code of each call."""
    return [
        (record.call.id, record.call.arguments, record.result.text, record.result.error_code or "")
        for round_ in run.rounds
        for record in round_.records
        if record.result is not None
    ]


def test_complete_trace_yields_a_run_without_warnings() -> None:
    made = writer(agent="retail", tags=("tau",), run_id="r-7", parent_id="r-6")
    made.system("Be kind.")
    made.say("Look.", at=NOON)
    made.reply(
        "I look.", [LOOK], at=NOON + timedelta(seconds=1), usage=Usage(9, 2, cost=0.5), seconds=1.0, stop_reason="tool_calls"
    )
    made.result("c1", "A hat.", at=NOON + timedelta(seconds=3), seconds=2.0)
    made.reply("A hat.", at=NOON + timedelta(seconds=4))
    run = made.finish(at=NOON + timedelta(seconds=5), seconds=5.0)
    assert made.filled == [] and list(run.warnings) == []
    assert (run.id, run.parent_id, run.agent, run.system, run.prompt, run.origin) == (
        "r-7",
        "r-6",
        "retail",
        "Be kind.",
        "Look.",
        ORIGIN,
    )
    assert (run.status, run.stop_reason, run.text, run.seconds, run.started_at) == ("completed", "natural", "A hat.", 5.0, NOON)
    assert [(round_.reason, round_.status) for round_ in run.rounds] == [
        ("prompt", "success"),
        ("tool_results", "natural_completion"),
    ]
    assert [message.role for message in run.messages] == ["user", "assistant", "tool", "assistant"]
    first = run.rounds[0]
    assert (first.usage, first.model_seconds, first.records[0].seconds, first.seconds) == (
        Usage(9, 2, cost=0.5),
        1.0,
        2.0,
        None,
    )


Step = tuple[str, tuple[Any, ...], dict[str, Any]]


def say(*values: Any, **more: Any) -> Step:
    return "say", values, more


def reply(*values: Any, **more: Any) -> Step:
    return "reply", values, more


def result(*values: Any, **more: Any) -> Step:
    return "result", values, more


GO = say("Go.")
DONE = reply("Done.")
GAPS: dict[str, tuple[list[Step], list[tuple[str, Any, str, str]], str]] = {
    "ids that are used again": (
        [GO, reply(None, [LOOK]), result("c1", "one"), reply(None, [LOOK]), result("c1", "two"), DONE],
        [("c1", {"at": 1}, "one", ""), ("c1-2", {"at": 1}, "two", "")],
        "1 call repeated the id of an earlier call and got a new one.",
    ),
    "two calls of one id in one reply": (
        [GO, reply(None, [LOOK, LOOK]), result("c1", "one"), result("c1", "two")],
        [("c1", {"at": 1}, "one", ""), ("c1-2", {"at": 1}, "two", "")],
        "1 call repeated the id of an earlier call and got a new one.",
    ),
    "no ids": (
        [GO, reply(None, [ToolCall("look"), ToolCall("look")]), result("", "one"), result("", "two", name="look")],
        [("call-1", {}, "one", ""), ("call-2", {}, "two", "")],
        "2 calls had no id and got one.",
    ),
    "a result that never came": (
        [GO, reply(None, [LOOK]), DONE],
        [("c1", {"at": 1}, NO_RESULT, "lost")],
        "1 call has no result: a placeholder was added.",
    ),
    "a result that came late": (
        [GO, reply(None, [LOOK]), reply("Wait."), result("c1", "late"), DONE],
        [("c1", {"at": 1}, "late", "")],
        "",
    ),
    "a result that came twice": (
        [GO, reply(None, [LOOK]), result("c1", "one"), result("c1", "one")],
        [("c1", {"at": 1}, "one", "")],
        "1 result was duplicated.",
    ),
    "a second result that differs": (
        [GO, reply(None, [LOOK]), result("c1", "one"), result("c1", "two", name="look")],
        [("c1", {"at": 1}, "one", ""), ("c1-2", {}, "two", "")],
        "1 result had no call: a call without arguments was added.",
    ),
    "a result before any reply": (
        [GO, result("c9", "found", name="look")],
        [("c9", {}, "found", "")],
        "1 result had no call: a call without arguments was added.",
    ),
    "arguments as JSON": (
        [GO, reply(None, [ToolCall("look", '{"at": 1}', "c1")]), result("c1", "x")],
        [("c1", {"at": 1}, "x", "")],
        "",
    ),
    "no arguments": ([GO, reply(None, [ToolCall("look", None, "c1")]), result("c1", "x")], [("c1", {}, "x", "")], ""),
    "arguments that are no JSON": (
        [GO, reply(None, [ToolCall("look", "{at: 1", "c1")]), result("c1", "x")],
        [("c1", "{at: 1", "x", "")],
        "1 call had arguments that are not a JSON object.",
    ),
    "a failed call": (
        [GO, reply(None, [LOOK]), result("c1", "no", is_error=True, error_code="timeout")],
        [("c1", {"at": 1}, "no", "timeout")],
        "",
    ),
    "a blank message": ([GO, say("  "), DONE], [], "1 blank message was left out."),
}


def test_gaps_in_a_trace_are_filled_and_reported(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name, (steps, calls, said) in GAPS.items():
        with subtests.test(name):
            made = writer()
            for step, values, more in steps:
                getattr(made, step)(*values, **more)
            run = made.finish()
            assert calls_of(run) == calls and made.filled == ([said] if said else [])
            assert list(run.warnings) == ([f"Filled in what the trace lacks. {said}"] if said else [])
            assert load_trace(save_trace(run, tmp_path / "r.jsonl")) == run
            assert all(len(round_.calls) == len(round_.results) for round_ in run.rounds)


def test_reply_without_context_gets_prompt_model_and_tools() -> None:
    writer = RunWriter(e.Origin("by_hand"))
    writer.reply("Hello.", [ToolCall("", {}, "c1")])
    run = writer.finish(None)
    assert (run.prompt, run.model, run.status, [tool.name for tool in run.tools]) == (
        NO_PROMPT,
        UNNAMED,
        "interrupted",
        [UNNAMED],
    )
    assert [sentence.split(":")[0].split(" and ")[0] for sentence in writer.filled] == [
        "The model has no name",
        "The prompt is missing",
        "The trace does not describe its tools",
        "1 call had no tool name",
        "1 call has no result",
    ]


def test_run_id_is_stable_across_reads() -> None:
    def made(position: str, prompt: str = "Go.") -> str:
        writer = RunWriter(e.Origin("by_hand", "runs.json", position))
        writer.say(prompt)
        return writer.finish().id

    assert made("1") == made("1") and len({made("1"), made("2"), made("1", "Stop.")}) == 3


def test_unknown_times_stay_unknown_and_times_without_zone_are_utc(snapshot: Snapshot) -> None:
    made = writer()
    made.say("Go.")
    made.reply("One.", at=datetime(2026, 5, 1, 12))
    made.reply("Two.", at=datetime(9999, 1, 1, tzinfo=UTC))
    run = made.finish()
    assert (run.started_at, run.ended_at, run.seconds) == (None, None, None)
    assert [round_.ended_at for round_ in run.rounds] == [NOON, None] and [round_.reason for round_ in run.rounds] == [
        "prompt",
        "continued",
    ]
    assert made.filled == snapshot
    assert tables.rounds(run)[["seconds", "model_seconds", "started_at"]].isna().all().all()


def test_pictures_thinking_and_authors_are_kept() -> None:
    made = writer()
    made.say([Text("What is this?"), Image("image/png", b"x")], author="Anna")
    made.reply([Thinking("Hm."), Text("A dot.")], author="Seer")
    made.say([Text("Sure?"), Image("image/png", b"y")], author="Bert")
    made.reply("Yes.", author="Seer")
    run = made.finish()
    assert [message.author for message in run.messages] == ["Anna", "Seer", "Bert", "Seer"]
    assert [len(message.parts) for message in run.messages] == [2, 2, 2, 1]
    assert [round_.reason for round_ in run.rounds] == ["prompt", "said"]
    assert "Bert: Sure?" in page_html(run).replace("</b>", "").replace("<b>", "")


def test_events_of_other_kinds_keep_their_position(snapshot: Snapshot) -> None:
    made = writer()
    made.say("Go.")
    made.event(w.StepStarted, step="a", at=NOON)
    made.reply("Done.")
    made.event(w.FindingMade, rule="x", family="loops", first=0, last=0)
    run = made.finish("failed", "error")
    assert list(run.step_records) == ["a"] and run.findings[0].seq == 5 and run.status == "failed"
    with pytest.raises(SettingsError, check=snapshot.worded):
        made.event(e.ModelReplied)
    with pytest.raises(TraceError, check=snapshot.worded):
        odd = writer()
        odd.say("Go.")
        odd.event(w.StepStarted, step="a")
        odd.event(e.GuidanceGiven, guidance=Guidance("mine", "text", "Go."))
        odd.finish()


def test_guidance_and_todos_belong_to_their_round() -> None:
    made, once = writer(), Guidance("mine", "text", "Go.")
    made.say("Go.")
    made.event(e.GuidanceGiven, guidance=once)
    made.reply("I look.", [ToolCall("todo_operations", {}, "c1")], signals=["continue"])
    made.event(e.TodosChanged, todos=(Todo(1, "Look", "completed"),), by="model", call_id="c1")
    made.result("c1", "done")
    made.event(e.GuidanceGiven, guidance=once)
    made.reply("Done.")
    run = made.finish()
    assert [round_.guidance for round_ in run.rounds] == [(once,), (once,)]
    assert (run.rounds[0].completed, run.rounds[0].signals) == ((1,), ("continue",))


def test_todo_tools_of_other_products_are_recognized_by_name() -> None:
    names = ["TodoWrite", "write_todos", "update_plan", "todo_operations", "Bash", "think"]
    assert [role_of(name) for name in names] == ["list"] * 4 + ["work", "planning"]


json_texts = st.sampled_from(['{"a": 1}', "{", "[" * 2_000, "null", ""])
some_ids = st.sampled_from(["", "c1", "c2", "\ud83d"])
some_calls = st.lists(st.builds(ToolCall, st.sampled_from(["look", ""]), json_values | json_texts, some_ids), max_size=3)
some_times = st.none() | st.datetimes() | st.datetimes(timezones=st.just(UTC))
texts = st.none() | words | st.just("half \ud83d")
few = st.integers(0, 3)
steps = st.one_of(
    st.tuples(st.just("say"), st.tuples(texts), st.fixed_dictionaries({"author": words, "at": some_times})),
    st.tuples(st.just("system"), st.tuples(words), st.just({})),
    st.tuples(st.just("reply"), st.tuples(texts, some_calls), st.fixed_dictionaries({"author": words, "at": some_times})),
    st.tuples(st.just("result"), st.tuples(some_ids, texts), st.fixed_dictionaries({"name": words, "at": some_times})),
    st.tuples(st.just("compact"), st.tuples(words), st.fixed_dictionaries({"first": few, "rounds": few, "at": some_times})),
)


@examples(300)
@given(st.lists(steps, max_size=12), st.sampled_from(["completed", "failed", None]))
def test_any_trace_yields_a_run_that_saves_and_continues(taken: list[Step], status: Any) -> None:
    writer = RunWriter(ORIGIN)
    for step, values, more in taken:
        getattr(writer, step)(*values, **more)
    run = writer.finish(status)
    again = Run.from_events(run.events)
    again.mark_interrupted()  # unless it has an end
    assert again.messages == run.messages
    assert page_html(run) and run_text(run) and len(tables.tool_calls(run)) == len(calls_of(run))
    assert len({call[0] for call in calls_of(run)}) == len(calls_of(run))
    for _, seen in sent_requests(run):
        roles = [message.role == "assistant" for message in seen.request.messages]
        assert roles == [bool(place % 2) for place in range(len(roles))]
    model = ScriptedModel(["Well."])
    assert Agent(model).run_sync("And?", continue_from=run).text == "Well."


def test_summary_replaces_earlier_messages_except_those_kept() -> None:
    made = writer()
    made.say("Look.")
    for number in range(3):
        made.reply(f"I look {number}.", [ToolCall("look", {}, f"c{number}")])
        made.result(f"c{number}", f"Seen {number}.")
    made.compact("It was looked at.", first=1, rounds=1)
    made.say("And?")
    made.reply("Well.")
    made.say("Thanks.")
    made.compact("All was said.")
    run = made.finish()
    assert run.usage == Usage() and run.rounds[3].compactions[0].seconds is None
    compacted = run.rounds[3].compactions[0].compacted
    assert compacted is not None and (compacted.first, compacted.kept, compacted.count) == (1, 5, 4)
    (*_, last) = [seen.request.messages for _, seen in sent_requests(run)]
    assert [(one.role, one.text) for one in last] == [
        ("user", "Look.\n\nIt was looked at."),
        ("assistant", "I look 2."),
        ("tool", "And?"),
    ]
    assert [(message.author, message.text) for message in run.messages][-2:] == [("", "Thanks."), ("summary", "All was said.")]
    assert Run.from_events(run.events).messages == run.messages and page_html(run) and run_text(run)


def test_leading_system_messages_are_joined_and_later_ones_kept() -> None:
    made = writer()
    for text in ("Be kind.", "Be brief."):
        made.system(text)
    made.say("Look.")
    made.system("Be brave.")
    made.reply("I look.")
    run = made.finish()
    assert (run.system, run.prompt) == ("Be kind.\n\nBe brief.", "Look.")
    assert [(message.author, message.text) for message in run.messages] == [
        ("", "Look."),
        ("system", "Be brave."),
        ("", "I look."),
    ]


# Two formats, read with it


def test_chat_log_with_reused_ids_and_null_contents_is_read(tmp_path: Path) -> None:
    runs = [chat_run(record, str(place)) for place, record in enumerate(CHAT)]
    first = runs[0]
    assert (first.prompt, first.system, first.text) == ("Cancel my order.", "# Policy", "It is cancelled.")
    assert calls_of(first) == [
        ("call_a", {"order": "W1"}, "pending", ""),
        ("call_a-2", {"order": "W1"}, "cancelled", ""),
    ]
    assert [round_.text for round_ in first.rounds] == ["", "Shall I?", "", "It is cancelled."]
    assert first.origin == e.Origin("openai_chat", "chat.json", "0") and first.rounds[2].reason == "said"
    assert runs[1].status == "interrupted" and runs[1].rounds[-1].records[0].result.error_code == "lost"  # type: ignore[union-attr]
    assert list(tables.runs(runs).origin_position) == ["0", "1"] and tables.rounds(runs).seconds.isna().all()


def test_conversation_of_several_agents_keeps_its_speakers() -> None:
    run = team_run(TEAM)
    assert [(message.role, message.author) for message in run.messages] == [
        ("user", "human"),
        ("assistant", "Orchestrator"),
        ("assistant", "WebSurfer"),
        ("assistant", "Orchestrator"),
    ]
    assert [round_.reason for round_ in run.rounds] == ["prompt", "said", "said"]
    assert "WebSurfer: I opened the page." in run_text(run)


ODD: tuple[Any, ...] = (5, 1.5, True, b"x", [], {}, [5], {1: 2}, object(), "\ud800", NOON.replace(year=1), 2**70)
PLACES: dict[str, Callable[[RunWriter, Any], object]] = {
    "text": lambda made, odd: made.say(odd),
    "part": lambda made, odd: made.reply([Text(odd)]),
    "author": lambda made, odd: made.say("Go.", author=odd),
    "system": lambda made, odd: made.system(odd),
    "time": lambda made, odd: made.say("Go.", at=odd),
    "name": lambda made, odd: made.reply("", [ToolCall(odd, {}, "1")]),
    "id": lambda made, odd: made.reply("", [ToolCall("look", {}, odd)]),
    "arguments": lambda made, odd: made.reply("", [ToolCall("look", odd, "1")]),
    "usage": lambda made, odd: made.reply("", usage=odd),
    "seconds": lambda made, odd: made.reply("", seconds=odd),
    "metadata": lambda made, odd: made.reply("", metadata={"odd": odd}),
    "result": lambda made, odd: made.result("1", odd),
    "result's id": lambda made, odd: made.result(odd, "x"),
    "result's flag": lambda made, odd: made.result("1", "x", is_error=odd),
    "a step's id": lambda made, odd: made.event(w.StepStarted, step=odd),
    "no field": lambda made, odd: made.event(w.StepStarted, step="a", odd=odd),
}


def test_odd_trace_values_yield_a_run_or_trace_error(subtests: pytest.Subtests) -> None:
    for name, put in PLACES.items():
        with subtests.test(name):
            for odd in ODD:
                made = writer()
                try:
                    put(made, odd)
                    run = made.finish()
                except TraceError as error:
                    assert str(error).startswith("runs.json 3")
                    continue
                assert [*Run.from_events(map(decode, map(encode, run.events))).events] == [*run.events]
