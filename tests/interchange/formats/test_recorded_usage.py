"""Usage, costs, times and thinking from files of other products are in columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from trace_documents import document

from agentnb import Run, Store, load_trace, load_traces, tables
from agentnb.interchange.importing import import_traces

USER, SAYS = {"role": "user", "content": "Go"}, {"role": "assistant", "content": "Done."}
SWE = {"action": "submit", "observation": "ok", "response": "Done.", "state": "", "thought": ""}
STATS = {"instance_cost": 0.25, "tokens_sent": 900, "tokens_received": 80, "api_calls": 2}


def swe_agent(**stats: Any) -> dict[str, Any]:
    info = {"exit_status": "submitted", "model_stats": {**STATS, **stats}}
    return {"trajectory": [SWE], "history": [USER, {**SAYS, "action": "submit"}], "info": info, "environment": "e"}


def atif(**sums: Any) -> dict[str, Any]:
    steps = [{"step_id": 1, "source": "user", "message": "Go"}, {"step_id": 2, "source": "agent", "message": "Done."}]
    return {"schema_version": "ATIF-v1.2", "agent": {"name": "x", "version": "1"}, "steps": steps, "final_metrics": sums}


def used(run: Run) -> tuple[Any, ...]:
    return run.usage.input, run.usage.output, run.usage.cost


def test_file_totals_supply_usage_missing_from_replies(tmp_path: Path, subtests: pytest.Subtests) -> None:
    session = {"id": "s", "cost": 0.5, "messages": [{"message": {"message": message}} for message in (USER, SAYS)]}
    prints = [
        {"type": "assistant", "session_id": "s", "message": {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]}},
        {"type": "result", "subtype": "success", "is_error": False, "session_id": "s", "result": "Hi", "total_cost_usd": 0.125},
    ]
    for name, value, expected in (
        ("SWE-agent", swe_agent(), (900, 80, 0.25)),
        ("nothing counted", swe_agent(instance_cost=0, tokens_sent=0, tokens_received=0), (None, None, None)),
        ("a non-numeric sum", swe_agent(instance_cost=True, tokens_sent="9"), (None, 80, None)),
        ("ATIF", atif(total_prompt_tokens=9, total_completion_tokens=4, total_cost_usd=0.5), (9, 4, 0.5)),
        ("docker-agent", session, (None, None, 0.5)),
        ("print mode of Claude Code", prints, (None, None, 0.125)),
    ):
        with subtests.test(name):
            run = load_trace(document(tmp_path, value, f"{name}.json"))
            assert used(run) == expected and run.spent == (expected[2] or 0.0)
            row = tables.runs(run).iloc[0]
            assert (row["cost"] == expected[2]) or expected[2] is None


def test_file_total_is_kept_beside_the_sum_of_replies(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Replies count; the run warns of a difference beyond rounding."""
    metrics = {"prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 0.01}
    inner = {"subagent_trajectories": [atif()]}
    for name, sums, more, differences in (
        (
            "above",
            (300, 40, 0.05),
            {},
            "300 input tokens instead of 100, 40 output tokens instead of 10, $0.05 instead of $0.01",
        ),
        ("the same", (100, 10, 0.01), {}, ""),
        ("rounded", (100, 10, 0.01001), {}, ""),
        ("one of them", (100, 11, None), {}, "11 output tokens instead of 10"),
        ("with the cost of a sub-agent", (100, 10, 0.05), inner, ""),
    ):
        with subtests.test(name):
            record = atif(total_prompt_tokens=sums[0], total_completion_tokens=sums[1], total_cost_usd=sums[2]) | more
            record["steps"][1] |= {"metrics": metrics}
            run = load_traces(document(tmp_path, record))[0]
            if not more:
                assert used(run) == (100, 10, 0.01)
            row = tables.runs(run).iloc[0]
            stated = tuple(row[f"stated_{name}"] for name in ("input_tokens", "output_tokens", "cost"))
            assert stated[:2] == sums[:2] and (stated[2] == sums[2] or sums[2] is None)
            warned = [warning for warning in run.warnings if "instead of" in warning]
            assert warned == (
                [f"The usage total in its trace differs from the sum over its replies: {differences}."] if differences else []
            )
    assert pd.isna(tables.runs(load_trace(document(tmp_path, [USER, SAYS])))["stated_input_tokens"][0])


def test_reply_usage_takes_precedence_over_the_file_total(tmp_path: Path) -> None:
    record = atif(total_prompt_tokens=1000, total_cost_usd=0.5)
    record["steps"][1]["metrics"] = {"prompt_tokens": 7, "completion_tokens": 2}
    assert used(load_trace(document(tmp_path, record))) == (7, 2, 0.5)


def test_stored_run_and_summary_keep_the_file_total(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    import_traces(document(tmp_path, swe_agent()), store)
    (summary,) = store.summaries()
    assert (summary.cost, summary.tokens) == (0.25, 980) and used(store.load(summary.id)) == (900, 80, 0.25)


def inspect_log(**sample: Any) -> dict[str, Any]:
    one = {"id": 1, "epoch": 1, "input": "Go", "messages": [USER, SAYS], "scores": {"a": {"value": "C"}}, **sample}
    return {"version": 2, "status": "success", "eval": {"model": "openai/x"}, "samples": [one]}


def test_usage_and_times_are_read_from_older_inspect_logs(tmp_path: Path) -> None:
    usage = {"input_tokens": 53, "output_tokens": 46}
    output = {"model": "x", "choices": [{"message": SAYS, "stop_reason": "stop"}], "usage": usage}
    in_output = load_trace(document(tmp_path, inspect_log(output=output)))
    assert used(in_output)[:2] == (53, 46) and in_output.rounds[0].stop_reason == "stop"
    hidden = {**SAYS, "content": f"tc://{'a' * 32}"}
    events = [
        {"event": "sample_init", "timestamp": "2024-06-01T10:00:00+00:00"},
        {
            "event": "model",
            "timestamp": "2024-06-01T10:00:01+00:00",
            "output": {**output, "choices": [{"message": hidden, "stop_reason": "stop"}]},
        },
    ]
    transcript = {"events": events, "content": {"a" * 32: "Done."}}
    run = load_trace(document(tmp_path, inspect_log(transcript=transcript, messages=[USER, hidden])))
    assert run.text == "Done." and used(run)[:2] == (53, 46)
    assert run.started_at is not None and run.started_at.second == 0 and run.rounds[0].ended_at is not None


def test_messages_table_has_a_thinking_column(tmp_path: Path) -> None:
    content = [{"type": "thinking", "thinking": "Hm."}, {"type": "thinking", "thinking": "Yes."}, {"type": "text", "text": "7"}]
    messages = tables.messages(load_trace(document(tmp_path, [USER, {"role": "assistant", "content": content}])))
    assert messages["thinking"].isna().tolist() == [True, False]
    assert messages["thinking"][1] == "Hm.\n\nYes." and messages["text"][1] == "7"


def test_spans_with_times_lacking_a_zone_are_noted(tmp_path: Path) -> None:
    span = {
        "name": "call",
        "context": {"trace_id": "t", "span_id": "s"},
        "span_kind": "LLM",
        "start_time": "2026-01-05T10:00:00",
        "end_time": "2026-01-05T10:00:02",
        "attributes": {"input.value": "Go", "output.value": "Done."},
    }
    run = load_trace(document(tmp_path, [span]))
    assert any("no time zone" in warning for warning in run.warnings) and run.rounds[0].model_seconds == 2.0
