"""``llm/exec:run_plan``: runs the steps of a plan, and returns the results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from agentnb.agent.agent import Agent
from agentnb.context.side_question import side_question
from agentnb.core.messages import ToolCall, encodable
from agentnb.core.plans.plan_steps import ABORT, ASKING, ELICITATION, EXECUTOR, TOOL, PlanQuestion, PlanStep
from agentnb.core.run.rounds import DUPLICATE
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import SettingsError
from agentnb.policies.gates.duplicate import DuplicateGuard
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import MappingNode
from agentnb.workflow.plans.offered_tools import offered, tool_of_step, way_of_step, with_tools_of_groups
from agentnb.workflow.plans.plan_graph import compiled_plan, number_of, result_id
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
from agentnb.workflow.plans.plan_spec import MAX_STEPS, TYPES, PlanSpec
from agentnb.workflow.plans.step_references import filled
from agentnb.workflow.running.execution import Execution
from agentnb.workflow.tasks.calls import ActionCall

_GUARD = DuplicateGuard()
PROMPT = Path(__file__).with_name("prompts") / "executor.md"


async def run_plan(call: ActionCall) -> dict[str, Any]:
    """Run the steps of a plan in their order, and return all results: the action ``llm/exec:run_plan``.

    Input: ``plan``, ``results``, ``transcript``, and ``tools`` (names; by default all of the run). A step whose id has a result
    already is not run again. A question ends the plan: its answer is a result for the planner.
    """
    call = _with_offered_tools(call)
    plan, results = plan_of(call.input.get("plan")), given_results(call.input.get("results"))
    plan = with_tools_of_groups(plan, {spec.name for spec in call.tools.specs})
    execution = _Execution(call, plan, results)
    if plan.form == "planner" and plan.question is not None:
        await execution.ask("plan", plan.id or "plan", plan.question)
    else:
        await call.walk(compiled_plan(plan, call.path, execution.left_out), execution)
        await execution.end()
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
    """One execution of a plan: does what its steps say, and has their results."""

    def __init__(self, call: ActionCall, plan: PlanSpec, results: list[StepResult]) -> None:
        self.results = results
        self._call = call
        self._plan = plan
        before = {str(one["id"]): one for one in results if one["id"] not in (None, "")}
        ids = [result_id(plan, place) if plan.form == "chat" else step.id or "" for place, step in enumerate(plan.steps)]
        self._outputs = {place: before[name] for place, name in enumerate(ids) if name in before}
        """The results of the steps, now or before, by their places."""
        self.left_out = frozenset(self._outputs)
        """The places of the steps that had one before."""
        self._first: dict[tuple[str, bytes], int] = {}
        """The place of the first step that makes a call, by the call as it is written."""
        self._taken: dict[int, StepResult] = {}
        """The new results of a chat's steps, by place."""
        self._window = window_of(results)

    async def do(self, execution: Execution) -> None:
        """Do a step."""
        step, place = execution.node.does, int(execution.node.id)
        if self._plan.form == "chat":
            await self._do_chat(step, place)
        elif step.type == ABORT:
            self._call.abort(encodable(step.reason or step.content or "The plan was aborted"))
        elif step.question is not None and step.problem is None:
            await self.ask(str(place), result_id(self._plan, place), step.question)
        else:
            problem = step.problem or ("" if step.type == TOOL else f"there is no type {step.type}, only {', '.join(TYPES)}")
            execution.is_last = await (self._fail(step, place, problem) if problem else self._call_tool(step, place))

    async def end(self) -> None:
        """Take the results of a chat's steps in the order of the plan."""
        taken = [self._taken[place] for place in sorted(self._taken)]
        self.results.extend(taken)
        failed = next((one for one in taken if one["error"] is not None), None)
        if failed is not None:
            await self._call.failed(failed["name"], failed["error"])

    async def ask(self, key: str, step: str, question: PlanQuestion, call: ToolCall | None = None) -> None:
        """Ask the person, also for arguments that a call lacks, and take what they did as a result."""
        if problem := problem_of(question):
            self.results.append(step_result(step, ELICITATION, {"message": question.data["message"]}, None, problem))
            return
        answer = await self._call.ask(f"{ASKING}{key}", question.data["message"], question.asked_schema, call)
        self.results.append(answer_result(step, question, answer))

    # A planner's step: whether nothing of the plan follows it

    async def _call_tool(self, step: PlanStep, place: int) -> bool:
        call = ToolCall(step.name or "", step.args or {}, f"{self._call.path}/{place}")
        if (first := self._first.setdefault(self._window.key_of(call), place)) != place:
            if first in self._outputs:
                self._outputs[place] = self._outputs[first]
            return False
        try:
            call = _with_arguments(call, filled(call.arguments, self._output_of))
            tool = tool_of_step(call.name, self._call.tools)
        except SettingsError as error:
            return await self._fail(step, place, f"{error.what}. {error.hint}" if error.hint else error.what)
        if missing := _missing(tool.spec.input_schema, call.arguments):
            message = f'Tool "{step.name}" requires additional parameters.'
            await self.ask(str(place), result_id(self._plan, place), PlanQuestion(message=message, schema=missing), call)
            return True
        recall_output(self._window, call, self.results)
        block = None if getattr(tool, "repeatable", False) else _GUARD.repeats(call, self._window)
        if block is not None:
            await self._call.call_tool(str(place), call.name, call.arguments, block=block)
            self._take(place, call, last_output(self.results, call), DUPLICATE)
            return False
        answer = await self._call.call_tool(str(place), call.name, call.arguments, step.retries)
        self._take(place, call, answer.result, answer.error)
        return answer.error is not None and await self._call.failed(call.name, answer.error)

    async def _fail(self, step: PlanStep, place: int, error: str) -> bool:
        """Give a step that cannot be run its result."""
        name = step.name or step.type
        result = step_result(result_id(self._plan, place), name, step.args, None, encodable(error))
        self._outputs[place] = result
        self.results.append(result)
        return await self._call.failed(name, result["error"])

    def _take(self, place: int, call: ToolCall, output: Any, error: str | None) -> None:
        result = step_result(result_id(self._plan, place), call.name, call.arguments, output, error)
        note_call(self._window, call, result)
        self._outputs[place] = result
        self.results.append(result)

    def _output_of(self, place: int) -> Any:
        return referred_output(self._outputs.get(place), place)

    # A chat's step

    async def _do_chat(self, step: PlanStep, place: int) -> None:
        """Do a step, or skip it where one has no result that it depends on."""
        done = {number_of(self._plan.steps[one], one): result for one, result in self._outputs.items()}
        lost = [other for other in step.depends_on if other not in done or done[other]["error"] is not None]
        output: Any = None
        if lost:
            self._call.skip(str(place), f"step {lost[0]}, which it depends on, has no result")
            error: str | None = f"skipped: it depends on step {lost[0]}"
        else:
            try:
                output, error = await self._outcome(step, place, done)
            except SettingsError as problem:
                error = problem.what
        name = step.tools[0] if step.tools else step.type
        self._taken[place] = step_result(result_id(self._plan, place), name, step.args, output, error)
        if not lost:
            self._outputs[place] = self._taken[place]

    async def _outcome(self, step: PlanStep, place: int, done: Mapping[int, StepResult]) -> tuple[Any, str | None]:
        """Return the output of a step, and its error."""
        if step.problem is not None:
            return None, step.problem
        call, key = self._call, str(place)
        tools = [tool_of_step(name, call.tools) for name in step.tools]
        way = way_of_step(step, lambda name: tool_of_step(name, call.tools).spec)
        if way == "call":
            answer = await call.call_tool(key, tools[0].spec.name, filled(dict(step.args or {}), self._output_of))
            return answer.result, answer.error
        prompt, system = _prompt(step, done), PROMPT.read_text(encoding="utf-8").strip()
        if way == "reply":
            return (await call.ask_model(key, side_question(prompt, system), EXECUTOR)).text, None
        model = call.settings.get("model")
        if model is None:
            raise SettingsError("A step that an agent does needs a model", "Run the plan with model=, or -m in a shell")
        agent = Agent(model, tools=tools, system=system, name=step.type, **(call.settings.get("agent_settings") or {}))
        run = await call.run(key, agent, prompt)
        return (run.text, None) if run.status == "completed" else (None, f"its run ended as {run.status}: {run.stop_reason}")


def _prompt(step: PlanStep, done: Mapping[int, StepResult]) -> str:
    """Return what an agent or a model is asked: the step, and the results that it depends on, one a line."""
    before = [f"{number}: {msgspec.json.encode(done[number]['result']).decode()}" for number in step.depends_on]
    found = "\n".join(["\n\nResults of the steps before it, as JSON:", *before]) if before else ""
    return f"{step.description or step.type}{found}"


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
