"""Calls of steps are treated like those of a model: gates, limits, questions, one result, log, tables."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from run_checks import assert_closed
from virtual_time import VirtualTimeLoop

from agentnb import Run, RunOptions, Store, Workflow, load_trace, recover, tables
from agentnb.agent.extension import Extension
from agentnb.core.log import events as e
from agentnb.core.log.well_formed import check_events
from agentnb.core.log.wire import decode, encode
from agentnb.core.messages import ToolCall
from agentnb.core.run.rounds import DENIED, MAX_TOOL_CALLS
from agentnb.errors import TraceError
from agentnb.policies.gates import Allow, Ask, Deny, Verdict
from agentnb.tools.tool import ToolContext

STEPS = (
    "workflow: [{id: first, type: tool, name: write, args: {path: a}}, {id: second, type: tool, name: write, args: {path: b}}]"
)
OLD = Path(__file__).parent / "older_logs" / "schema-5-suspended-tool-step.jsonl"
TASKS = "stage: {first: {action: write, input: {path: a}}, second: {action: write, input: {path: b}}}"
Gate = Callable[[ToolCall, Any], Verdict]


class Disk:
    """A tool that records its calls."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def run(self, text: str = STEPS, gate: Gate | None = None, **options: Any) -> Run:
        async def write(path: str) -> str:
            self.written.append(path)
            return f"wrote {path}"

        gates = {"gates": [gate]} if gate is not None else {}
        settings = {**gates, **options.pop("agent_settings", {})}
        return run_of(Workflow.from_yaml(text, tools=[write]), settings, **options)


def run_of(workflow: Workflow, agent_settings: Any = None, **options: Any) -> Run:
    """Run the workflow on virtual time, with settings for its agents."""
    runs = workflow.orchestration(agent_settings=agent_settings)
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return checked(runner.run(runs.run("", RunOptions(show=False, **options))))


def next_of(answers: Iterator[Any], question: Any) -> Any:
    return next(answers)


def checked(run: Run) -> Run:
    """Check that the log is well-formed and has one result per call."""
    again = [decode(encode(event)) for event in run.events]
    check_events(again, "its log")
    assert Run.from_events(again) == run
    begun = Counter(event.call.id for event in run.events if isinstance(event, e.ToolStarted))
    ended = Counter(event.result.call_id for event in run.events if isinstance(event, e.ToolFinished | e.CallBlocked))
    assert begun <= ended, "each call has its result"
    return run


def codes(run: Run) -> list[str | None]:
    return [call.record.result.error_code if call.record.result else "open" for call in run.step_calls]


@pytest.mark.parametrize("text", [STEPS, TASKS])
def test_gates_apply_to_calls_of_steps_and_tasks(text: str, subtests: pytest.Subtests) -> None:
    def deny_b(call: ToolCall, run: Any) -> Verdict:
        return Deny("b is not ours") if call.arguments == {"path": "b"} else None

    def change(call: ToolCall, run: Any) -> Verdict:
        call.arguments["path"] = "changed"
        return None

    cases: dict[str, tuple[Gate, list[str], str]] = {
        "all denied": (lambda call, run: Deny("not today"), [], "write was not allowed: not today"),
        "one denied": (deny_b, ["a"], "write was not allowed: b is not ours"),
        "a gate that changes the call in place": (change, ["a", "b"], ""),
        "nothing to say": (lambda call, run: Allow(), ["a", "b"], ""),
        "by the step": (lambda call, run: Deny("no") if call.id == "second" else None, ["a"], "write was not allowed: no"),
    }
    for name, (gate, written, why) in cases.items():
        with subtests.test(name):
            disk = Disk()
            run = disk.run(text, gate)
            assert disk.written == written and run.calls_made == len(written)
            assert (why in run.error.message) if run.error is not None else not why
            assert codes(run) == [None] * len(written) + [DENIED] * bool(why)


def test_extension_gates_apply_to_calls_of_steps() -> None:
    disk = Disk()
    run = disk.run(agent_settings={"extensions": [Extension(name="strict", gates=(lambda call, run: Deny("no"),))]})
    assert disk.written == [] and run.status == "failed"


def test_edited_arguments_of_a_step_call_are_checked_again(subtests: pytest.Subtests) -> None:
    def guard(call: ToolCall, run: Any) -> Verdict:
        return Deny("etc is not ours") if call.arguments["path"].startswith("/etc") else Ask("Write?")

    for path, written in {"/etc/passwd": [], "c": ["c", "b"]}.items():
        with subtests.test(path):
            disk, answers = Disk(), iter([{"edit": {"path": path}}, "approve"])
            run = disk.run(gate=guard, answer=partial(next_of, answers))
            assert disk.written == written
            assert run.status == ("completed" if written else "failed")
            started = [(event.call.arguments, event.edited) for event in run.events if isinstance(event, e.ToolStarted)]
            assert started == ([({"path": "c"}, True), ({"path": "b"}, False)] if written else [])


def test_step_calls_count_towards_max_tool_calls() -> None:
    disk = Disk()
    run = disk.run(agent_settings={"max_tool_calls": 1})
    assert disk.written == ["a"] and codes(run) == [None, MAX_TOOL_CALLS]
    assert run.error is not None and "only 1 tool call is allowed" in run.error.message


def test_tables_and_counts_include_step_calls() -> None:
    run = Disk().run()
    frame = tables.tool_calls(run)
    assert frame["step"].tolist() == ["first", "second"] and frame["round"].isna().all()
    assert frame["name"].tolist() == ["write"] * 2 and frame["success"].all()
    assert (frame["ended_at"] >= frame["started_at"]).all() and frame["result"].tolist() == ["wrote a", "wrote b"]
    assert tables.runs(run)["tool_calls"].tolist() == [2] and run.calls_made == 2


def test_step_tools_can_call_tools_and_report_progress() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    async def both(context: ToolContext) -> int:
        context.progress(1, 2, "half")
        return (await context.call("add", {"a": 1, "b": 2})).value

    def plain(context: ToolContext) -> int:
        return context.call_sync("add", {"a": 3, "b": 4}).value

    def broken() -> None:
        raise ValueError("no such row")

    text = "workflow: [{id: x, type: tool, name: both}, {id: y, type: tool, name: plain}, {id: z, type: tool, name: broken}]"
    run = run_of(Workflow.from_yaml(text, tools=[add, both, plain, broken]))
    x, y, z = (call.record for call in run.step_calls)
    assert [run.steps[name]["output"] for name in ("x", "y")] == [3, 7]
    assert [(inner.call.id, inner.call.arguments) for inner in (*x.inner, *y.inner)] == [
        ("x.1", {"a": 1, "b": 2}),
        ("y.1", {"a": 3, "b": 4}),
    ]
    assert x.progress is not None and x.progress.text == "half"
    assert "no such row" in z.traceback and run.calls_made == 5
    assert tables.tool_calls(run)["parent_call"].dropna().tolist() == ["x", "y"]


def test_gates_apply_to_nested_calls_of_step_tools() -> None:
    async def add(a: int) -> int:
        raise AssertionError("denied")

    async def outer(context: ToolContext) -> str:
        return (await context.call("add", {"a": 1})).text

    def gate(call: ToolCall, run: Any) -> Verdict:
        return Deny("no adding") if call.name == "add" else None

    workflow = Workflow.from_yaml("workflow: [{id: x, type: tool, name: outer}]", tools=[add, outer])
    run = run_of(workflow, {"gates": [gate]})
    assert run.status == "failed" and run.error is not None and "no adding" in run.error.message


def test_every_outcome_of_a_step_closes_its_call(subtests: pytest.Subtests) -> None:
    async def waits() -> str:
        await asyncio.sleep(100)
        return "slept"

    async def fails() -> str:
        raise ValueError("no")

    wait = "{id: w, type: tool, name: waits"
    cases = {
        "its timeout": (f"workflow: [{wait}, timeout: 1, on_error: {{continue: none}}}}]", ["time_limit"]),
        "a sibling that failed": (
            f"workflow: [{{id: p, type: parallel, steps: [{wait}}}, {{id: f, type: tool, name: fails}}]}}]",
            ["cancelled", "tool_error"],
        ),
        "another attempt": (
            f"workflow: [{wait}, timeout: 1, retry: {{max_attempts: 1, initial_delay_seconds: 1}}}}]",
            ["time_limit", "time_limit"],
        ),
    }
    for name, (text, ends) in cases.items():
        with subtests.test(name):
            run = run_of(Workflow.from_yaml(text, tools=[waits, fails]))
            assert codes(run) == ends
            assert_closed(run)


def test_suspended_step_call_is_asked_about_only_once(tmp_path: Path) -> None:
    written: list[str] = []

    async def write(path: str) -> str:
        written.append(path)
        return f"wrote {path}"

    def guard(call: ToolCall, run: Any) -> Verdict:
        return Ask("Write?") if call.name == "write" else None

    store, settings = Store(tmp_path), {"gates": [guard]}
    workflow = Workflow.from_yaml("workflow: [{id: one, type: tool, name: write, args: {path: a}}]", tools=[write])
    run = asyncio.run(
        workflow.orchestration(agent_settings=settings).run("", RunOptions(store=store, show=False, suspend=True))
    )
    assert run.status == "waiting_on_user" and written == []
    (question,) = run.waiting
    again = asyncio.run(recover(run.id, store=store, tools=[write], gates=[guard], answers={question.id: "approve"}))
    assert (again.status, written, len(again.questions)) == ("completed", ["a"], 1)
    checked(again)


def test_call_suspended_by_an_earlier_version_is_asked_about_once(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for answer, written in {"approve": ["a"], "always": ["a", "b"]}.items():
        with subtests.test(answer):
            disk: list[str] = []

            def write(path: str, disk: list[str] = disk) -> str:
                disk.append(path)
                return f"wrote {path}"

            store = Store(tmp_path / answer)
            store.folder.mkdir(exist_ok=True)
            run_id = load_trace(OLD).id
            store.path(run_id).write_bytes(OLD.read_bytes())
            answers = {"q1": answer}
            again = asyncio.run(recover(run_id, store=store, tools=[write], answers=answers, trust_log=True, suspend=True))
            assert disk == written
            assert [asked.answer for asked in again.questions if asked.outcome == "answered"] == [answer]
            assert again.status == ("completed" if answer == "always" else "waiting_on_user")


def test_log_with_a_step_ending_before_its_call_is_refused() -> None:
    events = [event for event in Disk().run().events if not isinstance(event, e.ToolFinished)]
    events = [replace(event, seq=place) for place, event in enumerate(events)]
    with pytest.raises(TraceError, match="ends before its call has a result"):
        check_events(events, "its log")
