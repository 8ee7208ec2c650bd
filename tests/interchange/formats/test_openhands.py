"""Trajectories of OpenHands: output.jsonl, pairs, and the event list exported by its page."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import FILES, calls, loaded, recorded, results, runs_of, said

from agentnb import load_trace, load_traces
from agentnb.context.request_history import sent_request
from agentnb.core.messages import Image

ASKED = {"id": 0, "source": "user", "action": "message", "args": {"content": "Fix it."}}


def action(number: int, name: str, response: str = "", **args: Any) -> dict[str, Any]:
    """Return an action with a tool call of a new model response, or of the given one."""
    call = {"id": f"toolu_{number:02}", "type": "function", "function": {"name": f"do_{name}", "arguments": '{"x": 1}'}}
    answer = {
        "id": response or f"r{number}",
        "model": "m",
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "cache_creation_input_tokens": 3},
        "choices": [{"finish_reason": "tool_calls", "message": {"role": "assistant", "content": "", "tool_calls": [call]}}],
    }
    metadata = {"function_name": f"do_{name}", "tool_call_id": call["id"], "model_response": answer}
    return {"id": number, "source": "agent", "action": name, "args": args, "tool_call_metadata": metadata}


def seen(number: int, cause: int, name: str = "run", content: str = "ok", **extras: Any) -> dict[str, Any]:
    return {"id": number, "source": "agent", "observation": name, "cause": cause, "content": content, "extras": extras}


def test_page_events_yield_replies_calls_results_usage_and_times() -> None:
    run = load_trace(FILES / "openhands/wrong_initial_state.json")
    events = loaded("openhands/wrong_initial_state.json")
    made = [event for event in events if "action" in event and event["source"] == "agent"]
    assert len(run.rounds) == len(made) and len(results(run)) == sum("observation" in event for event in events)
    assert [call.id for call in calls(run)] == [
        event["tool_call_metadata"]["tool_call_id"] for event in made[:-1]
    ]  # the last is a finish
    usage = [event["tool_call_metadata"]["model_response"]["usage"] for event in made]
    assert run.usage.input == sum(one["prompt_tokens"] for one in usage)
    assert run.usage.cache_write == sum(one["cache_creation_input_tokens"] for one in usage)
    assert (run.model, run.status, run.stop_reason) == ("claude-3-5-sonnet-20241022", "completed", "natural")
    assert run.text == events[-1]["args"]["thought"] and run.started_at is not None and run.started_at.year == 2025
    assert calls(run)[1].arguments["command"] == "mv /workspace/game_2048.py /workspace/2048.py"


def test_early_events_have_flat_fields_and_no_ids() -> None:
    run = load_traces(FILES / "openhands/resolver_output.jsonl")[0]
    record = loaded("openhands/resolver_output.jsonl")
    assert [call.name for call in calls(run)] == ["run", "run_ipython", "run"]
    assert calls(run)[0].arguments == {"command": "touch LICENSE"}
    assert [text for text, _ in results(run)] == [event["content"] for event in record["history"] if "observation" in event]
    assert run.usage.cost == pytest.approx(sum(record["metrics"]["costs"]))
    assert run.origin is not None and (run.origin.task, run.origin.position) == ("neubig/pr-viewer#5", "")
    assert recorded(run)["success"] is True and recorded(run)["git_patch"] == record["git_patch"]


def test_pairs_of_action_and_observation_are_read_as_events(tmp_path: Path) -> None:
    record = loaded("openhands/resolver_output.jsonl")
    events = record["history"]
    pairs = [[events[at], events[at + 1]] for at in (1, 3, 5)]
    runs = runs_of(
        tmp_path / "output.jsonl",
        (record, {**record, "history": [[events[0], {"observation": "null", "content": ""}], *pairs, events[-1]]}),
    )
    assert results(runs[0]) == results(runs[1]) and said(runs[0]) == said(runs[1])


def test_late_observations_belong_to_the_action_that_caused_them(tmp_path: Path) -> None:
    events = [
        ASKED,
        action(1, "run", "r"),
        action(2, "run", "r"),
        seen(3, 2, content="two"),
        seen(4, 1, content="one", exit_code=1),
    ]
    run = runs_of(tmp_path / "t.json", events)[0]
    assert len(run.rounds) == 1  # one response of the model, with two calls
    assert results(run) == [("one", "exit_1"), ("two", None)] and run.usage.input == 10


def test_call_ids_restart_in_each_run(tmp_path: Path) -> None:
    record = {"instance_id": "a-1", "metrics": {}, "history": [ASKED, action(1, "run"), seen(2, 1)]}
    runs = runs_of(tmp_path / "output.jsonl", (record, {**record, "instance_id": "a-2"}))
    assert [calls(run)[0].id for run in runs] == ["toolu_01", "toolu_01"] and runs[0].id != runs[1].id


def test_delegated_agent_has_its_own_run(tmp_path: Path) -> None:
    inner = [action(2, "browse", thought="I look."), seen(3, 2, "browse", "A page."), action(4, "finish", thought="Found.")]
    events = [
        ASKED,
        action(1, "delegate", agent="BrowsingAgent", inputs={"task": "Look it up."}, thought="I ask."),
        *inner,
        seen(5, 1, "delegate", "It was found."),
        action(6, "finish", final_thought="Done."),
    ]
    outer, nested = runs_of(tmp_path / "t.json", events)
    assert nested.parent_id == outer.id and (nested.agent, nested.prompt, nested.text) == (
        "BrowsingAgent",
        "Look it up.",
        "Found.",
    )
    assert [call.name for call in calls(outer)] == ["do_delegate"] and results(outer) == [("It was found.", None)]
    assert [call.name for call in calls(nested)] == ["do_browse"] and outer.text == "Done."
    assert load_trace(tmp_path / "t.json").id == outer.id


def test_events_without_an_agent_action_are_not_calls(tmp_path: Path) -> None:
    picture = "data:image/png;base64," + base64.b64encode(b"png").decode()
    tools = {"id": 0, "source": "agent", "action": "system", "args": {"content": "You code.", "tools": []}}
    state = {"id": 3, "observation": "agent_state_changed", "content": "", "extras": {"agent_state": "running"}}
    events = [
        tools,
        {**ASKED, "args": {"content": "What is it?", "image_urls": [picture]}},
        {"id": 2, "source": "user", "action": "recall", "args": {"query": "What"}},
        {"id": 3, "observation": "recall", "cause": 2, "content": "The repository is x.", "extras": {}},
        state,
        {"id": 4, "source": "agent", "action": "condensation", "args": {"forgotten_event_ids": [1, 2]}},
        {"id": 5, "source": "agent", "action": "message", "args": {"content": "It is a cat."}},
        {"id": 6, "observation": "null", "content": "", "extras": {}},
    ]
    run = runs_of(tmp_path / "t.json", events)[0]
    assert said(run) == [
        ("user", "", "What is it?"),
        ("user", "recall", "The repository is x."),
        ("assistant", "", "It is a cat."),
    ]
    assert run.system == "You code." and Image("image/png", b"png") in run.messages[0].parts and not calls(run)
    assert any("2 events were left out" in warning for warning in run.warnings) and run.status == "unknown"


def test_condensation_summary_replaces_forgotten_events_in_later_requests(tmp_path: Path) -> None:
    condensed = {"id": 7, "source": "agent", "action": "condensation", "args": {"summary": "It was run."}}
    rounds = [one for number in (1, 3, 5) for one in (action(number, "run"), seen(number + 1, number, content=f"ok {number}"))]
    for args in ({"forgotten_event_ids": [1, 2, 3, 4]}, {"forgotten_events_start_id": 1, "forgotten_events_end_id": 4}):
        events = [ASKED, *rounds, {**condensed, "args": {**condensed["args"], **args}}, action(8, "run"), seen(9, 8)]
        run = runs_of(tmp_path / "t.json", events)[0]
        sent = sent_request(run, 3).request.messages
        assert [one.text for one in sent][:1] == ["Fix it.\n\nIt was run."]
        assert [call.id for one in sent for call in one.calls] == ["toolu_05"]


def test_run_status_follows_from_the_record_or_agent_state(tmp_path: Path, subtests: pytest.Subtests) -> None:
    def state(name: str) -> dict[str, Any]:
        return {"id": 9, "observation": "agent_state_changed", "content": "", "extras": {"agent_state": name, "reason": "why"}}

    cases: dict[str, tuple[Any, list[Any], tuple[str, str | None]]] = {
        "error": ("RuntimeError: no docker", [], ("failed", "error")),
        "limit": ("RuntimeError: Agent reached maximum iteration in headless mode", [], ("limited", "max_rounds")),
        "budget": ("RuntimeError: Agent reached maximum budget for task", [], ("limited", "budget")),
        "loop": ("AgentStuckInLoopError: Agent got stuck in a loop", [], ("stopped", "loop_detected")),
        "finished": (None, [action(1, "finish")], ("completed", "natural")),
        "rejected": (None, [action(1, "reject")], ("stopped", "rejected")),
        "stopped": (None, [action(1, "run"), state("stopped")], ("cancelled", "stopped")),
        "state of an error": (None, [action(1, "run"), state("error")], ("failed", "error")),
        "broken off": (None, [action(1, "run")], ("interrupted", "interrupted")),
    }
    for name, (error, more, ended) in cases.items():
        with subtests.test(name):
            record = {"instance_id": "a", "error": error, "metrics": {}, "history": [ASKED, *more], "instruction": "Fix it."}
            run = runs_of(tmp_path / "output.jsonl", (record, record))[0]
            assert (run.status, run.stop_reason) == ended


def test_tool_errors_and_rejections_become_error_results(tmp_path: Path) -> None:
    events = [
        ASKED,
        action(1, "run"),
        seen(2, 1, "error", "No such tool."),
        action(3, "run"),
        seen(4, 3, "user_rejected", "No."),
    ]
    assert results(runs_of(tmp_path / "t.json", events)[0]) == [("No such tool.", "tool_error"), ("No.", "rejected")]


def test_damaged_event_is_reported_and_truncated_lines_are_dropped(tmp_path: Path) -> None:
    record = {"instance_id": "a", "metrics": {}, "history": [ASKED, 7, {"id": 8}, action(1, "run"), seen(2, 1)]}
    path = tmp_path / "output.jsonl"
    runs_of(path, ({**record, "history": [ASKED]}, record), strict=False)
    path.write_bytes(path.read_bytes() + b'{"instance_id": "b", "his')
    runs = load_traces(path, strict=False)
    assert len(runs) == 2 and len(calls(runs[1])) == 1
    assert [problem.position for problem in runs.problems] == ["line 2, event 1", "line 2, event 2", "line 3"]
