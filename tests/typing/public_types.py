"""Types of the public names as a user's type checker sees them: `make check` reads this file, nothing runs it.

`assert_type` fails where a type degrades to Any. A line with `type: ignore[code]` must be an error of that code: mypy reports
an ignore that it does not need. Tables and figures are outside: pandas and matplotlib have no types here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import agentnb
from agentnb import (
    Agent,
    Allow,
    Block,
    Continue,
    Deny,
    Experiment,
    Extension,
    Finding,
    GuidanceSet,
    Orchestration,
    PolicyBundle,
    Run,
    RunOptions,
    Stop,
    Store,
    Todo,
    TodoBoard,
    ToolCall,
    Workflow,
    compare,
    detect,
    diff,
    expect,
    fork,
    fork_sync,
    from_portable,
    iter_traces,
    load_trace,
    load_traces,
    portable,
    recover,
    replay,
    reproduce_sync,
    save_trace,
    to_code,
    to_test,
    tool,
    within,
)
from agentnb.core.messages import Message
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.usage import Usage
from agentnb.core.view import View
from agentnb.errors import AgentnbError, SettingsError
from agentnb.experiments.design import Design
from agentnb.experiments.pilot import Pilot
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.running.live_experiment import LiveExperiment
from agentnb.models import ScriptedModel
from agentnb.policies.gates.gate_verdicts import Ask
from agentnb.rerun.replay_result import Replay
from agentnb.rerun.run_diff import RunDiff
from agentnb.runtime.host.live_run import LiveRun
from agentnb.store.follow import FollowedRun
from agentnb.tools.agent_tool import AgentTool
from agentnb.tools.tool import ToolContext

assert_type(agentnb.__version__, str)
agentnb.nonsense  # type: ignore[attr-defined]


@tool
def shout(text: str) -> str:
    return text.upper()


@tool(repeatable=True, role="planning")
async def plan(context: ToolContext, goal: str) -> list[str]:
    return [goal]


assert_type(shout("a"), str)
shout(1)  # type: ignore[arg-type]
tool(repeatble=True)  # type: ignore[call-overload]
tool(role="boss")  # type: ignore[call-overload]
assert_type(tool(Agent("simulated:disciplined"), name="helper", description="Helps."), AgentTool)
assert_type(tool(Workflow.from_yaml("workflow: []"), timeout=3.0), AgentTool)
tool(Agent("simulated:disciplined"), effects=["read"])  # type: ignore[call-overload]


def gate(call: ToolCall, run: detect.Run) -> Allow | Ask | Deny | Block | None:
    assert_type(call.name, str)
    return Deny("no") if run.calls else None


def wrong_gate(call: ToolCall, run: detect.Run) -> str:
    return "no"


def policy(run: detect.Run) -> Continue | Stop | None:
    return Stop("enough") if run.text else None


agent = Agent("simulated:disciplined", [shout, plan], gates=[gate], extensions=[Extension(name="brief", prompt="Be brief.")])
Agent(ScriptedModel(["Hello."]), guidance=GuidanceSet("mine", {}))
Agent("m", max_rounds="3")  # type: ignore[arg-type]
Agent("m", gates=[wrong_gate])  # type: ignore[list-item]
Agent("m", max_round=3)  # type: ignore[call-arg]
Agent()


async def run_agents(workflow: Workflow, orchestration: Orchestration) -> None:
    assert_type(await agent.run("Hello."), Run)
    assert_type(agent.run_sync("Hello.", tags=("a",)), Run)
    assert_type(agent.start("Hello.", RunOptions(show=False)), LiveRun)
    assert_type(await workflow.run("Hello."), Run)
    assert_type(workflow.run_sync(inputs={"a": 1}), Run)
    assert_type(await orchestration.run("Hello."), Run)
    assert_type(await recover("a", store=Store("runs")), Run)
    agent.run_sync("Hello.", tag="a")  # type: ignore[call-arg]
    agent.run_sync(1)  # type: ignore[arg-type]


def read_run(run: Run) -> None:
    assert_type(run.id, str)
    assert_type(run.text, str)
    assert_type(run.stop_reason, str | None)
    assert_type(run.cost, float | None)
    assert_type(run.usage, Usage)
    assert_type(run.rounds, View[WorkflowRound])
    assert_type(run.messages, View[Message])
    assert_type(run.todos, tuple[Todo, ...])
    assert_type(run.detected, View[Finding])
    run.status = "completed"
    run.status = "finished"  # type: ignore[assignment]
    run.run_id  # type: ignore[attr-defined]


def read_traces(path: Path, store: Store) -> None:
    assert_type(load_trace(path), Run)
    assert_type(load_trace("log", follow=True), FollowedRun)
    assert_type(load_traces(store)[0], Run)
    assert_type(iter_traces([path]), Iterator[Run])
    assert_type(store.load("a"), Run)
    assert_type(store.ids(), list[str])
    load_trace(1)  # type: ignore[call-overload]


async def rerun(run: Run) -> None:
    assert_type(replay(run, guidance="matrix"), Replay)
    assert_type(replay("log").sentence, str)
    assert_type(await fork(run, at_round=2, model="m"), Run)
    assert_type(fork_sync(run, 2), Run)
    assert_type(reproduce_sync(run), Run)
    assert_type(diff(run, run), RunDiff)
    assert_type(expect(run, "loops == 0"), Run)
    assert_type(to_code(run), str)
    assert_type(to_test(run, "loops == 0", form="pytest"), str)
    assert_type(save_trace(run, "run.html"), Path)
    assert_type(detect.findings(run, "default"), list[Finding])
    fork_sync(run)  # type: ignore[call-arg]
    to_test(run, form="unittest")  # type: ignore[arg-type]


async def experiment() -> None:
    exp = Experiment([{"id": "a", "prompt": "Go"}], {"x": "off"}, checks=[within(cost=1.0)])
    assert_type(exp.design(), Design)
    assert_type(await exp.pilot(2), Pilot)
    results = await exp.run()
    assert_type(results, Results)
    assert_type(exp.run_sync(), Results)
    assert_type(exp.start(), LiveExperiment)
    assert_type(exp.extend(repeats=1).retry("why"), Experiment)
    assert_type(compare(results, "x", "y"), Comparison)
    assert_type(compare(results), list[Comparison])
    assert_type(compare("runs", ["more"]).p_value, float | None)
    Experiment([], {}, executor="cloud")  # type: ignore[arg-type]


def build(board: TodoBoard, bundle: PolicyBundle) -> None:
    assert_type(board.add("Look"), Todo)
    assert_type(bundle.also_asking(policy), PolicyBundle)
    assert_type(portable(agent), bytes)
    assert_type(from_portable(b""), Agent)
    assert_type(Workflow.from_yaml("steps: []"), Workflow)
    assert_type(GuidanceSet.from_markdown("mine", "# tools").markdown(), str)
    assert_type(issubclass(SettingsError, AgentnbError), bool)
