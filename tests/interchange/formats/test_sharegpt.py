"""Conversations in ShareGPT form."""

from __future__ import annotations

from pathlib import Path

from benchmark_files import calls, results, runs_of, said
from session_files import FILES

from agentnb import load_traces
from agentnb.core.messages import Thinking

TOOLS = FILES / "sharegpt" / "tools.json"


def test_calls_in_their_own_message_are_answered_in_order() -> None:
    run = load_traces(TOOLS)[0]
    assert [(call.name, call.arguments) for call in calls(run)] == [
        ("weather", {"city": "Paris"}),
        ("weather", {"city": "Rome"}),
    ]
    assert results(run) == [("rain", None), ("sun", None)]
    assert (run.system, run.prompt, run.text, run.status) == (
        "You know the weather.",
        "Is it raining in Paris and Rome?",
        "In Paris, yes.",
        "unknown",
    )
    assert run.tools[0].description == "Tells the weather." and run.origin is not None and run.origin.task == "weather-1"


def test_tagged_thinking_and_calls_are_extracted_from_the_text() -> None:
    run = load_traces(TOOLS)[1]
    reply = next(message for message in run.messages if message.role == "assistant")
    assert reply.parts[0] == Thinking("I look.") and reply.text == "Let me see."
    assert [(call.name, call.arguments) for call in reply.calls] == [("weather", {"city": "Oslo"})]
    assert results(run) == [('{"name": "weather", "content": {"sky": "snow"}}', None)]
    assert said(run)[-1] == ("assistant", "", "It snows.") and run.system == "You are a function calling model."


def test_call_with_invalid_json_keeps_its_text() -> None:
    run = load_traces(TOOLS)[2]
    assert [(call.name, call.arguments) for call in calls(run)] == [("unknown", {"text": "weather(city=Bern"})]
    assert run.status == "interrupted"


def test_each_line_is_a_run_and_unknown_speakers_are_problems(tmp_path: Path) -> None:
    assert [run.text for run in load_traces(FILES / "sharegpt" / "plain.jsonl")] == ["Hi.", "Yes."]
    talk = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "A"}, {"from": "gpt", "value": "B"}]
    many = [*talk, *talk, {"from": "narrator", "value": "They leave."}]
    runs = runs_of(tmp_path / "t.json", [{"conversations": many}], strict=False)
    assert [problem.position for problem in runs.problems] == ["message 6"]
