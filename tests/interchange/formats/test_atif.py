"""Trajectories in ATIF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmark_files import FILES, calls, loaded, recorded, results, runs_of, said

from agentnb import load_trace, load_traces
from agentnb.core.messages import Text, Thinking

SAMPLE = FILES / "atif/research.json"


def test_agent_step_becomes_a_reply_with_calls_and_results() -> None:
    run = load_trace(SAMPLE)
    steps = loaded("atif/research.json")["steps"]
    assert len(run.rounds) == sum(step["source"] == "agent" and not step.get("is_copied_context") for step in steps)
    assert [(call.id, call.name, call.arguments) for call in calls(run)] == [
        ("c1", "search", {"q": "maker"}),
        ("c2", "delegate", {"to": "reader"}),
    ]
    assert results(run) == [("Ada.", None), ("Read.\n[trajectory of a sub-agent: reader-1]", None)]
    assert any(part == Thinking("I need two things.") for message in run.messages for part in message.parts)
    assert (run.system, run.agent, run.model, run.status) == ("You research.", "lead", "gemini-2.5-flash", "unknown")
    assert (run.usage.input, run.usage.output, run.usage.cache_read) == (250, 25, 40) and run.usage.cost == 0.03
    assert recorded(run)["final_metrics"]["total_steps"] == 8 and run.started_at is not None
    assert [tool.name for tool in run.tools] == ["search", "delegate"] and run.tools[0].input_schema["type"] == "object"


def test_copied_steps_become_history_and_observations_without_calls_become_messages() -> None:
    assert said(load_trace(SAMPLE)) == [
        ("user", "", "An earlier question."),
        ("assistant", "", "An earlier answer."),
        ("user", "", "Who made this?[picture: images/a.png]"),
        ("assistant", "", ""),
        ("user", "system", "The context was compacted."),
        ("assistant", "", "I note it."),
        ("user", "environment", "Noted."),
        ("assistant", "", "Ada made it."),
    ]


def test_copied_calls_become_history_without_counting_tokens(tmp_path: Path) -> None:
    call = {"tool_call_id": "a", "function_name": "look", "arguments": {}}
    result = {"results": [{"source_call_id": "a", "content": "a hat"}]}
    reply = {"source": "agent", "message": "", "metrics": {"prompt_tokens": 5}}
    copied = [
        {"step_id": 1, "source": "user", "message": "Go.", "is_copied_context": True},
        {"step_id": 2, **reply, "tool_calls": [call], "observation": result, "is_copied_context": True},
    ]
    own = [{"step_id": 3, "source": "user", "message": "More."}, 7, {"step_id": 5, **reply, "message": "Done."}]
    record = {"schema_version": "ATIF-v1.2", "agent": {"name": "x", "version": "1"}, "steps": [*copied, *own]}
    (run,) = runs = runs_of(tmp_path / "t.jsonl", (record,), strict=False)
    assert run.result_of("a") is not None and (run.inherited, run.prompt, len(run.rounds)) == (3, "More.", 1)
    assert run.usage.input == 5 and [problem.position for problem in runs.problems] == ["step 3"]


def test_system_step_without_a_message_is_dropped() -> None:
    assert not any("blank" in warning for warning in load_trace(SAMPLE).warnings)


def test_nested_trajectory_becomes_a_nested_run() -> None:
    outer, nested = load_traces(SAMPLE)
    assert (outer.id, nested.id, nested.parent_id, nested.agent) == ("lead-1", "lead-1-reader-1", "lead-1", "reader")
    assert (nested.status, results(nested)[0][1]) == ("interrupted", "lost")


def test_trajectories_may_be_json_lines_and_damaged_steps_are_problems(tmp_path: Path) -> None:
    one = {"schema_version": "ATIF-v1.0", "session_id": "a b", "agent": {"name": "x", "version": "1"}}
    steps = [{"step_id": 1, "source": "user", "message": "Go."}, 7, {"step_id": 3, "source": "agent", "message": "Gone."}]
    runs = runs_of(tmp_path / "t.jsonl", ({**one, "steps": steps}, {**one, "steps": steps[:1]}, {"steps": 7}), strict=False)
    assert [run.text for run in runs] == ["Gone.", ""] and runs[0].id.startswith("trace-") and runs[0].id != runs[1].id
    assert [problem.position for problem in runs.problems] == ["line 1, step 1", "line 3"]


def test_late_unanswered_calls_are_placed_by_their_timestamps(tmp_path: Path) -> None:
    def step(second: int, message: str, **fields: Any) -> dict[str, Any]:
        at = f"2026-04-01T10:00:{second:02}Z"
        return {"step_id": second, "timestamp": at, "source": "agent", "message": message, **fields}

    def call(name: str) -> dict[str, Any]:
        return {"tool_calls": [{"tool_call_id": name, "function_name": "look", "arguments": {}}]}

    done = {"observation": {"results": [{"source_call_id": "b", "content": "a hat"}]}}
    steps = [
        {**step(0, "Go."), "source": "user"},
        step(1, "I look."),
        step(3, "", **call("b"), **done),
        step(5, "", extra={"stop_reason": "end_turn"}),
        step(4, "", **call("c")),
        step(1, "", **call("a")),
    ]
    record = {"schema_version": "ATIF-v1.2", "session_id": "s", "agent": {"name": "x", "version": "1"}, "steps": steps}
    run = runs_of(tmp_path / "t.jsonl", (record,))[0]
    assert [one.id for one in calls(run)] == ["a", "b", "c"]
    assert [code for _, code in results(run)] == ["lost", None, "lost"]
    assert (run.status, run.stop_reason, len(run.rounds)) == ("completed", "natural", 5)


def test_blank_thinking_is_not_a_part(tmp_path: Path) -> None:
    steps = [{"source": "agent", "message": "Done.", "reasoning_content": text} for text in (" \n", "Why?")]
    record = {"schema_version": "ATIF-v1.2", "agent": {"name": "x", "version": "1"}, "steps": steps}
    (run,) = runs_of(tmp_path / "t.jsonl", (record,))
    assert [[type(part) for part in message.parts] for message in run.messages[1:]] == [[Text], [Thinking, Text]]


def test_call_fails_if_its_step_reports_an_error(tmp_path: Path) -> None:
    def step(number: int, says: Any, *ids: str) -> dict[str, Any]:
        made = [{"tool_call_id": id_, "function_name": "Bash", "arguments": {}} for id_ in ids]
        answers = [{"source_call_id": id_, "content": "Exit code 2"} for id_ in ids]
        more = {"extra": {"tool_result_is_error": says}, "observation": {"results": answers}}
        return {"step_id": number, "source": "agent", "message": "", "tool_calls": made, **more}

    steps = [step(1, True, "a"), step(2, False, "b"), step(3, "no", "c"), step(4, True, "d", "e")]
    one = {"schema_version": "ATIF-v1.2", "agent": {"name": "x", "version": "1"}, "steps": steps}
    (run,) = runs_of(tmp_path / "t.jsonl", (one,))
    assert [result.is_error for each in run.rounds for result in each.results] == [True, False, False, False, False]
