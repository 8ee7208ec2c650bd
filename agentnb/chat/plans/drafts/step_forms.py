"""The form of one step of a draft: what the person may change of it, and the draft that a filled form makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentnb.chat.plans.drafts.draft_edits import changed
from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.request import ToolSpec
from agentnb.core.schema.filled_form import filled_form
from agentnb.runtime.questions.question_forms import FieldsRefused, QuestionForm
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.step_references import references_in

WHAT, TOOLS, ARGUMENTS, EXECUTOR, AFTER = "What it does", "Tools", "Arguments", "Done by an agent", "After the steps"
"""The fields, by the names that the person reads."""


def step_form(plan: PlanSpec, place: int, specs: Sequence[ToolSpec]) -> QuestionForm:
    """Return the form of a step. ``specs``: the tools that it may call, whose arguments have fields of their own."""
    step, names = plan.steps[place], [spec.name for spec in specs]
    names += [name for name in step.tools if name not in names]
    before = [other.number or at for at, other in enumerate(plan.steps[:place], 1)]
    properties: dict[str, Any] = {
        WHAT: {"type": "string", "minLength": 1},
        TOOLS: {"type": "array", "items": {"enum": names}, "uniqueItems": True},
        ARGUMENTS: _arguments(step, specs),
        EXECUTOR: {"type": "boolean", "description": "It chooses calls and arguments itself"},
        AFTER: {"type": "array", "items": {"enum": before}, "uniqueItems": True},
    }
    used = {name: one for name, one in properties.items() if (name != TOOLS or names) and (name != AFTER or before)}
    initial = {
        WHAT: step.description or "",
        TOOLS: list(step.tools),
        EXECUTOR: step.executor_required,
        AFTER: list(step.depends_on),
        **({} if step.args is None else {ARGUMENTS: step.args}),
    }
    schema = {"type": "object", "properties": used, "required": [WHAT, *(name for name in (TOOLS, AFTER) if name in used)]}
    return QuestionForm(schema, {name: value for name, value in initial.items() if name in used})


def filled_step(plan: PlanSpec, place: int, specs: Sequence[ToolSpec], texts: Mapping[str, str]) -> PlanSpec:
    """Return the draft with a step as its form was filled. Raises `FieldsRefused` if a field does not fit."""
    form = step_form(plan, place, specs)
    value, problems = filled_form(form.schema, form.initial, texts)
    if problems:
        raise FieldsRefused(problems)
    return changed(
        plan,
        place,
        description=value[WHAT],
        tools=tuple(value.get(TOOLS, ())),
        args=value.get(ARGUMENTS) or (None if plan.steps[place].args is None else {}),
        executor_required=bool(value.get(EXECUTOR)),
        depends_on=tuple(sorted(value.get(AFTER, ()))),
    )


def _arguments(step: PlanStep, specs: Sequence[ToolSpec]) -> dict[str, Any]:
    """Return the schema of the arguments: that of the tool, unless they are filled on the way or chosen by an agent."""
    called = next((spec for spec in specs if step.tools[:1] == (spec.name,)), None)
    if called is None or step.executor_required or [*references_in(step.args or {})]:
        return {"type": "object"}
    return called.input_schema
