"""``llm/exec:run_plan``: runs the steps of a plan, and returns the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from agentnb.core.messages import ToolCall, encodable
from agentnb.core.plans.plan_steps import ABORT, ASKING, ELICITATION, NOOP, TOOL
from agentnb.core.run.rounds import DUPLICATE
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import SettingsError
from agentnb.policies.gates.duplicate import DuplicateGuard
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import MappingNode
from agentnb.workflow.plans.chat_execution import run_chat_steps
from agentnb.workflow.plans.offered_tools import offered, tool_of_step
from agentnb.workflow.plans.plan_reader import EXAMPLE, node_of, plan_of_data, read_plan
from agentnb.workflow.plans.plan_results import (
    StepResult,
    answer_result,
    given_results,
    last_output,
    note_call,
    problem_of,
    recall_output,
    referred_output,
    step_result,
    window_of,
)
from agentnb.workflow.plans.plan_spec import MAX_STEPS, TYPES, PlanQuestion, PlanSpec, PlanStep
from agentnb.workflow.plans.step_references import filled
from agentnb.workflow.tasks.actions import ActionCall

_STOP, _GO_ON = True, False
_GUARD = DuplicateGuard()


async def run_plan(call: ActionCall) -> dict[str, Any]:
    """Run the steps of a plan in their order, and return all results: the action ``llm/exec:run_plan``.

    Input: ``plan``, ``results``, ``transcript``, and ``tools`` (names; by default all of the run). A step whose id has a result
    already is not run again. A question ends the plan: its answer is a result for the planner.
    """
    call = _with_offered_tools(call)
    plan, results = plan_of(call.input.get("plan")), given_results(call.input.get("results"))
    execution = _Execution(call, plan, results)
    if plan.form == "chat":
        await run_chat_steps(call, plan, results)
    elif execution.plan.question is not None:
        await execution.ask("plan", execution.plan.id or "plan", execution.plan.question)
    else:
        await execution.run_steps()
    return {"results": execution.results, "elicitation": None, "transcript": call.input.get("transcript")}


def _with_offered_tools(call: ActionCall) -> ActionCall:
    """Return the call with the tools only that its input names, if it names any: a plan calls no others."""
    if (names := call.input.get("tools")) is None:
        return call
    found = [call.tools.get(one.name) for one in offered(names, call.tools)]
    return replace(call, tools=Toolbox(filter(None, found)))


def plan_of(given: Any) -> PlanSpec:
    """Return the plan of an input, as plain data; raise `SettingsError` if it is none."""
    if (written := plan_of_data(given)) is not None:
        return written
    data = plain_data(given, "The plan")
    if not isinstance(data, dict) or not isinstance(data.get("steps"), list | None):
        raise SettingsError("plan is not a plan", EXAMPLE)
    steps = data.get("steps") or []
    if len(steps) > MAX_STEPS:
        raise SettingsError(f"The plan has more than {MAX_STEPS:,} steps", "Split it")
    told = [step.get("problem") if isinstance(step, dict) else None for step in steps]
    bare = [_without(step, "problem") for step in steps]
    node = node_of({key: value for key, value in {**data, "steps": bare}.items() if value is not None})
    assert isinstance(node, MappingNode), "it is a mapping"
    read = read_plan(node, Problems())
    faults = ["; ".join(fault.message for fault in found) for found in read.faults]
    read_steps = [
        structs.replace(step, problem=str(one) if one else fault or None)
        for step, one, fault in zip(read.plan.steps, told, faults, strict=True)
    ]
    return structs.replace(read.plan, steps=tuple(read_steps))


def _without(step: Any, key: str) -> Any:
    return {name: value for name, value in step.items() if name != key} if isinstance(step, dict) else step


class _Execution:
    """One execution of a plan."""

    def __init__(self, call: ActionCall, plan: PlanSpec, results: list[StepResult]) -> None:
        self.plan = plan
        self.results = results
        self._call = call
        self._before = {str(one["id"]): one for one in results if one["id"] not in (None, "")}
        """The results that there were before, by the ids of their steps."""
        self._window = window_of(results)
        self._outputs: dict[int, StepResult] = {}
        """The results of the steps of this plan, by their places in it."""
        self._first: dict[tuple[str, bytes], int] = {}
        """The place of the first step that makes a call, by the call as it is written."""

    async def run_steps(self) -> None:
        """Run the steps until one ends the plan."""
        for index, step in enumerate(self.plan.steps):
            if await self._run(step, index) is _STOP:
                break

    async def _run(self, step: PlanStep, index: int) -> bool:
        """Run a step; return whether the plan ends with it."""
        if (known := self._before.get(step.id or "")) is not None:
            self._outputs[index] = known
            return _GO_ON
        if step.type == NOOP:
            return _GO_ON
        if step.type == ABORT:
            self._call.abort(encodable(step.reason or step.content or "The plan was aborted"))
            return _STOP
        if step.question is not None and step.problem is None:
            if not step.question.is_empty:
                await self.ask(str(index), self._id(step, index), step.question)
            return _GO_ON if step.question.is_empty else _STOP
        problem = step.problem or ("" if step.type == TOOL else f"there is no type {step.type}, only {', '.join(TYPES)}")
        return await (self._fail(step, index, problem) if problem else self._call_tool(step, index))

    async def ask(self, key: str, step: str, question: PlanQuestion, call: ToolCall | None = None) -> None:
        """Ask the person, also for arguments that a call lacks, and take what they did as a result."""
        if problem := problem_of(question):
            self.results.append(step_result(step, ELICITATION, {"message": question.data["message"]}, None, problem))
            return
        answer = await self._call.ask(f"{ASKING}{key}", question.data["message"], question.asked_schema, call)
        self.results.append(answer_result(step, question, answer))

    async def _call_tool(self, step: PlanStep, index: int) -> bool:
        call = ToolCall(step.name or "", step.args or {}, f"{self._call.path}/{index}")
        if (first := self._first.setdefault(self._window.key_of(call), index)) != index:
            if first in self._outputs:
                self._outputs[index] = self._outputs[first]
            return _GO_ON
        try:
            call = _with_arguments(call, filled(call.arguments, self._output_of))
            tool = tool_of_step(call.name, self._call.tools)
        except SettingsError as error:
            return await self._fail(step, index, f"{error.what}. {error.hint}" if error.hint else error.what)
        if missing := _missing(tool.spec.input_schema, call.arguments):
            message = f'Tool "{step.name}" requires additional parameters.'
            await self.ask(str(index), self._id(step, index), PlanQuestion(message=message, schema=missing), call)
            return _STOP
        return await self._make(step, index, call, is_repeatable=getattr(tool, "repeatable", False))

    async def _make(self, step: PlanStep, index: int, call: ToolCall, *, is_repeatable: bool) -> bool:
        """Make the call of a step, unless it repeats others; return whether the plan ends with it."""
        key, step_id = str(index), self._id(step, index)
        recall_output(self._window, call, self.results)
        block = None if is_repeatable else _GUARD.repeats(call, self._window)
        if block is not None:
            await self._call.call_tool(key, call.name, call.arguments, block=block)
            output = last_output(self.results, call)
            self._take(index, call, step_result(step_id, call.name, call.arguments, output, DUPLICATE))
            return _GO_ON
        answer = await self._call.call_tool(key, call.name, call.arguments, step.retries)
        self._take(index, call, step_result(step_id, call.name, call.arguments, answer.result, answer.error))
        return answer.error is not None and await self._call.failed(call.name, answer.error)

    async def _fail(self, step: PlanStep, index: int, error: str) -> bool:
        """Give a step that cannot be run its result; return whether the plan ends with it."""
        name = step.name or step.type
        result = step_result(self._id(step, index), name, step.args, None, encodable(error))
        self._outputs[index] = result
        self.results.append(result)
        return await self._call.failed(name, result["error"])

    def _take(self, index: int, call: ToolCall, result: StepResult) -> None:
        note_call(self._window, call, result)
        self._outputs[index] = result
        self.results.append(result)

    def _output_of(self, index: int) -> Any:
        return referred_output(self._outputs.get(index), index)

    def _id(self, step: PlanStep, index: int) -> str:
        return step.id or f"{self.plan.id or 'step'}-{index}"


def _with_arguments(call: ToolCall, arguments: dict[str, Any]) -> ToolCall:
    """Return the call with these arguments; the same call if they are its own, whose key is known."""
    return call if arguments == call.arguments else structs.replace(call, arguments=arguments)


def _missing(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments that a call lacks; empty if it lacks none."""
    required = schema.get("required")
    if not isinstance(required, list) or arguments.keys() >= set(required):
        return {}
    names = [name for name in required if name not in arguments]
    properties = schema.get("properties") or {}
    more = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
    return {"type": "object", "properties": {name: properties.get(name, {}) for name in names}, "required": names, **more}
