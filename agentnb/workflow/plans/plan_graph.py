"""Compiles a plan of either shape to its graph: the steps that are left to do, in the order in which they may begin."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from agentnb.core.plans.plan_steps import ABORT, NOOP, PlanStep
from agentnb.errors import SettingsError
from agentnb.workflow.form.spec import END
from agentnb.workflow.graph.nodes import Graph, Jump, Node
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.step_references import references_in, target_of


def compiled_plan(plan: PlanSpec, path: str, left_out: Collection[int]) -> Graph:
    """Return the graph of a plan that the task with this path runs. ``left_out``: the places of steps that are not done.

    Steps that do nothing are no nodes.
    """
    is_chat, nodes = plan.form == "chat", []
    awaited = _awaited(plan) if is_chat else dict[int, list[int]]()
    for place in _in_waves(awaited) if is_chat else range(len(plan.steps)):
        step = plan.steps[place]
        if place in left_out or step.type == NOOP or (step.question is not None and step.question.is_empty):
            continue
        ends = step.problem is None and (step.type == ABORT or step.question is not None)
        nodes.append(
            Node(
                kind="",
                id=str(place),
                path=f"{path}/{place}",
                does=step,
                after=tuple(map(str, awaited.get(place, ()))),
                is_beside=is_chat,
                jumps=(Jump(to=END, place=len(plan.steps), is_logged=False),) if ends else (),
            )
        )
    return Graph(where="plan", nodes=tuple(nodes))


def result_id(plan: PlanSpec, place: int) -> str:
    """Return the id of the result of a step."""
    step = plan.steps[place]
    return step.id or f"{plan.id or 'step'}-{number_of(step, place) if plan.form == 'chat' else place}"


def number_of(step: PlanStep, place: int) -> int:
    """Return the number of a chat's step."""
    return step.number or place + 1


def _awaited(plan: PlanSpec) -> dict[int, list[int]]:
    """Return for each step of a chat's plan the steps that it depends on, or whose outputs its arguments read; all by place."""
    places: dict[int, list[int]] = {}
    for place, step in enumerate(plan.steps):
        places.setdefault(number_of(step, place), []).append(place)
    found = {}
    for place, step in enumerate(plan.steps):
        found[place] = [one for number in step.depends_on for one in places.get(number, ())]
        for _, reference in references_in(step.args or {}):
            with suppress(SettingsError):  # which its step says
                found[place].append(target_of(reference)[0])
    return found


def _in_waves(awaited: Mapping[int, Collection[int]]) -> Iterator[int]:
    """Yield the places of the steps of a chat's plan: in each wave those whose dependencies are settled."""
    left = dict.fromkeys(awaited)
    while left:
        ready = [place for place in left if left.keys().isdisjoint(awaited[place])] or [*left]
        yield from ready
        for place in ready:
            del left[place]
