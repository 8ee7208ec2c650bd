"""A person's edits to a draft: validation, adding, moving and renumbering steps, and changing a step in a form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from agentnb.chat.plans.plan_rules import check_chat_plan
from agentnb.core import expressions
from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.request import ToolSpec
from agentnb.core.schema.filled_form import filled_form
from agentnb.errors import SettingsError
from agentnb.runtime.questions.question_forms import FieldsRefused, QuestionForm
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.step_references import OF_PLANS, references_in, target_of

NEW_STEP = "New step"
"""Description of an added step until the person edits it."""
WHAT, TOOLS, ARGUMENTS, EXECUTOR, AFTER = "What it does", "Tools", "Arguments", "Done by an agent", "After the steps"
"""Fields of a step's form, as shown."""


def check_edit(plan: PlanSpec, steps: Any, specs: Iterable[ToolSpec], rules: Sequence[Mapping[str, Any]]) -> PlanSpec:
    """Return the plan with these plain-data steps. Raises `SettingsError` with all problems."""
    data: dict[str, Any] = {"steps": [_whole(step, number) for number, step in enumerate(steps, 1)]}
    if plan.reasoning is not None:
        data["reasoning"] = plan.reasoning
    checked = check_chat_plan(data, specs, rules)
    if checked.plan is None:
        raise _invalid_edit("; ".join(checked.problems) or "the plan has no steps")
    return structs.replace(checked.plan, id=plan.id)


def _invalid_edit(problem: str) -> SettingsError:
    return SettingsError(f"Invalid edit: {problem}", "The plan is unchanged")


def _whole(step: Any, number: int) -> Any:
    """Return a step with defaults for missing fields, since a model may not have written it."""
    usual = {"stepNumber": number, "type": "action", "tools": [], "executorRequired": False, "dependsOn": []}
    return {**usual, **step} if isinstance(step, Mapping) else step


def add_step(plan: PlanSpec) -> PlanSpec:
    """Return the plan with a new step at its end; the step is a model's reply until it gets a tool."""
    step = PlanStep(type="action", number=len(plan.steps) + 1, description=NEW_STEP)
    return structs.replace(plan, steps=(*plan.steps, step))


def remove_step(plan: PlanSpec, place: int) -> PlanSpec:
    """Return the plan without this step. Raises `SettingsError` if another step reads its output."""
    return _reorder(plan, [index for index in range(len(plan.steps)) if index != place])


def move_step(plan: PlanSpec, place: int, to: int) -> PlanSpec:
    """Return the plan with this step moved. Raises `SettingsError` if it would precede a step on which it depends."""
    places = [index for index in range(len(plan.steps)) if index != place]
    places.insert(to, place)
    return _reorder(plan, places)


def _reorder(plan: PlanSpec, places: Sequence[int]) -> PlanSpec:
    """Return the plan with these steps in this order; steps, dependencies and references are renumbered."""
    old = [step.number or number for number, step in enumerate(plan.steps, 1)]
    new = {old[position]: number for number, position in enumerate(places, 1)}
    new_places = {position: at for at, position in enumerate(places)}
    steps = []
    for number, position in enumerate(places, 1):
        step = plan.steps[position]
        before = tuple(sorted([new[dependency] for dependency in step.depends_on if dependency in new]))
        if late := [dependency for dependency in before if dependency >= number]:
            raise _invalid_edit(f"step {old[position]} depends on step {old[places[late[0] - 1]]}, which must stay before it")

        def counted_anew(reference: str, place: int = position, at: int = number - 1) -> str:
            index = target_of(reference)[0]
            if new_places.get(index, at) >= at:
                raise _invalid_edit(f"step {old[place]} reads the output of step {index + 1}, which must stay before it")
            return reference.replace(f"$step[{index}]", f"$step[{new_places[index]}]", 1)

        args = expressions.fill_in(step.args, OF_PLANS, counted_anew)
        steps.append(structs.replace(step, number=number, depends_on=before, args=args))
    return structs.replace(plan, steps=tuple(steps))


def step_form(plan: PlanSpec, place: int, specs: Sequence[ToolSpec]) -> QuestionForm:
    """Return the form for a step. ``specs``: tools that can be called, whose arguments get separate fields."""
    step = plan.steps[place]
    names = [*dict.fromkeys((*[spec.name for spec in specs], *step.tools))]
    before = [earlier.number or at for at, earlier in enumerate(plan.steps[:place], 1)]
    fields: dict[str, tuple[dict[str, Any], Any]] = {
        WHAT: ({"type": "string", "minLength": 1}, step.description or ""),
        TOOLS: ({"type": "array", "items": {"enum": names}, "uniqueItems": True}, list(step.tools)),
        ARGUMENTS: (_arguments(step, specs), step.args),
        EXECUTOR: ({"type": "boolean", "description": "The agent chooses calls and arguments itself"}, step.executor_required),
        AFTER: ({"type": "array", "items": {"enum": before}, "uniqueItems": True}, list(step.depends_on)),
    }
    left_out = {name for name, offered in ((TOOLS, names), (AFTER, before)) if not offered}
    used = {name: item for name, item in fields.items() if name not in left_out}
    required = [name for name in (WHAT, TOOLS, AFTER) if name in used]
    schema = {"type": "object", "properties": {name: item for name, (item, _) in used.items()}, "required": required}
    return QuestionForm(schema, {name: value for name, (_, value) in used.items() if value is not None})


def fill_step(plan: PlanSpec, place: int, specs: Sequence[ToolSpec], texts: Mapping[str, str]) -> PlanSpec:
    """Return the draft with the step in a filled form. Raises `FieldsRefused` for an invalid field."""
    form, step = step_form(plan, place, specs), plan.steps[place]
    value, problems = filled_form(form.schema, form.initial, texts)
    if problems:
        raise FieldsRefused(problems)
    filled = structs.replace(
        step,
        description=value[WHAT],
        tools=tuple(value.get(TOOLS, ())),
        args=value.get(ARGUMENTS) or (None if step.args is None else {}),
        executor_required=bool(value.get(EXECUTOR)),
        depends_on=tuple(sorted(value.get(AFTER, ()))),
    )
    return structs.replace(plan, steps=(*plan.steps[:place], filled, *plan.steps[place + 1 :]))


def _arguments(step: PlanStep, specs: Sequence[ToolSpec]) -> dict[str, Any]:
    """Return the schema of the arguments: the tool's, unless they are filled in at run time or chosen by an agent."""
    called = next((spec for spec in specs if step.tools[:1] == (spec.name,)), None)
    is_open = step.executor_required or any(references_in(step.args or {}))
    return {"type": "object"} if called is None or is_open else called.input_schema
