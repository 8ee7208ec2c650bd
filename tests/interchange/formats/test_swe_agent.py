"""Trajectories of SWE-agent, with and without tool calls."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import FILES, calls, loaded, recorded, records, results, runs_of, said

from agentnb import load_trace


def step(action: str, observation: str = "ok", **more: Any) -> dict[str, Any]:
    return {"action": action, "observation": observation, "response": f"I do {action}", "thought": "", "state": {}} | more


def reply(action: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": f"I do {action}", "action": action, "thought": "", "agent": "main"} | more


ASKED = [
    {"role": "system", "content": "Be brief.", "agent": "main"},
    {"role": "user", "content": "Fix it.", "agent": "main"},
]


def test_bare_action_becomes_a_bash_call() -> None:
    run = load_trace(FILES / "swe_agent/BabyEncryption.traj")
    data = loaded("swe_agent/BabyEncryption.traj")
    replies = [message for message in data["history"] if message["role"] == "assistant"]
    assert len(run.rounds) == len(calls(run)) == len(data["trajectory"]) == len(replies) + 1
    assert [call.arguments["command"] for call in calls(run)] == [one["action"].strip() for one in data["trajectory"]]
    observations = [message["content"] for message in data["history"] if message["role"] == "user"][1:]
    assert [text for text, _ in results(run)][: len(observations) - 1] == observations[:-1]
    assert (run.prompt, run.status, run.stop_reason) == (data["history"][1]["content"], "completed", "natural")
    assert recorded(run)["submission"].startswith("HTB{") and run.origin is not None and run.origin.task == "BabyEncryption"


def test_step_missing_from_history_is_inserted_in_its_place(tmp_path: Path) -> None:
    history = [
        *ASKED,
        reply("ls"),
        {"role": "user", "content": "a b"},
        reply("cat a"),
        {"role": "user", "content": "text"},
        reply("submit"),
    ]
    steps = [step("ls", "a b"), step("catt a", "catt: not found"), step("cat a", "text"), step("submit", "the patch")]
    run = runs_of(tmp_path / "x.traj", {"trajectory": steps, "history": history, "info": {"exit_status": "submitted"}})[0]
    assert [call.arguments["command"] for call in calls(run)] == ["ls", "catt a", "cat a", "submit"]
    assert [text for text, _ in results(run)] == ["a b", "catt: not found", "text", "the patch"]


def test_tool_calls_keep_their_ids_results_and_durations(tmp_path: Path) -> None:
    function = {"id": "c1", "type": "function", "function": {"name": "open", "arguments": '{"path": "a"}'}}
    history = [
        *ASKED,
        reply("open a", tool_calls=[function], thinking_blocks=[{"type": "thinking", "thinking": "Hm."}]),
        {"role": "tool", "content": [{"type": "text", "text": "text"}], "tool_call_ids": ["c1"], "agent": "main"},
        reply("open a", tool_calls=[function]),
        {"role": "tool", "content": "text again", "tool_call_ids": ["c1"]},
    ]
    config = json.dumps({"agent": {"model": {"name": "gpt-4o"}}, "problem_statement": {"id": "task-9"}})
    steps = [step("open a", execution_time=0.5), step("open a", execution_time=1.5)]
    run = runs_of(tmp_path / "x.traj", {"trajectory": steps, "history": history, "info": {}, "replay_config": config})[0]
    assert [(call.name, call.id, call.arguments) for call in calls(run)] == [
        ("open", "c1", {"path": "a"}),
        ("open", "c1-2", {"path": "a"}),
    ]
    assert results(run) == [("text", None), ("text again", None)] and [record.seconds for record in records(run)] == [0.5, 1.5]
    assert run.model == "gpt-4o" and run.origin is not None and run.origin.task == "task-9"


def test_demonstrations_become_history_and_other_agents_keep_names(tmp_path: Path) -> None:
    shown = {"role": "user", "content": "Like this.", "is_demo": True, "agent": "main"}
    history = [ASKED[0], shown, ASKED[1], reply("ls"), {"role": "user", "content": "a"}, reply("", agent="reviewer")]
    run = runs_of(tmp_path / "x.traj", {"history": history, "info": {"exit_status": None}})[0]
    assert said(run) == [
        ("user", "demonstration", "Like this."),
        ("user", "", "Fix it."),
        ("assistant", "", "I do ls"),
        ("assistant", "reviewer", "I do "),
    ]
    assert run.prompt == "Fix it."


def test_trajectory_without_history_is_read_from_its_steps(tmp_path: Path) -> None:
    steps = [step("ls", "a", query=ASKED), step("submit", "patch")]
    run = runs_of(tmp_path / "x.traj", {"trajectory": steps, "info": {"exit_status": "submitted"}})[0]
    assert (run.system, run.prompt, len(calls(run))) == ("Be brief.", "Fix it.", 2)


def test_run_status_follows_from_the_exit_status(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases = {
        "submitted": ("completed", "natural"),
        "submitted (exit_cost)": ("limited", "budget"),
        "exit_context": ("limited", "context"),
        "exit_total_execution_time": ("limited", "max_seconds"),
        "exit_api": ("failed", "error"),
        "exit_format": ("stopped", "exit_format"),
        None: ("interrupted", "interrupted"),
    }
    for status, ended in cases.items():
        with subtests.test(status):
            data = {"trajectory": [step("ls")], "history": [*ASKED, reply("ls")], "info": {"exit_status": status}}
            run = runs_of(tmp_path / "x.traj", data)[0]
            assert (run.status, run.stop_reason) == ended


def test_damaged_message_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    data = {"trajectory": [step("ls")], "history": [*ASKED, 7, {"content": "?"}, reply("ls")], "info": {}}
    runs = runs_of(tmp_path / "x.traj", data, strict=False)
    assert len(calls(runs[0])) == 1 and [problem.position for problem in runs.problems] == ["message 2", "message 3"]
