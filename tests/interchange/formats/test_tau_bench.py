"""Results of tau-bench and tau2-bench."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import FILES, calls, loaded, recorded, results, runs_of, said

from agentnb import load_trace, load_traces

ASKED = {"role": "user", "content": "Cancel W1."}


def call(name: str, arguments: str = "{}", call_id: str = "call_1") -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "function_call": None,
        "tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def result(text: str, name: str = "get", call_id: str = "call_1") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "name": name, "content": text}


def record(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"task_id": 7, "trial": 2, "reward": 0.0, "info": {"source": "user"}, "traj": [*messages]} | more


def test_record_becomes_a_run_with_all_replies_and_calls() -> None:
    run = load_trace(FILES / "tau_bench/retail.json")
    messages = loaded("tau_bench/retail.json")[0]["traj"]
    made = [one for message in messages for one in message.get("tool_calls") or ()]
    assert len(run.rounds) == sum(message["role"] == "assistant" for message in messages)
    assert [call.name for call in calls(run)] == [one["function"]["name"] for one in made] and len(calls(run)) == 7
    assert len(results(run)) == sum(message["role"] == "tool" for message in messages)
    assert run.system == messages[0]["content"] and run.prompt == messages[1]["content"]
    assert run.origin is not None and (run.origin.format, run.origin.task, run.origin.trial) == ("tau_bench", "63", "63")
    assert (run.status, run.stop_reason, recorded(run)["reward"]) == ("completed", "natural", 0.0)
    assert any(round_.text and round_.records for round_ in run.rounds)  # text beside calls


def test_reused_call_id_belongs_to_the_newer_call(tmp_path: Path) -> None:
    messages = [
        ASKED,
        call("get"),
        result("pending"),
        call("cancel"),
        result("cancelled"),
        {"role": "assistant", "content": "Done."},
    ]
    run = runs_of(tmp_path / "tau.json", [record(*messages)])[0]
    assert [(one.name, one.id) for one in calls(run)] == [("get", "call_1"), ("cancel", "call_1-2")]
    assert results(run) == [("pending", None), ("cancelled", None)]


def test_run_status_follows_from_the_last_message(tmp_path: Path, subtests: pytest.Subtests) -> None:
    steps = [one for _ in range(30) for one in (call("get"), result("x"))]
    cases: dict[str, tuple[dict[str, Any], tuple[str, str | None]]] = {
        "the user stops": (
            record(ASKED, call("get"), result("x"), {"role": "user", "content": "Bye. ###STOP###"}),
            ("completed", "natural"),
        ),
        "a transfer": (record(ASKED, call("t"), result("ok", "transfer_to_human_agents")), ("completed", "natural")),
        "too many steps": (record(ASKED, *steps), ("limited", "max_rounds")),
        "it breaks off": (record(ASKED, call("get")), ("interrupted", "interrupted")),
        "an error": (record(info={"error": "503", "traceback": ""}), ("failed", "error")),
    }
    for name, (data, ended) in cases.items():
        with subtests.test(name):
            run = runs_of(tmp_path / "tau.json", [data])[0]
            assert (run.status, run.stop_reason) == ended
    assert str(run.error) == "503"


def test_result_text_starting_with_error_is_an_error(tmp_path: Path) -> None:
    run = runs_of(tmp_path / "tau.jsonl", (record(ASKED, call("get"), result("Error: no order")), record(ASKED)))[0]
    assert results(run) == [("Error: no order", "tool_error")] and run.origin is not None and run.origin.position == "line 1"


def test_damaged_record_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    good = record(ASKED, {"role": "assistant", "content": "Done."})
    runs = runs_of(tmp_path / "tau.json", [good, 7, record(ASKED, 7, {"role": "assistant", "content": "Yes."})], strict=False)
    assert [run.text for run in runs] == ["Done.", "Yes."]
    assert [problem.position for problem in runs.problems] == ["1", "2, message 1"]


# tau2-bench


def test_simulated_user_calls_become_messages_and_agent_calls_stay_calls() -> None:
    run = load_trace(FILES / "tau2_bench/user_tools_results.json")
    one = loaded("tau2_bench/user_tools_results.json")["simulations"][0]
    of_agent = [message for message in one["messages"] if message["role"] == "assistant"]
    made = [each for message in of_agent for each in message["tool_calls"] or ()]
    assert len(run.rounds) == len(of_agent) - 1  # a greeting before the prompt, not written by a model
    assert [(each.id, each.name, each.arguments) for each in calls(run)] == [
        (each["id"], each["name"], each["arguments"]) for each in made
    ]
    assert said(run)[:4] == [
        ("assistant", "", "Hi! How can I help you today?"),
        ("user", "user", "(calls check_notifications {})"),
        ("user", "user's tool", one["messages"][2]["content"]),
        ("user", "user", one["messages"][3]["content"]),
    ]
    assert run.prompt == one["messages"][3]["content"] and run.system == one["policy"]
    assert (run.status, run.stop_reason, run.model) == ("completed", "natural", "openai/gpt-4.1-mini")
    assert run.usage.cost == pytest.approx(one["agent_cost"]) and run.seconds == one["duration"]
    assert recorded(run)["reward_info"]["reward"] == 0.0 and run.origin is not None
    assert (run.origin.task, run.origin.trial) == (one["task_id"], "0")


def simulation(reason: str | None, *messages: Any) -> dict[str, Any]:
    talk = [{"role": "user", "content": "Help."}, {"role": "assistant", "content": "How?"}, *messages]
    return {"id": "s", "task_id": "t", "trial": 1, "termination_reason": reason, "messages": talk}


def test_run_status_follows_from_the_termination_reason(tmp_path: Path, subtests: pytest.Subtests) -> None:
    reasons = {
        "user_stop": ("completed", "natural"),
        "agent_stop": ("completed", "natural"),
        "max_steps": ("limited", "max_rounds"),
        "timeout": ("limited", "max_seconds"),
        "agent_error": ("failed", "error"),
        "too_many_errors": ("failed", "error"),
        "moved_on": ("stopped", "moved_on"),
        None: ("unknown", None),
    }
    runs = runs_of(tmp_path / "tau2.json", {"info": None, "simulations": [simulation(reason) for reason in reasons]})
    for (reason, ended), run in zip(reasons.items(), runs, strict=True):
        with subtests.test(reason):
            assert (run.status, run.stop_reason) == ended


def test_parallel_results_in_one_message_may_be_errors(tmp_path: Path) -> None:
    made = [{"id": "a", "name": "get", "arguments": {"x": 1}}, {"id": "b", "name": "get", "arguments": {}}]
    given = [
        {"id": "a", "role": "tool", "content": "one", "requestor": "assistant", "error": False},
        {"id": "b", "role": "tool", "content": "no", "requestor": "assistant", "error": True},
    ]
    more = [{"role": "assistant", "content": None, "tool_calls": made}, {"role": "tool", "tool_messages": given}]
    run = runs_of(tmp_path / "tau2.json", {"simulations": [simulation("user_stop", *more)]})[0]
    assert results(run) == [("one", None), ("no", "tool_error")]


def test_damaged_simulation_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    runs = runs_of(tmp_path / "tau2.json", {"simulations": [7, simulation("user_stop"), {"task_id": "x"}]}, strict=False)
    assert len(runs) == 1 and [problem.position for problem in runs.problems] == ["0", "2"]
    assert len(load_traces(FILES / "tau2_bench", strict=False)) == 1
