"""The action ``llm/exec:run_plan``, which runs the steps of a plan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from itertools import filterfalse
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from agentnb.agent.agent import Agent
from agentnb.context.side_question import side_question
from agentnb.core.messages import ToolCall, encodable
from agentnb.core.plans.plan_steps import EXECUTOR, PlanQuestion, PlanStep
from agentnb.core.run.call_window import CallWindow, call_key
from agentnb.core.run.rounds import DUPLICATE
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import SettingsError
from agentnb.runtime.steps.step_failures import FailedStep
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.defaults import MAX_PLAN_STEPS
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import MappingNode
from agentnb.workflow.graph.nodes import Call
from agentnb.workflow.plans.offered_tools import select_tools, with_tools_of_groups
from agentnb.workflow.plans.plan_graph import Abort, Ask, Fail, Prompt, compile_plan, lasting_ids, number_of, result_ids
from agentnb.workflow.plans.plan_reader import EXAMPLE, node_of, plan_of_data, read_plan
from agentnb.workflow.plans.plan_results import (
    StepResult,
    ask_question,
    calls_of,
    guard_of,
    last_output,
    note_call,
    read_results,
    referred_output,
    step_result,
)
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.step_references import fill_references
from agentnb.workflow.running.agents import find_tool
from agentnb.workflow.running.execution import Execution
from agentnb.workflow.tasks.task_calls import ActionCall

PROMPT = Path(__file__).with_name("prompts") / "executor.md"


async def run_plan(call: ActionCall) -> dict[str, Any]:
    """Run the steps of a plan in order and return all results: the action ``llm/exec:run_plan``.

    Input: ``plan``, ``results``, ``transcript``, and ``tools`` (names; by default, all tools of the run). Steps whose ids
    already have a result are skipped. A question ends the plan; its answer becomes a result for the planner.
    """
    call = _with_offered_tools(call)
    plan, results = plan_of(call.input.get("plan")), read_results(call.input.get("results"))
    plan = with_tools_of_groups(plan, {spec.name for spec in call.tools.specs})
    hands = _Hands(call, plan, results)
    if plan.question is not None:
        results.append(await ask_question(call, "plan", plan.id or "plan", plan.question))
        hands.is_cut = bool(plan.steps)
    else:
        graph = compile_plan(plan, call.path, hands.known, call.tools)
        hands.handles_failure_at_once = graph.handles_failure_at_once
        await call.walk(graph, hands)
        results += await hands.end()
    if hands.is_cut:
        call.warn_without_planner(plan.id)
    call.return_plain()
    return {"results": results, "elicitation": None, "transcript": call.input.get("transcript")}


def _with_offered_tools(call: ActionCall) -> ActionCall:
    """Limit the call's tools to those that its input names, if any; a plan can call no others."""
    if (names := call.input.get("tools")) is None:
        return call
    selected = [call.tools.get(spec.name) for spec in select_tools(names, call.tools)]
    return replace(call, tools=Toolbox(filter(None, selected)))


def plan_of(value: Any) -> PlanSpec:
    """Return the plan in an input of plain data. Raises `SettingsError` for invalid data."""
    if (written := plan_of_data(value)) is not None:
        return written
    data = plain_data(value, "The plan")
    if not isinstance(data, dict) or not isinstance(data.get("steps"), list | None):
        raise SettingsError("plan must be a plan", EXAMPLE)
    steps = data.get("steps") or []
    if len(steps) > MAX_PLAN_STEPS:
        raise SettingsError(f"The plan has more than {MAX_PLAN_STEPS:,} steps", "Split it")
    problems = [step.get("problem") if isinstance(step, dict) else None for step in steps]
    bare = [
        {key: value for key, value in step.items() if key != "problem"} if isinstance(step, dict) else step for step in steps
    ]
    node = node_of({key: value for key, value in {**data, "steps": bare}.items() if value is not None})
    assert isinstance(node, MappingNode), "it is a mapping"
    read = read_plan(node, Problems())
    faults = ["; ".join(fault.message for fault in step_faults) for step_faults in read.faults]
    read_steps = [
        structs.replace(step, problem=str(problem) if problem else fault or None)
        for step, problem, fault in zip(read.plan.steps, problems, faults, strict=True)
    ]
    return structs.replace(read.plan, steps=tuple(read_steps))


class _Hands:
    """Runs the steps of one plan execution and collects their results."""

    def __init__(self, call: ActionCall, plan: PlanSpec, earlier: list[StepResult]) -> None:
        self._call = call
        self._guard = guard_of(call.input.get("guard"))
        self._plan = plan
        self._given = earlier
        before = {str(result["id"]): result for result in earlier if result["id"] not in (None, "")}
        self._ids, lasting = result_ids(plan), lasting_ids(plan)
        self._outputs = {position: before[name] for position, name in enumerate(lasting) if name in before}
        """Results, both old and new, that steps can refer to, by step index."""
        self.known = frozenset(self._outputs)
        """Indexes of the steps that had a result from the start."""
        self._first: dict[tuple[str, bytes], int] = {}
        """Index of the first step to make each call, by the call as written."""
        self._taken: dict[int, StepResult] = {}
        """New results by step index."""
        self._window = CallWindow()
        self._called = [*earlier]
        """Results of calls, including those from the action's input."""
        self._seen = 0
        """Number of these results that are already in the window; it is updated only when a call repeats."""
        self._made = {call_key(call) for call, _ in calls_of(earlier)}
        self.handles_failure_at_once = False
        self.is_cut = False
        """True if a question replaced steps."""

    async def do(self, execution: Execution) -> None:
        """Run a step and store its result."""
        does, position = execution.node.does, int(execution.node.id)
        if depends_on := self._plan.steps[position].depends_on:
            done = self._done()
            lost = next((number for number in depends_on if number not in done or done[number]["error"] is not None), None)
            if lost is not None:
                self._call.skip(str(position), f"step {lost}, which it depends on, has no result")
                self._taken[position] = self._result(position, None, f"skipped: it depends on step {lost}")
                return
        try:
            result = await _WORK[type(does)](self, does, execution, position)
        except SettingsError as error:
            result = self._result(position, None, f"{error.what}. {error.hint}" if error.hint else error.what)
        if result is None:
            return
        self._taken[position] = self._outputs[position] = result
        if self.handles_failure_at_once and result["error"] not in _NOT_FAILED:
            execution.is_last = await self._call.handle_failure(result["name"], result["error"])

    def _done(self) -> dict[int, StepResult]:
        """Return the results of a chat plan, by step number."""
        return {number_of(self._plan.steps[position], position): result for position, result in self._outputs.items()}

    async def end(self) -> list[StepResult]:
        """Return the new results in plan order."""
        results = [self._taken[position] for position in sorted(self._taken)]
        # a planner's failures are already handled
        if failed := next((result for result in results if result["error"] not in _NOT_FAILED), None):
            await self._call.handle_failure(failed["name"], failed["error"])
        return results

    def _result(self, position: int, output: Any, error: str | None, args: Any = None) -> StepResult:
        step = self._plan.steps[position]
        problem = None if error is None else encodable(error)
        name = step.name or next(iter(step.tools), step.type)
        return step_result(self._ids[position], name, step.args if args is None else args, output, problem)

    async def _abort(self, does: Abort, execution: Execution, position: int) -> None:
        self._call.abort(does.reason)

    async def _fail(self, does: Fail, execution: Execution, position: int) -> StepResult:
        return self._result(position, None, does.error)

    async def _ask(self, does: Ask, execution: Execution, position: int) -> StepResult:
        self.is_cut = any(step.type != "noop" for step in self._plan.steps[position + 1 :])
        return await ask_question(self._call, str(position), self._ids[position], does.question)

    async def _tool(self, does: Call, execution: Execution, position: int) -> StepResult | None:
        """Call a tool, unless the call repeats another or lacks arguments."""
        call, key, block, error = ToolCall(does.name, does.args, execution.place.path), None, None, None
        if does.is_guarded:
            key = call_key(call)
            if (first := self._first.setdefault(key, position)) != position:
                if first in self._outputs:
                    self._outputs[position] = self._outputs[first]
                return None
        if not does.is_constant:  # fills in a copy: a tool may change its arguments
            arguments = fill_references(call.arguments, lambda read: referred_output(self._outputs.get(read), read))
            call = structs.replace(call, arguments=arguments)
            key = key and call_key(call)
        tool = self._call.tools.get(call.name) or find_tool(call.name, self._call.tools)
        if key is not None:
            if missing := _missing(tool.spec.input_schema, call.arguments):
                message, execution.is_last = f'Tool "{call.name}" requires additional parameters.', True
                self.is_cut = True
                question = PlanQuestion(message=message, schema=missing)
                return await ask_question(self._call, str(position), self._ids[position], question, call)
            if key in self._made and self._guard is not None and not getattr(tool, "repeatable", False):
                block = self._guard.repeats(call, self._window_now())
        try:
            output = await self._call.call_tool(execution, tool, call.arguments, block)
        except FailedStep as failed:
            output, error = None, failed.failure.text
        if key is None:
            return self._result(position, output, error)
        if block is not None:
            output, error = last_output([*self._given, *self._taken.values()], call), DUPLICATE
        problem = None if error is None else encodable(error)
        result = step_result(self._ids[position], call.name, call.arguments, output, problem)
        self._made.add(key)
        self._called.append(result)
        return result

    def _window_now(self) -> CallWindow:
        """Return the window, updated with all calls that have results."""
        for call, result in calls_of(self._called, self._seen):
            note_call(self._window, call, result)
        self._seen = len(self._called)
        return self._window

    async def _prompt(self, does: Prompt, execution: Execution, position: int) -> StepResult:
        """Run the step with a model, or with an agent that has tools."""
        call, step, key = self._call, self._plan.steps[position], str(position)
        prompt, system = _words(step, self._done()), PROMPT.read_text(encoding="utf-8").strip()
        if not does.is_agent:
            return self._result(position, (await call.ask_model(key, side_question(prompt, system), EXECUTOR)).text, None)
        model = call.settings.get("model")
        if model is None:
            raise SettingsError("A step done by an agent needs a model", "Run the plan with model=, or -m in a shell")
        tools = [find_tool(name, call.tools) for name in step.tools]
        agent = Agent(model, tools=tools, system=system, name=step.type, **(call.settings.get("agent_settings") or {}))
        run = await call.run(key, agent, prompt)
        has_failed = run.status != "completed"
        error = f"its run ended as {run.status}: {run.stop_reason}" if has_failed else None
        return self._result(position, None if has_failed else run.text, error)


_WORK: dict[type, Callable[..., Awaitable[StepResult | None]]] = {
    Abort: _Hands._abort,
    Ask: _Hands._ask,
    Call: _Hands._tool,
    Fail: _Hands._fail,
    Prompt: _Hands._prompt,
}
_NOT_FAILED = (None, DUPLICATE)
"""Errors that do not count as a failed step: none, and a blocked repeat."""


def _words(step: PlanStep, done: Mapping[int, StepResult]) -> str:
    """Return a step's prompt: the step, followed by the results on which it depends, one per line."""
    before = [f"{number}: {msgspec.json.encode(done[number]['result']).decode()}" for number in step.depends_on]
    results = "\n".join(["\n\nResults of earlier steps, as JSON:", *before]) if before else ""
    return f"{step.description or step.type}{results}"


def _missing(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments missing from the call; empty if the call is complete."""
    required = schema.get("required")
    names = [*filterfalse(arguments.__contains__, required)] if isinstance(required, list) else []
    if not names:
        return {}
    properties = schema.get("properties") or {}
    more = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {"type": "object", "properties": {name: properties.get(name, {}) for name in names}, "required": names, **more}
