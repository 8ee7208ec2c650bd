"""The engine beyond the examples, with every end of a run."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from scripted_runs import agent_of
from virtual_time import VirtualTimeLoop
from workflow_examples import played, ran, waits

from agentnb import Agent, Run, RunOptions, Store, ToolCall, Workflow, tables
from agentnb.core.log.events import ToolProgress
from agentnb.core.log.work_events import BranchTaken, StepFinished, StepStarted
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.errors import SettingsError, WorkflowError
from agentnb.models import ScriptedModel
from agentnb.models.model import Reply
from agentnb.tools.tool import ToolContext
from agentnb.workflow.running.walker import LoopCounters, LoopLimitReached


def steps(text: str, *, agents: str = "a b c d", **settings: Any) -> Workflow:
    """Return a workflow of these steps, with an agent for each letter."""
    declared = "\n".join(f"  {name}: {{instruction: Work.}}" for name in agents.split())
    return Workflow.from_yaml(f"agents:\n{declared}\nworkflow:\n{text}\n", **settings)


def with_tools(text: str, *tools: Callable[..., Any]) -> Workflow:
    return Workflow.from_yaml(f"workflow:\n{text}\n", tools=tools)


def by_itself(work: Callable[[], Any]) -> Any:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work())


@pytest.mark.req("R4.11", "R4.10")
def test_step_has_its_own_prompt_and_context(tmp_path: Path) -> None:
    workflow = steps("""
  - {type: agent, name: a}
  - {type: agent, name: b, prompt: "Go on with {{ $steps.a.output }}", context: none}
  - {type: agent, name: c, context: [b]}
  - {type: agent, name: d, prompt: "{{ $prompt }}!"}
""")
    replies = {"a": ["A"], "b": ["B"], "c": ["C"], "d": ["D"]}
    seen = {}
    for prompt in ("", "Do it"):
        store = Store(tmp_path / prompt)
        run = played(workflow, prompt, replies, store)
        seen[prompt] = [store.load(record.nested).prompt.split("\n\n") for record in run.step_records.values()]
    proceed = "Please proceed with the workflow step."
    assert [one[-1] for one in seen[""]] == [proceed, "Go on with A", proceed, "!"]
    assert [one[-1] for one in seen["Do it"]] == ["Do it", "Go on with A", "Do it", "Do it!"]
    assert seen["Do it"][1] == ["Go on with A"]
    assert seen["Do it"][2] == ["--- Prior Step Outputs ---", "[b (agent: b)]:\nB", "--- End Prior Step Outputs ---", "Do it"]


@pytest.mark.req("R4.23", "R4.26")
def test_branch_steps_see_each_other_but_not_sibling_branches(tmp_path: Path) -> None:
    workflow = steps("""
  - {id: x, type: agent, name: a}
  - id: par
    type: parallel
    retry: {max_attempts: 1, initial_delay_seconds: 0}
    steps:
      - id: c
        type: condition
        condition: "{{ $steps.x.output == 'X' }}"
        true:
          - {id: y, type: agent, name: b}
          - id: inner
            type: parallel
            steps: [{type: condition, condition: "true", true: [{id: i, type: agent, name: b}, {id: j, type: agent, name: b}]}]
          - {id: z, type: agent, name: b, prompt: "{{ $steps.y.output }}{{ $steps.inner.outputs.j.output }}", context: [z, y]}
      - {id: w, type: agent, name: c}
  - {id: last, type: agent, name: d}
""")
    store = Store(tmp_path)
    replies = {"x": ["X"], "par/y": ["lost", "Y"], "par/inner/i": [{"error": "provider"}, "I"], "par/inner/j": ["J"]}
    run = played(workflow, "Go", replies | {"par/z": ["Z"], "par/w": ["W", "W"], "last": ["."]}, store)
    assert run.status == "completed", run.error
    labels = {
        path: re.findall(r"^\[(.*) \(", store.load(record.nested).prompt, re.MULTILINE)
        for path, record in run.step_records.items()
        if record.nested
    }
    assert labels == {
        "x": [],
        "par/y": ["x"],
        "par/inner/i": ["x", "par/y"],
        "par/inner/j": ["x", "par/y", "par/inner/i"],
        "par/z": ["par/y"],
        "par/w": ["x"],
        "last": ["x", "par/y", "par/inner/i", "par/inner/j", "par/z", "par/w"],
    }
    assert store.load(run.step_records["par/z"].nested).prompt.endswith("\n\nYJ")
    assert run.steps["par"]["order"] == ["c", "y", "inner", "z", "w"]


def test_missing_scripted_reply_is_reported_with_its_key(snapshot: Snapshot) -> None:
    workflow = steps("  - {id: x, type: agent, name: a}\n  - {id: y, type: agent, name: b}")
    for replies in ({"a": ["A"]}, {"a": ["A"], "b": [ToolCall("look", {})]}):
        with pytest.raises(WorkflowError, check=snapshot.worded):
            by_itself(partial(workflow.run, replies=replies, show=False))


def test_tools_may_print_and_report_progress() -> None:
    def plain(context: ToolContext) -> str:
        """Report from the calling thread."""
        context.progress(1, 2, "half")
        print("printed")
        return "x"

    async def awaited(context: ToolContext) -> str:
        """Report on the event loop."""
        context.progress(1, 2, "half")
        return "y"

    seen: list[Any] = []
    text = "  - {id: a, type: tool, name: plain}\n  - {id: b, type: tool, name: awaited}"
    run = with_tools(text, plain, awaited).run_sync(show=False, watch=seen.append)
    assert run.status == "completed"
    assert [(one.call_id, one.progress.text) for one in seen if isinstance(one, ToolProgress)] == [("a", "half"), ("b", "half")]


def test_tool_receives_typed_values_and_its_error_fails_the_step(subtests: pytest.Subtests) -> None:
    async def table(station: str) -> dict[str, Any]:
        """Table."""
        return {"station": station, "rows": [1, 2]}

    def count(rows: list[int]) -> int:
        """Count."""
        return len(rows)

    async def bad() -> str:
        """Fail."""
        raise ValueError("no such table")

    run = played(
        with_tools(
            """
  - {id: t, type: tool, name: table, args: {station: brest}}
  - {id: n, type: tool, name: count, args: {rows: "{{ $steps.t.output.rows }}"}}
""",
            table,
            count,
        ),
        "",
        {},
    )
    assert (run.status, run.text, run.steps["n"]["output"]) == ("completed", "2", 2)
    assert run.steps["t"] == {
        "tool": "table",
        "output": {"station": "brest", "rows": [1, 2]},
        "runs": [{"output": {"station": "brest", "rows": [1, 2]}, "attempts": 1}],
    }
    for name, on, tries, error in [
        ("bad", "[tool_error]", 3, "no such table"),
        ("bad", "[timeout]", 1, "no such table"),
        ("bad", "['/such table/']", 3, "no such table"),
        ("bad", "['/such chair/']", 1, "no such table"),
        ("bad", "[failed]", 3, "no such table"),
        ("count", "[invalid_arguments]", 3, "rows"),
        ("count", "[tool_error]", 3, "rows"),
        ("count", "[declined]", 1, "rows"),
    ]:
        with subtests.test(name, on=on):
            failed = played(
                with_tools(f"  - {{id: x, type: tool, name: {name}, retry: {{max_attempts: 2, on: {on}}}}}", bad, count), "", {}
            )
            assert failed.step_records["x"].attempts == tries
            assert failed.error is not None and error in failed.error.message
            assert "again" not in failed.error.message, "no model reads it"
    with pytest.raises(SettingsError, match="no tool nowhere"):
        with_tools("  - {type: tool, name: nowhere}", table).run_sync()


@pytest.mark.req("R4.20")
def test_parallel_children_are_joined_and_map_concurrency_is_limited(tmp_path: Path) -> None:
    barrier, going, most = asyncio.Barrier(3), [0], [0]

    async def meet() -> str:
        """Wait for the others."""
        await barrier.wait()
        return "met"

    async def count(item: int, index: int) -> int:
        """Count who is here."""
        going[0] += 1
        most[0] = max(most[0], going[0])
        await asyncio.sleep(1)
        going[0] -= 1
        return item * 10 + index

    text = "  - {type: parallel, id: p, steps: [" + ", ".join(f"{{id: m{n}, type: tool, name: meet}}" for n in range(3)) + "]}"
    assert played(with_tools(text, meet), "", {}).status == "completed"
    children = ", ".join(f"{{id: c{n}, type: tool, name: count, args: {{item: 1, index: {n}}}}}" for n in range(12))
    for bound, given in ((12, ""), (2, "max_concurrency: 2, ")):
        most[0] = 0
        run = played(with_tools(f"  - {{id: p, type: parallel, {given}steps: [{children}]}}", count), "", {})
        assert (most[0], run.text.split()) == (bound, [str(10 + n) for n in range(12)])
    for bound, given in ((8, ""), (3, ", max_concurrency: 3")):
        most[0] = 0
        items = json.dumps([*range(20)])
        args = '{item: "{{ $item }}", index: "{{ $index }}"}'
        workflow = with_tools(
            f"  - {{id: m, type: map, over: {items}, step: {{type: tool, name: count, args: {args}}}{given}}}", count
        )
        run = played(workflow, "", {})
        assert most[0] == bound
        assert run.steps["m"]["output"] == [item * 11 for item in range(20)]


def test_no_map_item_starts_after_a_failed_one(subtests: pytest.Subtests) -> None:
    called: list[int] = []

    async def publish(item: int) -> int:
        """Publish an item."""
        called.append(item)
        if item == 2:
            raise ValueError("no such item")
        return item

    for most in (1, 2):
        with subtests.test(str(most)):
            called.clear()
            step = '{type: tool, name: publish, args: {item: "{{ $item }}"}}'
            text = f"  - {{id: m, type: map, over: [1, 2, 3, 4, 5], max_concurrency: {most}, step: {step}}}"
            assert played(with_tools(text, publish), "", {}).status == "failed" and called == [1, 2]


def test_on_error_decides_what_follows_a_failed_step(subtests: pytest.Subtests) -> None:
    text = """
  - {id: x, type: agent, name: a, on_error: HANDLING}
  - {id: y, type: agent, name: b}
  - {id: z, type: agent, name: c}
"""
    for handling, status, order, output in [
        ("fail", "failed", ["x"], None),
        ("{continue: {rows: []}}", "completed", ["x", "y", "z"], {"rows": []}),
        ("{continue: null}", "completed", ["x", "y", "z"], None),
        ("{goto: z}", "completed", ["x", "z"], None),
    ]:
        with subtests.test(handling):
            replies = {"x": [{"error": "provider"}], "y": ["Y"], "z": ["Z"]}
            run = played(steps(text.replace("HANDLING", handling)), "Go", replies)
            assert (run.status, ran(run)) == (status, order)
            assert ("x" in run.steps) == ("continue" in handling)
            if "continue" in handling:
                assert run.steps["x"]["output"] == output and "provider" in run.step_records["x"].error


def test_condition_without_a_value_may_continue_as_true_or_false() -> None:
    text = """
  - {id: x, type: agent, name: a}
  - {id: c, type: condition, condition: "{{ $steps.x.output }}", on_error: {continue: VALUE}, true: {goto: y}, false: {goto: z}}
  - {id: y, type: agent, name: b, end: true}
  - {id: z, type: agent, name: b}
"""
    for value, last in (("true", "y"), ("false", "z")):
        run = played(steps(text.replace("VALUE", value)), "Go", {"x": ["perhaps"], "b": ["B"]})
        assert (run.status, ran(run)) == ("completed", ["x", "c", last])


def test_timeout_fails_an_attempt_but_excludes_time_for_questions() -> None:
    async def slow() -> str:
        """Take long."""
        await asyncio.sleep(100)
        return "done"

    run = played(
        with_tools("  - {id: s, type: tool, name: slow, timeout: 5, retry: {max_attempts: 1, on: [timeout]}}", slow), "", {}
    )
    assert (run.status, run.step_records["s"].attempts, waits(run)) == ("failed", 2, {"s": [1]})
    assert run.error is not None and "did not finish within 5 s" in run.error.message

    async def late(question: Any) -> Any:
        await asyncio.sleep(20)
        return True

    asked = with_tools("  - {id: h, type: human, ask: Go on?, confirm: true, timeout: 5}")
    run = by_itself(lambda: asked.run(answer=late, show=False))
    assert (run.status, run.steps["h"]["output"], run.questions[0].question.kind) == ("completed", True, "human_step")

    async def asks(context: ToolContext) -> bool:
        """Ask."""
        return bool(await context.ask("Go on?", {"type": "boolean"}))

    run = by_itself(lambda: with_tools("  - {id: t, type: tool, name: asks, timeout: 5}", asks).run(answer=late, show=False))
    assert (run.status, run.steps["t"]["output"], run.questions[0].question.kind) == ("completed", True, "elicitation")


def test_timeout_does_not_count_waiting_for_the_main_thread() -> None:
    def nap(n: int) -> int:
        """Sleep."""
        assert threading.current_thread() is threading.main_thread()
        time.sleep(0.3)
        return n

    text = """
  - id: each
    type: map
    over: [0, 1, 2, 3]
    step: {type: tool, name: nap, timeout: 0.9, args: {n: "{{ $item }}"}}"""
    run = with_tools(text, nap).run_sync(show=False)  # longer in total
    assert run.steps["each"]["output"] == [0, 1, 2, 3]


FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def test_step_declares_the_schema_of_its_question(subtests: pytest.Subtests) -> None:
    for given, schema, answer in [
        ("choices: [red, blue]", {"enum": ["red", "blue"]}, "blue"),
        ("confirm: true", {"type": "boolean"}, False),
        (f"form: {json.dumps(FORM)}", FORM, {"n": 3}),
        ("timeout: 9", {"type": "string"}, "words"),
    ]:
        with subtests.test(given):
            workflow = with_tools(f'  - {{id: h, type: human, ask: "About {{{{ $prompt }}}}?", {given}}}')
            run = by_itself(lambda workflow=workflow, answer=answer: workflow.run("gulls", answer=lambda _: answer, show=False))
            asked = run.questions[0].question
            assert (run.steps["h"]["output"], asked.message) == (answer, "About gulls?")
            assert asked.schema == schema


@pytest.mark.req("R4.18", "R4.30", "K4.3", "K4.4")
def test_outer_loop_resets_inner_counters_and_retries_are_uncounted(snapshot: Snapshot) -> None:
    counters = LoopCounters(3)
    for _ in range(2):
        assert [counters.go_back(2, 1, "inner", "b") for _ in range(2)] == [1, 2]
        counters.go_back(3, 0, "outer", "a")
    with pytest.raises(LoopLimitReached, check=snapshot.worded):
        counters.go_back(3, 0, "outer", "a")
    text = """
  max_loop_iterations: 3
  steps:
    - {id: x, type: agent, name: a, retry: {max_attempts: 1, initial_delay_seconds: 0}}
    - {id: inner, type: condition, condition: "{{ $steps.x.output.inner }}", false: {goto: x}}
    - {id: outer, type: condition, condition: "{{ $steps.x.output.outer }}", false: {goto: x}}
"""
    said = [(False, False), (False, False), (True, False), (False, False), (True, False), (True, True)]
    lines: list[Any] = [json.dumps({"inner": inner, "outer": outer}) for inner, outer in said]
    workflow = steps(text)
    run = played(workflow, "Go", {"x": [{"error": "provider"}, *lines]})
    assert (run.status, dict(run.back_edges)) == ("completed", {"inner -> x": 3, "outer -> x": 2})
    assert [execution["attempts"] for execution in run.steps["x"]["runs"]] == [2, 1, 1, 1, 1, 1]
    counts = [(event.step, event.count) for event in run.events if isinstance(event, BranchTaken) and event.count]
    assert counts == [("inner", 1), ("inner", 2), ("outer", 1), ("inner", 1), ("outer", 2)]
    table = tables.steps(run)
    assert list(table[table.step == "x"].iteration) == [1, 1, 2, 3, 4, 5, 6]


def test_map_accepts_a_list_or_json_and_nothing_else(subtests: pytest.Subtests) -> None:
    text = """
  - {id: x, type: agent, name: a}
  - {id: m, type: map, over: "{{ $steps.x.output }}", step: {type: agent, name: b, prompt: "{{ $item }}{{ $index }}"}}
"""
    for said, status in [("I see [7, 8].", "completed"), ("[]", "completed"), ('{"n": 1}', "failed"), ("None.", "failed")]:
        with subtests.test(said):
            run = played(steps(text), "Go", {"x": [said], "b": ["one", "two"]})
            assert run.status == status
            if status == "completed":
                assert run.steps["m"]["output"] == (["one", "two"] if "7" in said else [])
            else:
                assert run.error is not None and run.error.message.startswith("step m: map m: over is not a list: {{ $steps.x")


@pytest.mark.req("R4.19", "R4.35", "K4.10")
def test_path_through_a_workflow_is_deterministic_and_stops_at_end() -> None:
    workflow = steps("""
  - {id: x, type: agent, name: a}
  - {id: c, type: condition, condition: "{{ $steps.x.output == 'go' }}", true: [{id: y, type: agent, name: b}]}
  - {id: z, type: agent, name: c, end: true}
""")
    for said, order in (("go", ["x", "c", "y", "z"]), ("no", ["x", "c", "z"])):
        run = played(workflow, "Go", {"x": [said], "y": ["Y"], "z": ["Z"]})
        assert ran(run) == order
        taken = [(event.step, event.to) for event in run.events if isinstance(event, BranchTaken)]
        assert taken == [("c", "true" if said == "go" else "false")]
    failing = [played(workflow, "Go", {"x": ["go"], "y": [{"error": "refused"}]}) for _ in range(2)]
    first, second = [(one.status, one.error and one.error.message, one.step_context) for one in failing]
    assert first == second and first[0] == "failed" and first[2]["order"] == ["x", "c"]


@pytest.mark.req("R4.14", "R4.15")
def test_condition_accepts_truth_words_and_nothing_else(subtests: pytest.Subtests) -> None:
    workflow = steps("""
  - {id: x, type: agent, name: a}
  - {id: c, type: condition, condition: "{{ $steps.x.output.ok }}", true: [{id: y, type: agent, name: b}], false: {goto: end}}
""")
    for said, way in [
        ('{"ok": true}', True),
        ('```json\n{"ok": "YES"}\n```', True),
        ('I think {"ok": 0} is right.', False),
        ('{"ok": "maybe"}', 'workflow: condition did not resolve to boolean: "{{ $steps.x.output.ok }}"'),
        ('{"fine": true}', "$steps.x.output has no ok"),
    ]:
        with subtests.test(said):
            run = played(workflow, "Go", {"x": [said], "y": ["Y"]})
            if isinstance(way, bool):
                assert (run.status, run.steps["c"]["output"]) == ("completed", way)
            else:
                assert run.error is not None and way in run.error.message


@pytest.mark.req("R4.27", "R4.31")
def test_retry_waits_for_its_delay_plus_jitter() -> None:
    at: list[float] = []

    async def bad() -> str:
        """Fail."""
        at.append(asyncio.get_running_loop().time())
        raise ValueError("no")

    retry = "{max_attempts: 5, backoff: exponential, initial_delay_seconds: 1, max_delay_seconds: 5}"
    run = played(with_tools(f"  - {{id: x, type: tool, name: bad, retry: {retry}}}", bad), "", {})
    assert waits(run) == {"x": [1, 2, 4, 5, 5]}
    longer = [(after - before) / wait for (before, after), wait in zip(pairwise(at), waits(run)["x"], strict=True)]
    assert all(1 <= one <= 1.11 for one in longer) and len({round(one, 4) for one in longer}) > 1


@pytest.mark.req("R4.31")
def test_branches_share_a_budget_and_exhaustion_is_not_retried(subtests: pytest.Subtests) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    def agent(name: str, said: Any = None, **limits: Any) -> Agent:
        words = Reply(Message("assistant", (said or Text(name),)), usage=Usage(cost=0.25), stop_reason="end_turn")
        return Agent(ScriptedModel([words] * 4), tools=[look], name=name, guidance="off", todos=False, **limits)

    text = """
limits: {budget: 0.5}
workflow:
  - {id: p, type: parallel, steps: [{id: x, type: agent, name: a}, {id: y, type: agent, name: b}]}
  - {id: z, type: agent, name: c, retry: {max_attempts: 3}, on_error: {continue: nothing}}
"""
    workflow = Workflow.from_yaml(text, agents={name: agent(name) for name in "abc"})
    for name, budget, end in [("of the file", None, "limited"), ("instead of it", 1.0, "completed")]:
        with subtests.test(name):
            run = asyncio.run(workflow.orchestration(budget=budget).run("Go", RunOptions(show=False)))
            assert (run.status, "z" in run.steps) == (end, end == "completed")
            assert run.steps["p"]["order"] == ["x", "y"]
            assert budget is not None or (run.stop_reason, run.step_records["z"].status) == ("budget", "skipped")
    with subtests.test("of a step"):
        one = "workflow:\n  - {id: x, type: agent, name: a, retry: {max_attempts: 3}}\n"
        looking = agent("a", ToolCall("look", {}))
        shared = played(Workflow.from_yaml(f"limits: {{budget: 0.1}}\n{one}", agents={"a": looking}), "Go", {})
        assert (shared.status, shared.stop_reason, shared.step_records["x"].attempts) == ("limited", "budget", 1)
        run = played(Workflow.from_yaml(one, agents={"a": replace(looking, budget=0.1)}), "Go", {})
        assert (run.status, run.step_records["x"].attempts, run.step_records["x"].error) == (
            "failed",
            1,
            "its run ended as limited: budget",
        )


@pytest.mark.req("R4.31")
def test_unusable_and_stopped_steps_are_not_retried(tmp_path: Path) -> None:
    text = '  - {id: x, type: agent, name: a, prompt: "{{ $inputs.who }}", retry: {max_attempts: 5}}'
    workflow = Workflow.from_yaml(f"agents: {{a: {{instruction: Work.}}}}\ninputs: {{who: null}}\nworkflow:\n{text}\n")
    assert played(workflow, "", {"x": ["A"]}, inputs={"who": "you"}).status == "completed"
    with pytest.raises(SettingsError, match="no input whom"):
        played(workflow, "", {"x": ["A"]}, inputs={"whom": "you"})
    began = asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        began.set()
        await asyncio.Event().wait()
        return "never"

    waiting = with_tools(
        "  - {id: p, type: parallel, retry: {max_attempts: 3}, steps: [{id: w, type: tool, name: wait}]}", wait
    )

    async def stopped() -> Run:
        task = asyncio.ensure_future(waiting.run(show=False, store=Store(tmp_path)))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return Store(tmp_path).load(Store(tmp_path).ids()[0])

    run = by_itself(stopped)
    assert (run.status, {name: record.status for name, record in run.step_records.items()}) == (
        "cancelled",
        {"p": "cancelled", "p/w": "cancelled"},
    )
    assert [event.step for event in run.events if isinstance(event, StepFinished)] == ["p/w", "p"]


@pytest.mark.req("R4.31")
def test_interrupted_step_is_not_retried_and_nothing_follows(tmp_path: Path) -> None:
    calls: list[str] = []

    def stop() -> str:
        """Interrupt."""
        calls.append("stop")
        raise KeyboardInterrupt

    def after() -> str:
        """Follow."""
        calls.append("after")
        return ""

    retry = "retry: {max_attempts: 3, initial_delay_seconds: 0}"
    one = f"{{id: x, type: tool, name: stop, {retry}, on_error: {{continue: 1}}}}"
    text = f"  - {{id: p, type: parallel, {retry}, steps: [{one}]}}\n  - {{type: tool, name: after}}"
    with pytest.raises(KeyboardInterrupt):
        with_tools(text, stop, after).run_sync(show=False, store=Store(tmp_path))
    run = Store(tmp_path).load(Store(tmp_path).ids()[0])
    assert (calls, run.status, run.step_records["p/x"].attempt) == (["stop"], "cancelled", 1)


def test_rerun_from_a_step_uses_the_earlier_outputs() -> None:
    workflow = steps("""
  - {id: x, type: agent, name: a}
  - {id: p, type: parallel, steps: [{id: l, type: agent, name: b}, {id: r, type: agent, name: b}]}
  - {id: z, type: agent, name: c, prompt: "{{ $steps.p.outputs.r.output }}"}
""")
    first = played(workflow, "Go", {"x": ["X"], "p/l": ["L"], "p/r": ["R"], "z": [{"error": "provider"}]})
    assert first.status == "failed"
    again = played(workflow, "Go", {"z": ["Z"]}, rerun_from="z", of=first)
    assert (again.status, again.text, ran(again)) == ("completed", "Z", ["x", "p/l", "p/r", "z"])
    assert again.step_context["order"] == ["x", "p", "z"]
    assert [
        event.step for event in again.events if isinstance(event, StepStarted) and event.nested in {"", *nested_of(first)}
    ] == [
        "x",
        "p",
        "p/l",
        "p/r",
    ]
    with pytest.raises(SettingsError, match="no output for p"):
        played(workflow, "Go", {}, rerun_from="z", of=played(workflow, "Go", {"x": ["X"], "p/l": [{"error": "provider"}]}))
    with pytest.raises(SettingsError, match="no step 'y'"):
        played(workflow, "Go", {}, rerun_from="y", of=first)


bare_agent = partial(agent_of, name="a")


def nested_of(run: Run) -> set[str]:
    return {record.nested for record in run.step_records.values() if record.nested}


def test_python_agents_replace_those_of_the_file() -> None:
    def pick(colour: str) -> str:
        """Pick."""
        return colour

    model = ScriptedModel([ToolCall("pick", {"colour": "red"}), "Picked."])
    own = Agent(model, tools=[pick], name="a")
    run = Workflow.from_yaml("workflow:\n  - {id: x, type: agent, name: a}\n", agents={"a": own}).run_sync("Go", show=False)
    assert (run.text, len(model.requests)) == ("Picked.", 2)
    replaced = steps("  - {id: x, type: agent, name: a}").run_sync(
        "Go", agents={"a": bare_agent("Mine.")}, model="simulated:disciplined"
    )
    assert replaced.text == "Mine."


def test_scripted_replies_apply_to_a_step_or_its_agent() -> None:
    text = "\n  - {id: x, type: agent, name: a}\n  - {id: y, type: agent, name: a}\n  - {id: z, type: agent, name: a}"
    run = played(steps(text), "Go", {"a": ["one", "two"], "y": ["mine"]})
    assert [run.steps[name]["output"] for name in "xyz"] == ["one", "mine", "two"]
    agents = "agents: {a: {instruction: 'About {{ $prompt }}', replies: [one, two, three]}}"
    run = asyncio.run(Workflow.from_yaml(f"{agents}\nworkflow:{text}\n").run("Go", show=False))
    assert [run.steps[name]["output"] for name in "xyz"] == ["one", "two", "three"]


@pytest.mark.req("R4.32")
def test_failed_workflow_raises_with_its_run_in_scripts(snapshot: Snapshot) -> None:
    workflow = steps("  - {id: x, type: agent, name: a}")
    with pytest.raises(WorkflowError, match="step x: Scripted failure: provider") as caught:
        workflow.run_sync("Go", replies={"x": [{"error": "provider"}]}, show=False)
    assert isinstance(caught.value.run, Run) and caught.value.run.step_context == {"steps": {}, "order": []}
    with pytest.raises(SettingsError, match="The agent a has no model"):
        workflow.run_sync("Go")
    with pytest.raises(SettingsError, check=snapshot.worded):
        workflow.run_sync("Go", model="simulated:disciplined", replies={"xx": ["X"]})
    live = workflow.start("Go", RunOptions(show=False), replies={"x": ["X"]})
    assert live.result(30).text == "X"
