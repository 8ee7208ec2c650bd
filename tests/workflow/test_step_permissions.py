"""Permission of tool steps: the mode of the run, alone and with the rules of a task file."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from marked_logs import cut_log
from property_settings import size
from snapshots import Snapshots
from workflow_examples import played

from agentnb import Agent, Run, RunOptions, Store, ToolCall, Workflow, recover, tool
from agentnb.core.log.events import CallBlocked, ToolFinished, ToolStarted
from agentnb.core.questions import answer_form
from agentnb.core.run.rounds import INTERRUPTED
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.display.texts.states import next_step
from agentnb.errors import WorkflowError
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext

STEPS = """
workflow:
  - {id: seen, type: tool, name: look}
  - {id: first, type: tool, name: write, args: {path: a}}
  - {id: second, type: tool, name: write, args: {path: b}}
"""
TASKS = """
stage:
  first: {action: write, input: {path: a}}
  second: {action: write, input: {path: b}}
"""


class Tools:
    """Two tools that record their calls; one only reads."""

    def __init__(self) -> None:
        self.done: list[str] = []

        @tool(effects=["read"])
        async def look() -> str:
            self.done.append("look")
            return "seen"

        async def write(path: str) -> str:
            self.done.append(f"write {path}")
            return f"wrote {path}"

        self.tools = [look, write]

    def workflow(self, text: str = STEPS) -> Workflow:
        return Workflow.from_yaml(text, tools=self.tools)


def saying(*answers: Any) -> Callable[[Any], Any]:
    left = list(answers)
    return lambda question: left.pop(0)


def error_of(run: Run) -> str:
    return "" if run.error is None else run.error.message


def test_mode_decides_whether_a_tool_step_needs_approval(subtests: pytest.Subtests) -> None:
    everything = ["look", "write a", "write b"]
    cases: list[tuple[str, list[Any], list[str], int, str]] = [
        ("auto", [], everything, 0, ""),
        ("never", [], everything, 0, ""),
        ("ask", ["approve", True], everything, 2, ""),
        ("ask", ["always"], everything, 1, ""),
        ("ask", [{"edit": {"path": "c"}}, "deny: enough"], ["look", "write c"], 2, "They said: enough"),
        ("read_only", [], ["look"], 0, "this run only allows tools that read"),
    ]
    for mode, answers, done, asked, why in cases:
        with subtests.test(f"{mode} {answers}"):
            tools = Tools()
            run = played(tools.workflow(), "", {}, approve=mode, answer=saying(*answers))
            assert (tools.done, len(run.questions)) == (done, asked)
            assert (run.status == "failed") == bool(why) and why in error_of(run)
            assert run.settings.get("approve", "auto") == mode


def test_read_only_denial_suggests_declaring_effects_but_no_useless_rerun() -> None:
    for declared, hint in {False: 'declare that: @tool(effects=["read"]). To be asked', True: "To be asked"}.items():
        tools = Tools()
        if declared:
            tools.tools[1] = tool(effects=["write"])(tools.tools[1])
        run = played(tools.workflow(), "", {}, approve="read_only")
        assert run.error is not None and hint in run.error.hint and "--approve ask" in in_notebook(run.error.advice)
        assert ("effects=" in run.error.hint) != declared
        assert next_step(run) is None


def test_stricter_of_task_file_rules_and_approval_mode_wins(subtests: pytest.Subtests) -> None:
    both = ["write a", "write b"]
    cases: list[tuple[str, str, list[Any], list[str], str]] = [
        ("{mode: auto, allow: [write]}", "ask", ["approve", "approve"], both, ""),
        ("auto", "ask", ["always"], both, ""),
        ("ask", "ask", ["approve", "approve"], both, ""),
        ("ask", "ask", ["approve", "deny"], ["write a"], "The person did not allow it"),
        ("ask", "auto", ["approve", "approve"], both, ""),
        ("ask", "never", [], [], "this run does not ask for permission (approve=never)"),
        ("ask", "read_only", [], [], "this run only allows tools that read"),
        ("deny", "ask", [], [], "rules of the task file do not allow it"),
        ("{mode: deny, allow: [write]}", "never", [], both, ""),
    ]
    for approval, mode, answers, done, why in cases:
        with subtests.test(f"{approval} {mode} {answers}"):
            tools = Tools()
            run = played(tools.workflow(f"approval: {approval}\n{TASKS}"), "", {}, approve=mode, answer=saying(*answers))
            assert tools.done == done and len(run.questions) == len(answers)
            offered = {"always" in answer_form(record.question.schema).choices for record in run.questions}
            assert offered <= {not approval.startswith("ask")}, "mode ask in the file asks about each call"
            assert (run.status == "failed") == bool(why) and why in error_of(run)


def test_suspended_step_keeps_its_mode_when_answered(tmp_path: Path, snapshot: Snapshot) -> None:
    tools, store = Tools(), Store(tmp_path)
    run = asyncio.run(tools.workflow().run(store=store, show=False, suspend=True, approve="ask"))
    for done in (["look"], ["look", "write a"]):
        assert run.status == "waiting_on_user" and tools.done == done
        (question,) = run.waiting
        assert question.kind == "approval" and question.message == snapshot("question")
        answers = {question.id: "approve"}
        run = asyncio.run(recover(run.id, store=store, tools=tools.tools, answers=answers, suspend=True))
    assert (run.status, tools.done) == ("completed", ["look", "write a", "write b"])


def test_nested_agents_and_workflows_inherit_mode_and_permanent_approvals(tmp_path: Path) -> None:
    tools = Tools()
    inner = tmp_path / "inner.yaml"
    inner.write_text("workflow:\n  - {type: tool, name: write, args: {path: inner}}\n", "utf-8")
    outer = tmp_path / "outer.yaml"
    outer.write_text(
        "workflow:\n"
        "  - {type: agent, name: worker}\n"
        "  - {type: workflow, file: inner.yaml}\n"
        "  - {type: tool, name: write, args: {path: step}}\n"
        "  - {type: agent, name: worker, id: again}\n",
        "utf-8",
    )
    for mode, done, asked in (("ask", ["write agent", "write inner", "write step", "write agent"], 1), ("read_only", [], 0)):
        tools.done.clear()
        replies = [[ToolCall("write", {"path": "agent"})], "Done."] * 2
        worker = Agent(ScriptedModel(replies), tools=tools.tools, todos=False)
        workflow = Workflow.from_yaml(outer, tools=tools.tools, agents={"worker": worker})
        run = played(workflow, "", {}, approve=mode, answer=saying("always"))
        assert tools.done == done and len(run.questions) == asked, error_of(run)


class Cleaner:
    """A tool whose agent calls another; both need approval and run with edited arguments."""

    def __init__(self, effects: list[str] | None = None) -> None:
        self.done: list[str] = []
        self.asked: list[str] = []

        async def remove(path: str) -> str:
            self.done.append(f"remove {path}")
            return "removed"

        async def clean(path: str, context: ToolContext) -> str:
            self.done.append(f"clean {path}")
            await context.ask("Wholly?", {"enum": ["approve", "deny"]}, "approval")
            agent = Agent(ScriptedModel([[ToolCall("remove", {"path": "all"})], "Done."]), tools=[remove], todos=False)
            return (await agent.run("Go.")).text

        self.tools = [tool(clean, effects=effects) if effects else clean]

    async def answer(self, question: Any) -> Any:
        self.asked.append(question.message.removeprefix("May the tool '").partition("'")[0])
        paths = {"clean": "one", "remove": "two"}
        return next(
            ({"edit": {"path": paths[name]}} for name in paths if f"May the tool '{name}' run" in question.message), "deny"
        )


def test_rerun_call_keeps_only_its_own_approval(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store, whole = Snapshots(tmp_path), Cleaner()
    workflow = Workflow.from_yaml("workflow:\n  - {type: tool, name: clean, args: {path: all}}\n", tools=whole.tools)
    run = played(workflow, "", {}, store, approve="ask", answer=whole.answer)
    assert whole.done == ["clean one", "remove two"] and len(run.questions) == 3
    for folder in store.kept[: -2 : size(2, nightly=1)]:  # before the end of its step
        for effects in (None, ["write"], ["read"]):
            with subtests.test(f"{folder.name} {effects}"):
                answered = [
                    record.question.message for record in Store(folder).load(run.id).questions if record.outcome == "answered"
                ]
                again, copied = Cleaner(effects), shutil.copytree(folder, tmp_path / f"{folder.name} {effects}")
                answers = {"tools": again.tools, "answer": again.answer}
                resumed = asyncio.run(recover(run.id, store=Store(copied), **answers))
                assert (resumed.status, again.done[1:]) == ("completed", ["remove two"])
                of_step = [
                    type(event) for event in resumed.events if getattr(event, "step", "") and hasattr(event, "parent_call")
                ]
                assert of_step.count(ToolStarted) == of_step.count(ToolFinished), "a call starts once"
                if effects == ["read"]:
                    assert "clean" not in again.asked
                else:
                    assert again.done[0] == "clean one"
                    assert again.asked.count("clean") == (0 if answered and not effects else 1), "another tool is asked about"
                assert again.asked.count("Wholly?") == (0 if "Wholly?" in answered else 1), "its own tool keeps its answer"
                assert not resumed.waiting


def test_rerun_call_is_judged_by_its_actual_arguments(tmp_path: Path) -> None:
    done: list[str] = []

    @tool(effects=["write"], repeatable=True, path="path")
    async def clean(path: str) -> None:
        done.append(path)

    workflow = Workflow.from_yaml("workflow:\n  - {type: tool, name: clean, args: {path: all}}\n", tools=[clean])
    for rules, expected in (({"clean(one)": "deny", "clean": "allow"}, ["one"]), ({"clean": "allow"}, ["one", "one"])):
        done.clear()
        store = Store(tmp_path / str(len(expected)))
        run = played(workflow, "", {}, store, approve="ask", answer=saying({"edit": {"path": "one"}}))
        cut_log(tmp_path / str(len(expected)) / f"{run.id}.jsonl", "tool_started")
        again = asyncio.run(recover(run.id, store=store, tools=[clean], permissions=rules))
        assert done == expected and again.status == ("failed" if len(expected) == 1 else "completed")


def test_nested_calls_of_an_interrupted_step_are_answered_once(tmp_path: Path) -> None:
    async def add(a: int) -> int:
        return a

    @tool(repeatable=True)
    async def outer(context: ToolContext) -> None:
        await context.call("add", {"a": 1})

    workflow = Workflow.from_yaml("workflow:\n  - {type: tool, name: outer}\n", tools=[outer, add])
    for rules, ends in (({}, ["outer.1", "outer.2", "outer"]), ({"outer": "deny"}, ["outer.1", "outer"])):
        store = Store(tmp_path / str(len(ends)))
        run = played(workflow, "", {}, store)
        cut_log(tmp_path / str(len(ends)) / f"{run.id}.jsonl", "tool_started", 1)
        again = asyncio.run(recover(run.id, store=store, tools=[outer, add], permissions=rules))
        results = [event.result for event in again.events if isinstance(event, ToolFinished | CallBlocked)]
        assert [result.call_id for result in results] == ends and results[0].error_code == INTERRUPTED
        assert Run.from_events(again.events) == again


FAILING_BLOCK = """
workflow:
  - id: block
    type: parallel
    on_error: {continue: none}
    steps:
      - {id: first, type: tool, name: write, args: {path: a}}
      - {id: second, type: tool, name: fail}
"""


def test_unanswered_approval_gets_a_result_when_its_block_fails(tmp_path: Path) -> None:
    @tool(effects=["read"])
    async def fail() -> str:
        await asyncio.sleep(0.05)
        raise ValueError("no")

    tools = Tools()
    workflow = Workflow.from_yaml(FAILING_BLOCK, tools=[*tools.tools, fail])
    run = asyncio.run(workflow.run(store=Store(tmp_path), approve="ask", suspend=True, show=False))
    kinds = [(type(event).__name__, event.step) for event in run.events if getattr(event, "step", "") == "block/first"]
    assert [kind for kind, _ in kinds] == ["StepStarted", "ToolAdmitted", "ToolFinished", "StepFinished"]
    assert run.status == "completed" and tools.done == []


def test_timeout_of_a_step_pauses_during_an_approval() -> None:
    async def slow(question: Any) -> str:
        await asyncio.sleep(100)
        return "approve"

    tools = Tools()
    text = "workflow:\n  - {type: tool, name: write, args: {path: a}, timeout: 5}\n"
    run = played(tools.workflow(text), "", {}, approve="ask", answer=slow)
    assert (run.status, tools.done) == ("completed", ["write a"])


def test_every_way_to_run_a_workflow_accepts_the_approval_mode() -> None:
    for begin in (
        lambda workflow: workflow.run_sync(approve="read_only", show=False),
        lambda workflow: workflow.start(approve="read_only").result(60),
    ):
        tools = Tools()
        try:
            begin(tools.workflow())
        except WorkflowError as error:
            assert "only allows tools that read" in str(error)
        assert tools.done == ["look"]


def test_rerun_from_a_step_inherits_the_mode_unless_given(subtests: pytest.Subtests) -> None:
    text = STEPS.rpartition("  - ")[0].replace("{path: a}", "{path: a}, on_error: {continue: none}")
    for again, done in ((None, ["look"]), ("auto", ["look", "write a", "write a", "write a"])):
        with subtests.test(str(again)):
            tools = Tools()
            workflow = tools.workflow(text)
            how: dict[str, Any] = {"rerun_from": "first", "of": played(workflow, "", {}, approve="read_only"), "approve": again}
            of = {name: how[name] for name in ("rerun_from", "of")}
            options = RunOptions(approve=again, show=False)
            prepared = workflow.orchestration(**of).start("", options).result(60)
            for run in (played(workflow, "", {}, **how), workflow.start(**how).result(60), prepared):
                assert (run.status, run.settings.get("approve", "auto")) == ("completed", again or "read_only")
            assert tools.done == done
