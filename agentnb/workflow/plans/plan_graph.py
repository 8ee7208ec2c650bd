"""Compiles a plan of either form to a graph of its remaining steps, in the order in which they may begin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from itertools import repeat
from typing import NamedTuple

from agentnb.core.messages import encodable
from agentnb.core.plans.plan_steps import ABORT, NOOP, TOOL, PlanQuestion, PlanStep
from agentnb.core.step_retry import ONCE, Retry
from agentnb.errors import SettingsError
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.form.workflow_spec import END
from agentnb.workflow.graph.nodes import Call, Graph, Jump, Node, is_constant
from agentnb.workflow.plans.offered_tools import worker_of_step
from agentnb.workflow.plans.plan_spec import TYPES, PlanSpec
from agentnb.workflow.plans.step_references import references_in, target_of
from agentnb.workflow.running.agents import find_tool


class Abort(NamedTuple):
    """Ends the run."""

    reason: str


class Ask(NamedTuple):
    """Asks the person."""

    question: PlanQuestion


class Fail(NamedTuple):
    """Fails with an error."""

    error: str


class Prompt(NamedTuple):
    """Asks a model, or an agent that has the step's tools."""

    is_agent: bool


def compile_plan(plan: PlanSpec, path: str, left_out: Collection[int], tools: Toolbox) -> Graph:
    """Compile the plan of the task with this path. ``left_out``: indexes of steps to omit.

    Steps that do nothing get no node.
    """
    is_chat, nodes, steps = plan.form == "chat", [], plan.steps
    awaited = _find_dependencies(plan) if is_chat else dict[int, list[int]]()
    end = (Jump(to=END, place=len(steps), is_logged=False),)
    for position, is_beside in _in_waves(awaited) if is_chat else zip(range(len(steps)), repeat(False)):
        step, key = steps[position], str(position)
        if position in left_out or (step.type != TOOL and _does_nothing(step)):
            continue
        does = _chat_work(step, tools) if is_chat else _work(step)
        nodes.append(
            Node(
                kind="call",
                id=key,
                path=f"{path}/{key}",
                does=does,
                after=tuple(map(str, awaited[position])) if is_chat else (),
                is_beside=is_beside,
                jumps=end if isinstance(does, (Abort, Ask)) else (),
                retry=Retry(max_attempts=step.retries, initial_delay_seconds=0) if step.retries else ONCE,
            )
        )
    return Graph(where="plan", nodes=tuple(nodes), handles_failure_at_once=not is_chat)


def _does_nothing(step: PlanStep) -> bool:
    question = step.question
    return step.type == NOOP or (question is not None and question.is_empty)


def _work(step: PlanStep) -> Abort | Ask | Call | Fail:
    """Return the work of a planner's step."""
    if step.problem is not None:
        return Fail(step.problem)
    if step.type == TOOL:
        return _call(step, step.name or "", is_guarded=True)
    if step.type == ABORT:
        return Abort(encodable(step.reason or step.content or "The plan was aborted"))
    return Fail(f"unknown type {step.type}, only {', '.join(TYPES)}") if step.question is None else Ask(step.question)


def _chat_work(step: PlanStep, tools: Toolbox) -> Call | Fail | Prompt:
    """Return the work of a chat plan's step."""
    if step.problem is not None:
        return Fail(step.problem)
    try:
        specs = [find_tool(name, tools).spec for name in step.tools]
    except SettingsError as error:
        return Fail(error.what)
    worker = worker_of_step(step, specs)
    return _call(step, specs[0].name) if worker == "call" else Prompt(is_agent=worker == "executor")


def _call(step: PlanStep, name: str, *, is_guarded: bool = False) -> Call:
    args = step.args or {}
    return Call(name=name, args=args, is_constant=is_constant(args, "$step"), is_guarded=is_guarded)


def result_ids(plan: PlanSpec) -> list[str]:
    """Return the result ids of the steps."""
    prefix, is_chat = plan.id or "step", plan.form == "chat"
    return [
        step.id or f"{prefix}-{number_of(step, position) if is_chat else position}" for position, step in enumerate(plan.steps)
    ]


def number_of(step: PlanStep, position: int) -> int:
    """Return the number of a chat plan's step."""
    return step.number or position + 1


def lasting_ids(plan: PlanSpec) -> list[str]:
    """Return the ids under which earlier executions stored the steps' results; empty for a planner's steps without an id."""
    return result_ids(plan) if plan.form == "chat" else [step.id or "" for step in plan.steps]


def _find_dependencies(plan: PlanSpec) -> dict[int, list[int]]:
    """Return, by index, the dependencies of each step of a chat plan: declared, or implied by references in its arguments."""
    places: dict[int, list[int]] = {}
    for position, step in enumerate(plan.steps):
        places.setdefault(number_of(step, position), []).append(position)
    dependencies = {}
    for position, step in enumerate(plan.steps):
        dependencies[position] = [dependency for number in step.depends_on for dependency in places.get(number, ())]
        for _, reference in references_in(step.args or {}):
            with suppress(SettingsError):  # reported by the step
                dependencies[position].append(target_of(reference)[0])
    return dependencies


def _in_waves(awaited: Mapping[int, Collection[int]]) -> Iterator[tuple[int, bool]]:
    """Yield a chat plan's step indexes in waves, each containing the steps whose dependencies are met.

    The flag is True if the wave has several steps; a lone step blocks all later ones.
    """
    pending = dict.fromkeys(awaited)
    while pending:
        ready = [position for position in pending if pending.keys().isdisjoint(awaited[position])] or [*pending]
        yield from [(position, len(ready) > 1) for position in ready]
        for position in ready:
            del pending[position]
