"""Traces of LangSmith: creations and updates merged, trees of models and tools, agents within agents."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from trace_documents import FILES, document, lines

from agentnb import load_trace, load_traces
from agentnb.core.log.events import ModelReplied
from agentnb.core.usage import Usage
from agentnb.errors import TraceError

TRACES = FILES / "langsmith"


def constructed(kind: str, **fields: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": fields}


def langsmith_run(
    run_id: str, kind: str, name: str, second: int, parent: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    order = f"{parent['dotted_order']}." if parent else ""
    return {
        "id": run_id,
        "run_type": kind,
        "name": name,
        "start_time": f"2026-01-01T00:00:{second:02}",
        "end_time": f"2026-01-01T00:00:{second + 1:02}",
        "dotted_order": f"{order}20260101T0000{second:02}000000Z{run_id}",
        "parent_run_id": parent and parent["id"],
        **more,
    }


ASKS = [constructed("SystemMessage", content="Be brief."), constructed("HumanMessage", content="How high?")]
CALLS = constructed(
    "AIMessage",
    content="",
    tool_calls=[{"name": "look", "args": {"at": "tower"}, "id": "c1", "type": "tool_call"}],
    usage_metadata={"input_tokens": 5, "output_tokens": 2, "input_token_details": {"cache_read": 1}},
)
RETURNS = constructed("ToolMessage", content="7 m", tool_call_id="c1", name="look", status="success")
SAYS = constructed("AIMessage", content="It is 7 m.", response_metadata={"finish_reason": "stop"})


def generated(message: dict[str, Any]) -> dict[str, Any]:
    return {"generations": [[{"text": message["kwargs"]["content"], "message": message}]]}


def tree() -> list[dict[str, Any]]:
    root = langsmith_run(
        "root", "chain", "Researcher", 0, inputs={"input": "How high?"}, outputs={"output": "It is 7 m."}, tags=["a"]
    )
    about = {"metadata": {"ls_model_name": "m1"}, "invocation_params": {"tools": [{"function": {"name": "look"}}]}}
    first = langsmith_run("llm1", "llm", "Chat", 2, root, inputs={"messages": [ASKS]}, outputs=generated(CALLS), extra=about)
    tool = langsmith_run("tool", "tool", "look", 4, root, inputs={"input": "{'at': 'tower'}"}, outputs={"output": RETURNS})
    last = langsmith_run(
        "llm2", "llm", "Chat", 6, root, inputs={"messages": [[*ASKS, CALLS, RETURNS]]}, outputs=generated(SAYS)
    )
    return [root, first, tool, last]


READ = ["user: How high?", 'assistant: look {"at": "tower"}', "tool: -> 7 m", "assistant: It is 7 m."]


def test_recorded_traces_match_the_messages_of_the_file() -> None:
    for path in sorted(TRACES.glob("langsmith_*.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        asked, answered = told["post"][0]["inputs"], told["patch"][0]["outputs"]
        run = load_trace(path)
        texts = [asked["messages"][0]["content"], answered["choices"][0]["message"]["content"]]
        assert lines(run) == [f"user: {texts[0]}", f"assistant: {texts[1]}"]
        usage = answered["usage_metadata"]
        assert (run.usage.input, run.usage.output, run.model) == (usage["input_tokens"], usage["output_tokens"], asked["model"])
        assert run.id == told["post"][0]["id"] and run.status == "completed" and (run.seconds or 0) > 1


def test_every_file_layout_yields_the_same_trace(tmp_path: Path, subtests: pytest.Subtests) -> None:
    runs = tree()
    posted = [{**one, "outputs": {}, "end_time": None} for one in runs]
    patched = [{key: one[key] for key in ("id", "outputs", "end_time", "dotted_order")} for one in runs]
    for name, value in {
        "post and patch.json": {"post": posted, "patch": patched[::-1]},
        "a list in any order.json": runs[::-1],
        "lines.jsonl": runs,
        "batches.jsonl": [{"post": posted}, {"patch": patched}],
        "updates before their creations.jsonl": [{"patch": patched}, {"post": posted}],
        "exported.json": {"runs": runs},
        "nested.json": {
            **runs[0],
            "child_runs": [{key: one[key] for key in one if key != "parent_run_id"} for one in runs[1:]],
        },
        "parents only by dotted_order.json": [{**one, "parent_run_id": None} for one in runs],
    }.items():
        with subtests.test(name):
            run = load_trace(document(tmp_path, value, name))
            assert lines(run) == READ and run.status == "completed" and run.system == "Be brief."
            assert (run.id, run.agent, run.model, run.tags) == ("root", "Researcher", "m1", ("a",))
            assert run.rounds[0].usage == Usage(5, 2, cache_read=1) and [tool.name for tool in run.tools] == ["look"]


def test_times_without_a_zone_are_utc_and_tools_have_durations(tmp_path: Path) -> None:
    run = load_trace(document(tmp_path, tree()))
    assert [event.at for event in run.events if isinstance(event, ModelReplied)] == [
        datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in (3, 7)
    ]
    assert run.rounds[0].records[0].seconds == 1.0 and not any("zone" in warning for warning in run.warnings)


def test_agent_inside_a_tool_is_a_run_and_a_call(tmp_path: Path) -> None:
    runs = tree()
    asked = {"messages": [[constructed("HumanMessage", content="Measure.")]]}
    inner = langsmith_run(
        "sub", "llm", "Chat", 4, runs[2], inputs=asked, outputs=generated(constructed("AIMessage", content="7 m"))
    )
    outer, nested = load_traces(document(tmp_path, [*runs, inner]))
    assert lines(outer) == READ
    assert (nested.id, nested.parent_id, lines(nested)) == ("tool", "root", ["user: Measure.", "assistant: 7 m"])


def test_second_conversation_in_a_trace_becomes_a_nested_run(tmp_path: Path) -> None:
    runs = tree()
    agent = langsmith_run("node", "chain", "Critic", 8, runs[0])
    asked = {"messages": [[constructed("HumanMessage", content="Is it right?")]]}
    model = langsmith_run(
        "llm3", "llm", "Chat", 8, agent, inputs=asked, outputs=generated(constructed("AIMessage", content="Yes."))
    )
    outer, nested = load_traces(document(tmp_path, [*runs, agent, model]))
    assert outer.text == "It is 7 m." and (nested.parent_id, nested.agent, nested.text) == ("root", "Critic", "Yes.")


def test_agents_sharing_a_conversation_are_authors_of_their_replies(tmp_path: Path) -> None:
    root = langsmith_run("root", "chain", "Team", 0)
    writer, critic = langsmith_run("n1", "chain", "Writer", 1, root), langsmith_run("n2", "chain", "Critic", 3, root)
    draft, verdict = constructed("AIMessage", content="A draft."), constructed("AIMessage", content="Fine.")
    first = langsmith_run("l1", "llm", "Chat", 1, writer, inputs={"messages": [ASKS]}, outputs=generated(draft))
    more = [*ASKS, draft, constructed("HumanMessage", content="Judge.")]
    last = langsmith_run("l2", "llm", "Chat", 3, critic, inputs={"messages": [more]}, outputs=generated(verdict))
    run = load_trace(document(tmp_path, [root, writer, critic, first, last]))
    assert lines(run) == ["user: How high?", "Writer: A draft.", "user: Judge.", "Critic: Fine."]


def test_tools_called_without_a_model_are_calls_in_order(tmp_path: Path) -> None:
    runs = tree()
    found = langsmith_run("ret", "retriever", "search_docs", 1, runs[0], inputs={"query": "high"}, outputs={"documents": []})
    run = load_trace(document(tmp_path, [*runs, found]))
    assert lines(run)[1:3] == ['assistant: search_docs {"query": "high"}', 'tool: -> {"documents": []}']
    assert lines(run)[3:] == READ[1:]


def test_errors_of_tools_models_and_traces_are_kept(tmp_path: Path) -> None:
    runs = tree()[:3]
    failed = {**runs[2], "error": "ToolException('gone')", "outputs": None}
    run = load_trace(document(tmp_path, [{**runs[0], "error": "It broke.", "outputs": None}, runs[1], failed]))
    assert (run.status, run.stop_reason, str(run.error)) == ("failed", "error", "It broke.")
    assert lines(run)[-1] == "tool: ! -> ToolException('gone')"
    broken = langsmith_run("x", "llm", "Chat", 1, inputs={"messages": [ASKS]}, error="RateLimitError")
    assert str(load_trace(document(tmp_path, [broken])).error) == "RateLimitError"


def test_trace_without_a_model_yields_inputs_tools_and_outputs(tmp_path: Path) -> None:
    root = langsmith_run("root", "chain", "pipeline", 0, inputs={"question": "How high?"}, outputs={"answer": "7 m"})
    tool = langsmith_run("t", "tool", "look", 1, root, inputs={"at": "tower"}, outputs={"output": "7"})
    assert lines(load_trace(document(tmp_path, [root, tool]))) == [
        "user: How high?",
        'assistant: look {"at": "tower"}',
        "tool: -> 7",
        "assistant: 7 m",
    ]


def test_each_trace_in_a_file_is_a_run(tmp_path: Path) -> None:
    one, other = (
        langsmith_run(name, "llm", "Chat", 0, inputs={"messages": [ASKS]}, outputs=generated(SAYS)) for name in ("a", "b")
    )
    runs = load_traces(document(tmp_path, [one, other]))
    assert [(run.id, run.origin and run.origin.position) for run in runs] == [("a", "0"), ("b", "1")]


def test_mutually_nested_and_damaged_runs_are_problems(tmp_path: Path) -> None:
    one, other = langsmith_run("a", "chain", "a", 0), langsmith_run("b", "chain", "b", 1)
    circle = [{**one, "parent_run_id": "b"}, {**other, "parent_run_id": "a"}]
    with pytest.raises(TraceError, match="nested in each other"):
        load_traces(document(tmp_path, circle))
    whole = langsmith_run("c", "llm", "Chat", 0, inputs={"messages": [ASKS]}, outputs=generated(SAYS))
    odd = {**whole, "id": "d", "inputs": {"messages": [[{"type": "ai", "content": [7]}]]}}
    runs = load_traces(document(tmp_path, [whole, 7, odd], "a.jsonl"), strict=False)
    assert [run.text for run in runs] == ["It is 7 m."] and [problem.position for problem in runs.problems] == ["line 2", "1"]


def test_start_time_is_that_of_the_outermost_run() -> None:
    for name in ("langsmith_py_wrap_openai_", "langsmith_js_wrap_openai_reasoning"):
        run = load_trace(FILES / "langsmith" / f"{name}.json")
        assert run.started_at is not None and run.ended_at is not None and run.seconds is not None
        assert (run.ended_at - run.started_at).total_seconds() == pytest.approx(run.seconds)
