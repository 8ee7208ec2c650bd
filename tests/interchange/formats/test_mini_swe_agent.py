"""Trajectories of mini-swe-agent, of versions 1 and 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import FILES, calls, loaded, recorded, records, results, runs_of, said

from agentnb import load_trace
from agentnb.core.messages import Thinking

ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Fix it."}]


def trajectory(*messages: Any, **info: Any) -> dict[str, Any]:
    return {
        "info": {"mini_version": "2.0.0", **info},
        "messages": [*ASKED, *messages],
        "trajectory_format": "mini-swe-agent-1.1",
    }


def bash(command: str, said: str = "THOUGHT: look") -> dict[str, Any]:
    return {"role": "assistant", "content": f"{said}\n\n```bash\n{command}\n```"}


def test_single_code_block_is_a_call_answered_by_next_message() -> None:
    run = load_trace(FILES / "mini_swe_agent/sphinx-7889.traj.json")
    data = loaded("mini_swe_agent/sphinx-7889.traj.json")
    answers = [message for message in data["messages"] if message["role"] == "assistant"]
    assert [round_.text for round_ in run.rounds] == [message["content"] for message in answers]
    assert [call.name for call in calls(run)] == ["bash"] and calls(run)[0].arguments["command"] in answers[0]["content"]
    assert results(run) == [(data["messages"][3]["content"], None)]
    assert run.origin is not None and run.origin.task == data["instance_id"]
    usage = [message["extra"]["response"]["usage"] for message in answers]
    assert run.usage.input == sum(one["prompt_tokens"] for one in usage) and run.usage.cost == sum(one["cost"] for one in usage)
    assert (run.model, run.status, run.stop_reason) == ("google/gemini-3-pro-preview", "completed", "natural")
    assert recorded(run)["exit_status"] == "Submitted" and recorded(run)["step_limit"] == 250
    assert any(isinstance(part, Thinking) for message in run.messages for part in message.parts) and run.started_at is None


def test_code_blocks_of_a_rejected_answer_are_not_calls() -> None:
    run = load_trace(FILES / "mini_swe_agent/sphinx-7889.traj.json")
    assert run.rounds[1].text.count("```bash") == 3 and not run.rounds[1].records
    assert said(run)[-1][1] == "mini-swe-agent" and said(run)[-1][2].startswith("Please always provide EXACTLY ONE action")


def test_early_bare_list_is_recognized_by_its_return_codes() -> None:
    run = load_trace(FILES / "mini_swe_agent/github_issue.traj.json")
    messages = loaded("mini_swe_agent/github_issue.traj.json")
    assert len(run.rounds) == len(calls(run)) == sum(message["role"] == "assistant" for message in messages)
    assert [record.result.error_code for record in records(run) if record.result and record.result.is_error] == [
        "exit_1",
        "exit_1",
    ]
    assert (run.status, run.stop_reason, run.prompt) == ("completed", "natural", messages[1]["content"])


def test_only_code_blocks_with_the_tag_of_the_version_count(tmp_path: Path) -> None:
    text = "An example is ```bash\nrm x\n```\nbut:\n```mswea_bash_command\nls\n```"
    run = runs_of(tmp_path / "a.json", trajectory({"role": "assistant", "content": text}))[0]
    assert [call.arguments for call in calls(run)] == [{"command": "ls"}]


def test_calls_are_read_from_tool_calls_actions_and_responses_api(tmp_path: Path, subtests: pytest.Subtests) -> None:
    function = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    returned = {"returncode": 2, "raw_output": "no", "timestamp": 1_764_000_001.5}
    forms: dict[str, list[dict[str, Any]]] = {
        "tool calls": [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [function],
                "extra": {"cost": 0.5, "timestamp": 1_764_000_000.0},
            },
            {"role": "tool", "tool_call_id": "c1", "content": "no", "extra": returned},
        ],
        "actions": [
            {"role": "assistant", "content": "Look.", "extra": {"actions": [{"command": "ls"}], "cost": 0.5}},
            {"role": "user", "content": "no", "extra": returned},
        ],
        "Responses API": [
            {
                "object": "response",
                "output": [
                    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
                    {"type": "message", "content": [{"type": "output_text", "text": "Look."}]},
                    {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
                ],
                "usage": {"input_tokens": 9, "output_tokens": 2},
                "extra": {"cost": 0.5},
            },
            {"type": "function_call_output", "call_id": "c1", "output": "no", "extra": returned},
        ],
    }
    for name, messages in forms.items():
        with subtests.test(name):
            exit_message = {"role": "exit", "content": "patch", "extra": {"exit_status": "Submitted"}}
            run = runs_of(tmp_path / "a.json", trajectory(*messages, exit_message, exit_status="Submitted"))[0]
            assert [(call.name, call.arguments) for call in calls(run)] == [("bash", {"command": "ls"})]
            assert results(run) == [("no", "exit_2")] and run.usage.cost == 0.5 and run.status == "completed"
            assert run.messages[-1].role == "tool"


def test_run_status_follows_from_the_exit_status(tmp_path: Path, subtests: pytest.Subtests) -> None:
    limits = {"config": {"agent": {"step_limit": 3, "cost_limit": 1.0}}}
    cases: list[tuple[dict[str, Any], tuple[str, str | None]]] = [
        ({"exit_status": "Submitted"}, ("completed", "natural")),
        ({"exit_status": "LimitsExceeded", "model_stats": {"api_calls": 3}, **limits}, ("limited", "max_rounds")),
        ({"exit_status": "LimitsExceeded", "model_stats": {"api_calls": 2}, **limits}, ("limited", "budget")),
        ({"exit_status": "UserInterruption"}, ("cancelled", "UserInterruption")),
        ({"exit_status": "RepeatedFormatError"}, ("stopped", "RepeatedFormatError")),
        ({"exit_status": "AuthenticationError", "exception_str": "no key"}, ("failed", "error")),
        ({}, ("interrupted", "interrupted")),
    ]
    for info, ended in cases:
        with subtests.test(str(info)):
            run = runs_of(tmp_path / "a.json", trajectory(bash("ls"), **info))[0]
            assert (run.status, run.stop_reason) == ended
            assert run.error is None or str(run.error) == "no key"


def test_timeout_and_malformed_message_do_not_stop_reading(tmp_path: Path) -> None:
    late = {"role": "user", "content": "The last command <command>sleep 9</command> timed out and has been killed."}
    runs = runs_of(tmp_path / "a.json", trajectory(bash("sleep 9"), late, 7, {"content": "?"}, bash("ls")), strict=False)
    assert results(runs[0])[0][1] == "timeout" and len(calls(runs[0])) == 2
    assert [problem.position for problem in runs.problems] == ["message 4", "message 5"]
