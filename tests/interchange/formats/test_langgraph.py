"""Threads of LangGraph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import FILES, calls, loaded, recorded, records, results, runs_of, said

from agentnb import load_trace

ASKED = {"type": "human", "content": "Go."}
SAID = {"type": "ai", "content": "Gone."}


def state(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"values": {"messages": [*messages]}, "next": [], "tasks": []} | more


def test_thread_history_becomes_one_run_with_state_times() -> None:
    run = load_trace(FILES / "langgraph/history.json")
    newest = loaded("langgraph/history.json")[0]["values"]["messages"]
    assert len(run.messages) == len(newest) and len(run.rounds) == sum(message["type"] == "ai" for message in newest)
    assert [(call.id, call.name, call.arguments) for call in calls(run)] == [("c1", "add", {"a": 2, "b": 2})]
    assert results(run) == [("4", None)] and said(run)[-1] == ("assistant", "mathematician", "4.")
    assert (run.model, run.status, run.usage.input, run.usage.cache_read, run.usage.reasoning) == (
        "gpt-4o-mini",
        "completed",
        30,
        10,
        4,
    )
    assert run.started_at is not None and (run.started_at.second, recorded(run)["thread"]) == (0, "thread-1")
    assert [message.text for message in run.messages if message.role == "assistant"] == ["I add.", "4."]


def test_list_of_threads_yields_one_run_per_thread(tmp_path: Path) -> None:
    threads = [state(ASKED, SAID, thread_id=name, status="idle") for name in ("a", "b")]
    runs = runs_of(tmp_path / "t.json", threads)
    assert [run.origin and run.origin.position for run in runs] == ["0", "1"] and runs[0].id != runs[1].id


def test_messages_may_be_serialized_constructors_or_separate_data(tmp_path: Path, subtests: pytest.Subtests) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    forms = {
        "constructor": {
            "lc": 1,
            "type": "constructor",
            "id": ["langchain", "schema", "messages", "AIMessage"],
            "kwargs": {"content": "", "additional_kwargs": {"tool_calls": [call]}},
        },
        "data": {"type": "ai", "data": {"content": "", "tool_calls": [{"name": "add", "args": {"a": 1}, "id": "c"}]}},
        "invalid call": {
            "type": "ai",
            "content": "",
            "invalid_tool_calls": [{"name": "add", "args": '{"a": 1}', "id": "c", "error": "bad"}],
        },
        "role": {"role": "assistant", "content": "", "tool_calls": [{"name": "add", "args": {"a": 1}, "id": "c"}]},
    }
    for name, form in forms.items():
        with subtests.test(name):
            failed = {"type": "tool", "tool_call_id": "c", "content": "No.", "status": "error"}
            run = runs_of(tmp_path / "t.json", state(ASKED, form, failed))[0]
            assert [(one.name, one.arguments, one.id) for one in calls(run)] == [("add", {"a": 1}, "c")]
            answered = records(run)[0].result
            assert answered is not None and (answered.text, answered.is_error) == ("No.", True)


def test_run_status_follows_from_thread_tasks_and_status(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "answered": ({}, "completed"),
        "task failed": ({"tasks": [{"id": "1", "name": "tools", "error": "ValueError('x')", "interrupts": []}]}, "failed"),
        "interrupt": ({"tasks": [{"id": "1", "name": "ask", "interrupts": [{"value": "Sure?"}]}]}, "interrupted"),
        "status": ({"thread_id": "a", "status": "error"}, "failed"),
        "busy": ({"thread_id": "a", "status": "busy"}, "interrupted"),
    }
    for name, (more, status) in cases.items():
        with subtests.test(name):
            assert runs_of(tmp_path / "t.json", state(ASKED, SAID, **more))[0].status == status


def test_subgraph_state_becomes_a_nested_run(tmp_path: Path) -> None:
    inner = state({"type": "human", "content": "Read."}, {"type": "ai", "content": "Read it."})
    whole = state(
        ASKED,
        7,
        {"type": "odd", "content": ""},
        SAID,
        tasks=[{"id": "task-1", "name": "reader", "state": inner, "interrupts": []}],
    )
    runs = runs_of(tmp_path / "t.json", whole, strict=False)
    assert [run.text for run in runs] == ["Gone.", "Read it."] and runs[1].parent_id == runs[0].id
    assert [problem.position for problem in runs.problems] == ["message 1", "message 2"]
