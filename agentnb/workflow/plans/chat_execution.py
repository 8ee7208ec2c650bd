"""Runs the steps of a chat's plan: a call, an agent with the step's tools, or one reply, each after what it depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from agentnb.agent.agent import Agent
from agentnb.context.side_question import side_question
from agentnb.core.plans.plan_steps import EXECUTOR
from agentnb.errors import SettingsError
from agentnb.workflow.plans.offered_tools import tool_of_step, way_of_step
from agentnb.workflow.plans.plan_results import StepResult, referred_output, step_result
from agentnb.workflow.plans.plan_spec import PlanSpec, PlanStep
from agentnb.workflow.plans.step_references import filled, references_in, target_of
from agentnb.workflow.tasks.actions import ActionCall

PROMPT = Path(__file__).with_name("prompts") / "executor.md"


async def run_chat_steps(call: ActionCall, plan: PlanSpec, results: list[StepResult]) -> None:
    """Run the steps, each after those that it depends on, and take their results in the order of the plan.

    Steps that do not depend on each other run side by side; what depends on a step that failed is skipped. A step whose id has
    a result already is not run again.
    """
    before = {str(one["id"]): one for one in results if one["id"] is not None}
    execution = _ChatExecution(call, plan, before)
    await execution.run_steps()
    taken = [one for number in execution.numbers if (one := execution.taken.get(number)) is not None]
    results.extend(taken)
    failed = next((one for one in taken if one["error"] is not None), None)
    if failed is not None:
        await call.failed(failed["name"], failed["error"])


class _ChatExecution:
    """One execution of a chat's plan."""

    def __init__(self, call: ActionCall, plan: PlanSpec, before: Mapping[str, StepResult]) -> None:
        self.numbers = [step.number or place for place, step in enumerate(plan.steps, 1)]
        self.taken: dict[int, StepResult] = {}
        """The new results, by the numbers of their steps."""
        self._call, self._plan, self._before = call, plan, before
        self._done: dict[int, StepResult] = {}
        """The results of the steps that ran, now or before."""

    async def run_steps(self) -> None:
        """Run the steps in waves: in each, all whose dependencies are settled."""
        left = [*enumerate(self._plan.steps)]
        while left:
            open_numbers = {self.numbers[place] for place, _ in left}
            ready = [one for one in left if open_numbers.isdisjoint(self._awaited(one[1]))] or left
            await self._call.side_by_side([self._settle(self.numbers[place], place, step) for place, step in ready])
            left = [one for one in left if one not in ready]

    def _awaited(self, step: PlanStep) -> set[int]:
        """Return the numbers of the steps that it depends on, or whose outputs its arguments read."""
        read: list[int] = []
        for _, reference in references_in(step.args or {}):
            with suppress(SettingsError):  # which its step says
                read.append(target_of(reference)[0])
        return {*step.depends_on, *[self.numbers[place] for place in read if place < len(self.numbers)]}

    async def _settle(self, number: int, place: int, step: PlanStep) -> None:
        """Run a step, skip it, or take the result that it has."""
        name = step.tools[0] if step.tools else step.type
        step_id = step.id or f"{self._plan.id or 'step'}-{number}"
        if (known := self._before.get(step_id)) is not None:
            self._done[number] = known
            return
        lost = [other for other in step.depends_on if other not in self._done or self._done[other]["error"] is not None]
        if lost:
            self._call.skip(str(place), f"step {lost[0]}, which it depends on, has no result")
            self.taken[number] = step_result(step_id, name, step.args, None, f"skipped: it depends on step {lost[0]}")
            return
        try:
            output, error = await _run(self._call, step, place, self._done, partial(_output, self.numbers, self._done))
        except SettingsError as problem:
            output, error = None, problem.what
        self._done[number] = self.taken[number] = step_result(step_id, name, step.args, output, error)


def _system() -> str:
    return PROMPT.read_text(encoding="utf-8").strip()


async def _run(
    call: ActionCall, step: PlanStep, index: int, done: dict[int, StepResult], output_of: Callable[[int], Any]
) -> tuple[Any, str | None]:
    """Return the output of a step, and its error. ``output_of``: that of the step at a place."""
    if step.problem is not None:
        return None, step.problem
    tools = [tool_of_step(name, call.tools) for name in step.tools]
    way = way_of_step(step, lambda name: tool_of_step(name, call.tools).spec)
    if way == "call":
        arguments = filled(dict(step.args or {}), output_of)
        answer = await call.call_tool(str(index), tools[0].spec.name, arguments)
        return answer.result, answer.error
    prompt = _prompt(step, done)
    if way == "reply":
        reply = await call.ask_model(str(index), side_question(prompt, _system()), EXECUTOR)
        return reply.text, None
    model = call.settings.get("model")
    if model is None:
        raise SettingsError("A step that an agent does needs a model", "Run the plan with model=, or -m in a shell")
    agent = Agent(model, tools=tools, system=_system(), name=step.type, **(call.settings.get("agent_settings") or {}))
    run = await call.run(str(index), agent, prompt)
    return (run.text, None) if run.status == "completed" else (None, f"its run ended as {run.status}: {run.stop_reason}")


def _output(numbers: Sequence[int], done: Mapping[int, StepResult], place: int) -> Any:
    return referred_output(done.get(numbers[place]) if place < len(numbers) else None, place)


def _prompt(step: PlanStep, done: dict[int, StepResult]) -> str:
    """Return what an agent or a model is asked: the step, and the results that it depends on, one a line."""
    before = [f"{number}: {msgspec.json.encode(done[number]['result']).decode()}" for number in step.depends_on]
    found = "\n".join(["\n\nResults of the steps before it, as JSON:", *before]) if before else ""
    return f"{step.description or step.type}{found}"
