"""Edits of a draft by the person: the steps as they are to be, checked, and renumbered where they were moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from agentnb.chat.plans.plan_rules import broken_rules
from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.request import ToolSpec
from agentnb.errors import SettingsError
from agentnb.workflow.plans.plan_checks import read_for_tools
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.step_references import as_reference, target_of

NEW_STEP = "New step"
"""The description of a step that was added, until it is written."""


def checked_edit(plan: PlanSpec, steps: Any, specs: Iterable[ToolSpec], rules: Sequence[Mapping[str, Any]]) -> PlanSpec:
    """Return the plan with these steps, as plain data. Raises `SettingsError`, which says all that is wrong with them."""
    data: dict[str, Any] = {"steps": [_whole(step, number) for number, step in enumerate(steps, 1)]}
    if plan.reasoning is not None:
        data["reasoning"] = plan.reasoning
    read, problems = read_for_tools(data, specs)
    wrong = [str(problem) for problem in problems.found]
    if read is not None and not wrong:
        if not read.plan.steps:
            wrong = ["It has no step"]
        wrong += [
            f"The rules of the context ask for {name}: once, in the given order" for name in broken_rules(read.plan, rules)
        ]
    if read is None or wrong:
        raise SettingsError(f"The plan cannot be changed so: {'; '.join(wrong) or 'there are no steps'}", "It is as it was")
    return structs.replace(read.plan, id=plan.id, reasoning=plan.reasoning, form="chat")


def _whole(step: Any, number: int) -> Any:
    """Return a step with what it leaves out, as a step is read that no model wrote."""
    usual = {"stepNumber": number, "type": "action", "tools": [], "executorRequired": False, "dependsOn": []}
    return {**usual, **step} if isinstance(step, Mapping) else step


def changed(plan: PlanSpec, place: int, **fields: Any) -> PlanSpec:
    """Return the plan with these fields of one step changed."""
    steps = [structs.replace(step, **fields) if number == place else step for number, step in enumerate(plan.steps)]
    return structs.replace(plan, steps=tuple(steps))


def added(plan: PlanSpec) -> PlanSpec:
    """Return the plan with one more step at its end, which is one reply of a model until it gets a tool."""
    step = PlanStep(type="action", number=len(plan.steps) + 1, description=NEW_STEP)
    return structs.replace(plan, steps=(*plan.steps, step))


def removed(plan: PlanSpec, place: int) -> PlanSpec:
    """Return the plan without a step. Raises `SettingsError` if another reads its output."""
    return _ordered(plan, [other for other in range(len(plan.steps)) if other != place])


def moved(plan: PlanSpec, place: int, to: int) -> PlanSpec:
    """Return the plan with a step at another place. Raises `SettingsError` if it would stand before what it depends on."""
    places = [other for other in range(len(plan.steps)) if other != place]
    places.insert(to, place)
    return _ordered(plan, places)


def _ordered(plan: PlanSpec, places: Sequence[int]) -> PlanSpec:
    """Return the plan with the steps at these places in this order, numbered anew, as are dependencies and references."""
    old = [step.number or number for number, step in enumerate(plan.steps, 1)]
    new = {old[place]: number for number, place in enumerate(places, 1)}
    new_places = {place: at for at, place in enumerate(places)}
    steps = []
    for number, place in enumerate(places, 1):
        step = plan.steps[place]
        before = tuple(sorted([new[other] for other in step.depends_on if other in new]))
        if late := [other for other in before if other >= number]:
            raise SettingsError(f"Step {old[place]} depends on step {old[places[late[0] - 1]]}, which must stay before it")
        arguments = _referring(step.args, new_places, number - 1, old[place])
        steps.append(structs.replace(step, number=number, depends_on=before, args=arguments))
    return structs.replace(plan, steps=tuple(steps))


def _referring(value: Any, new_places: Mapping[int, int], place: int, number: int) -> Any:
    """Return arguments with their references counted anew. ``place``: that of their step; ``number``: its old number."""
    if (reference := as_reference(value)) is not None:
        index, _ = target_of(reference)
        if new_places.get(index, place) >= place:
            raise SettingsError(f"Step {number} reads the output of step {index + 1}, which must stay before it")
        return reference.replace(f"$step[{index}]", f"$step[{new_places[index]}]", 1)
    if isinstance(value, Mapping):
        return {key: _referring(item, new_places, place, number) for key, item in value.items()}
    if isinstance(value, list):
        return [_referring(item, new_places, place, number) for item in value]
    return value
