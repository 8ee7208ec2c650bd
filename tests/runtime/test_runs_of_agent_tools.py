"""Agents, workflows and orchestrations as tools: nested runs and results for the model."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from own_orchestrator import side_by_side
from run_checks import assert_every_call_has_one_result, codes, results
from scripted_runs import bare, reply
from waiting import PATIENCE, wait_until

from agentnb import Agent, Extension, Run, RunOptions, Stop, Store, ToolCall, Workflow, from_portable, portable, recover, tool
from agentnb.core.messages import Text
from agentnb.core.usage import Usage
from agentnb.errors import UnknownTool, WorkflowError, WorkflowProblems
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask
from agentnb.tools.agent_tool import ToolOffer
from agentnb.tools.function import as_tool
from agentnb.tools.tool import ToolContext

STEP = "workflow: [{type: tool, name: noted}]\n"


async def noted() -> str:
    """Note."""
    return "noted"


async def look() -> str:
    """Look."""
    return "seen"


@tool(effects=["write"])
def write() -> str:
    """Write."""
    return "written"


async def wait() -> str:
    """Wait."""
    await asyncio.sleep(PATIENCE)
    return "waited"


def fails() -> str:
    """Fail."""
    raise ValueError("broken")


def helper(*replies: Any, tools: Any = (noted,), **settings: Any) -> Agent:
    """Return an agent named helper with this script."""
    return bare(ScriptedModel(replies), tools, **{"name": "helper", **settings})


def asks(prompt: str = "Find it.", name: str = "helper") -> ToolCall:
    return ToolCall(name, {"prompt": prompt})


def outer(called: Any, *calls: ToolCall, **settings: Any) -> Agent:
    """Return an agent that calls this tool."""
    return bare(ScriptedModel([*(calls or (asks(),)), "Done."]), [tool(called, name="helper")], **settings)


def nested(run: Run, store: Store) -> list[Run]:
    """Return the runs nested in a run."""
    return [stored for stored in map(store.load, sorted(store.ids())) if stored.parent_id == run.id]


# Results for the model


@dataclass
class Place:
    name: str
    size: int


def test_agent_tool_result_is_run_text_or_json_output(subtests: pytest.Subtests) -> None:
    place, data = '{"name":"Bay","size":2}', {"name": "Bay", "size": 2}
    named = "workflow: [{id: a, type: tool, name: noted}, {id: b, type: tool, name: look}]\noutput: a\n"
    cases: dict[str, tuple[Any, str, Any]] = {
        "text": (helper("Found it."), "Found it.", "Found it."),
        "output": (helper(f"Here:\n```json\n{place}\n```", output=Place), place, data),
        "list": (helper("[1, 2]", output=list[int]), "[1,2]", [1, 2]),
        "workflow": (Workflow.from_yaml(STEP, tools=[noted]), "noted", "noted"),
        "workflow with an output": (Workflow.from_yaml(named, tools=[noted, look]), "noted", "noted"),
        "orchestration": (side_by_side(helper("Left."), helper("Right.")), "Left. and Right.", "Left. and Right."),
    }
    for case, (runnable, text, value) in cases.items():
        values: list[Any] = []

        async def calls(context: ToolContext) -> str:
            """Call the helper."""
            outcome = await context.call("helper", {"prompt": "Find it."})
            values.append(outcome.value)  # noqa: B023  # called within this turn
            return outcome.text

        with subtests.test(case):
            run = bare(ScriptedModel([ToolCall("calls"), "Done."]), [tool(runnable, name="helper"), calls]).run_sync("Go.")
            assert (run.status, codes(run), results(run)[0].text, values) == ("completed", [None], text, [value])


def test_agent_tool_call_without_a_prompt_starts_no_run(subtests: pytest.Subtests) -> None:
    cases: dict[str, Any] = {
        "none": {},
        "number": {"prompt": 3},
        "more": {"prompt": "Find it.", "depth": 2},
        "text": "Find it.",
        "null": None,
    }
    for case, arguments in cases.items():
        with subtests.test(case):
            run = outer(helper("Found it."), ToolCall("helper", arguments)).run_sync("Go.")
            assert codes(run) == ["invalid_arguments"] and not run.rounds[0].records[0].nested


class StoppedAlone:
    """A custom runnable whose run is stopped without its parent."""

    tool_offer = ToolOffer("helper", "Finds.")

    async def run(self, prompt: str, options: RunOptions | None = None) -> Run:
        live = helper(ToolCall("wait"), tools=[wait]).start(prompt, options)
        live.stop()
        return await live


def test_incomplete_run_is_an_error_with_the_reason(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    look = ToolCall("noted")
    cases: dict[str, Any] = {
        "failed at once": helper(ValueError("boom")),
        "failed later": helper([Text("So far."), look], ValueError("boom")),
        "limited": helper([Text("So far."), look], max_rounds=1),
        "limited and raises": helper(look, max_rounds=1, on_limit="raise"),
        "workflow": Workflow.from_yaml("workflow: [{id: a, type: tool, name: fails}]\n", tools=[fails]),
        "stopped": helper(look, extensions=[Extension(name="enough", policies=(lambda run: Stop("enough", "stopped"),))]),
        "cancelled": StoppedAlone(),
        "does not begin": Agent("anthropic:claude", name="helper"),
    }
    for case, runnable in cases.items():
        with subtests.test(case):
            run = outer(runnable).run_sync("Go.")
            assert (run.status, codes(run)) == ("completed", ["nested_run_failed"])
            assert results(run)[0].text == snapshot(case)
            assert_every_call_has_one_result(run)


def test_time_limit_of_the_tool_stops_its_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    called = tool(helper(ToolCall("wait"), tools=[wait]), timeout=0.05)
    run = outer(called).run_sync("Go.", store=store)
    assert (run.status, codes(run)) == ("completed", ["timeout"])
    assert [nested_run.status for nested_run in nested(run, store)] == ["cancelled"]


def test_self_calling_agent_tool_ends_after_twenty_levels(tmp_path: Path, snapshot: Snapshot) -> None:
    again = Agent(Repeating(asks()), name="helper", todos=False, guidance="off")
    again.toolbox.register(tool(again))
    store = Store(tmp_path)
    run = again.run_sync("Go.", store=store)
    runs = [store.load(run_id) for run_id in store.ids()]
    assert run.status == "completed" and len(runs) == 20
    (innermost,) = [one for one in runs if codes(one) != [None]]
    assert codes(innermost) == ["too_many_nested_runs"] and results(innermost)[0].text == snapshot


class Repeating(ScriptedModel):
    """A model that makes this call in each run, then answers."""

    def __init__(self, call: ToolCall) -> None:
        super().__init__([lambda request: "Done." if len(request.messages) > 1 else call], repeat=True)


# The nested run


def test_nested_run_is_stored_with_parent_and_shares_its_budget(tmp_path: Path) -> None:
    def paid(part: Any) -> Any:
        return reply(part, usage=Usage(1, 1, cost=0.25), stop_reason="tool_use" if isinstance(part, ToolCall) else "end_turn")

    store = Store(tmp_path)
    inner = helper(*[paid(ToolCall("noted", id=str(n))) for n in range(4)], paid(Text("Done.")), unpriced=True)
    run = outer(inner, budget=0.6, unpriced=True).run_sync("Go.", store=store)
    (one,) = nested(run, store)
    (begun,) = run.rounds[0].records[0].nested
    assert (one.parent_id, one.prompt, begun.run_id, begun.agent) == (run.id, "Find it.", one.id, "helper")
    assert (one.status, one.stop_reason, run.stop_reason) == ("limited", "budget", "budget")
    assert run.counters.spent_inside == one.spent == 0.75


def test_nested_questions_are_answered_through_the_outer_run() -> None:
    async def colour(context: ToolContext) -> str:
        """Ask."""
        return f"They said {await context.ask('Which colour?')}"

    live = outer(helper(ToolCall("colour"), "Done.", tools=[colour])).start("Go.")
    wait_until(lambda: live.run.waiting or live.done)
    (question,) = live.run.waiting
    assert (question.message, question.call_id) == ("Which colour?", live.run.rounds[0].calls[0].id)
    live.answer("blue", question.id)
    assert live.result(PATIENCE).status == "completed"


def test_approval_mode_allows_agent_tools_but_judges_their_runs(
    subtests: pytest.Subtests, tmp_path: Path, snapshot: Snapshot
) -> None:
    for mode, code in {"read_only": "denied", "auto": None}.items():
        with subtests.test(mode):
            store = Store(tmp_path / mode)
            run = outer(helper(ToolCall("write"), "Done.", tools=[write])).run_sync("Go.", store=store, approve=mode)
            assert codes(run) == [None] and [codes(nested_run) for nested_run in nested(run, store)] == [[code]]
    with subtests.test("ask"):
        live = outer(helper(ToolCall("write"), "Done.", tools=[write])).start("Go.", RunOptions(approval_mode="ask"))
        wait_until(lambda: live.run.waiting or live.done)
        (question,) = live.run.waiting
        assert question.message == snapshot("question")
        live.answer("approve", question.id)
        assert live.result(PATIENCE).status == "completed"


def test_calls_overlap_only_if_the_tool_is_parallel_safe(subtests: pytest.Subtests) -> None:
    for safe in (True, False):
        open_now, most = 0, 0

        async def hold() -> str:
            """Count how many run at once."""
            nonlocal open_now, most
            open_now += 1
            most = max(most, open_now)
            await asyncio.sleep(0.01)
            open_now -= 1
            return "held"

        with subtests.test(f"parallel_safe={safe}"):
            inner = Agent(Repeating(ToolCall("hold")), tools=[hold], name="helper", todos=False, guidance="off")
            called = tool(inner, parallel_safe=safe)
            both = [asks("One."), asks("Two.")]
            run = bare(ScriptedModel([both, "Done."]), [called]).run_sync("Go.")
            assert (codes(run), most) == ([None, None], 2 if safe else 1)


# References to tools


def test_workflow_agents_and_steps_run_an_agent_as_a_tool(subtests: pytest.Subtests, tmp_path: Path) -> None:
    step = "workflow: [{id: a, type: tool, name: helper, args: {prompt: Find it.}}]\n"
    of_agent = "agents: {boss: {tools: [helper]}}\nworkflow: [{id: a, type: agent, name: boss, prompt: Go.}]\n"
    place = '{"name": "Bay", "size": 2}'
    cases: dict[str, tuple[str, Agent, dict[str, Any], Any]] = {
        "step": (step, helper("Found it."), {}, "Found it."),
        "step with an output": (step, helper(place, output=Place), {}, {"name": "Bay", "size": 2}),
        "agent": (of_agent, helper("Found it."), {"replies": {"boss": [asks(), "Done."]}}, "Done."),
    }
    for case, (text, called, how, output) in cases.items():
        with subtests.test(case):
            store = Store(tmp_path / case)
            run = Workflow.from_yaml(text, tools=[called]).run_sync("Go.", store=store, **how)
            assert run.step_context["steps"]["a"]["output"] == output
            assert [stored.prompt for stored in map(store.load, store.ids()) if stored.agent == "helper"] == ["Find it."]


def test_failed_agent_step_states_the_reason() -> None:
    text = "workflow: [{id: a, type: tool, name: helper, args: {prompt: Find it.}}]\n"
    with pytest.raises(WorkflowError, match="status failed, stop reason error"):
        Workflow.from_yaml(text, tools=[helper(ValueError("boom"))]).run_sync("Go.")
    with pytest.raises(WorkflowProblems, match="promt"):
        Workflow.from_yaml(text.replace("prompt:", "promt:"), tools=[helper()], checks_actions=True)


def test_recovered_run_requires_its_agent_tool_again(tmp_path: Path) -> None:
    def careful(call: ToolCall, run: Run) -> Ask:
        return Ask("May it?")

    store = Store(tmp_path)
    asked = outer(helper("Found it."), gates=[careful]).run_sync("Go.", store=store, suspend=True)
    (question,) = asked.waiting
    again: Any = {"store": store, "gates": [careful], "model": ScriptedModel(["Done."]), "answers": {question.id: True}}
    with pytest.raises(UnknownTool, match="helper"):
        asyncio.run(recover(asked.id, **again))
    run = asyncio.run(recover(asked.id, tools=[helper("Found it.")], **again))
    assert (run.status, results(run)[0].text) == ("completed", "Found it.")
    assert [nested_run.parent_id for nested_run in nested(run, store)] == [run.id]


def test_agent_used_as_a_tool_can_be_pickled() -> None:
    for called in (helper("Found it."), tool(helper("Found it.", name="other"), name="helper", parallel_safe=True)):
        there = from_portable(portable(bare(ScriptedModel([asks(), "Done."]), [called])))
        assert results(there.run_sync("Go."))[0].text == "Found it."
        ((one,),) = [[*there.toolbox]]
        assert one.parallel_safe == as_tool(called).parallel_safe
