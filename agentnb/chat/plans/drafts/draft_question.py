"""The question whether a draft may run, and what the person answers: approve, deny, or other steps."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from agentnb.chat.plans.plan_reach import PlanReach, arguments_text
from agentnb.core.messages import encodable
from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.questions import QuestionKind, WaitingOnUser, new_question
from agentnb.core.run.approvals import EDIT, Decision, approval_schema, decision
from agentnb.workflow.plans.plan_spec import PlanSpec

KIND: QuestionKind = "plan_review"
STEPS = "steps"
_STEP = {
    "type": "object",
    "properties": {
        "stepNumber": {"type": "integer"},
        "type": {"type": "string"},
        "description": {"type": "string", "minLength": 1},
        "tools": {"type": "array", "items": {"type": "string"}},
        "args": {"type": ["object", "null"]},
        "executorRequired": {"type": "boolean"},
        "dependsOn": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["description"],
}
EDITED: dict[str, Any] = {
    "type": "object",
    "properties": {STEPS: {"type": "array", "items": _STEP, "minItems": 1}},
    "required": [STEPS],
    "additionalProperties": False,
}
"""The schema of an edit: the whole list of steps, as a chat's plan has them, of which each needs a description only."""


def draft_question(plan: PlanSpec, reach: PlanReach, problem: str = "") -> WaitingOnUser:
    """Return the question, which shows all that may run. ``problem``: what was wrong with the last edit."""
    lines = [f"May the plan {plan.id} run?", *_steps(plan), _reach_line(reach)]
    message = "\n".join([*([problem] if problem else []), *([_line(plan.reasoning)] if plan.reasoning else []), *lines])
    question = new_question(KIND, message, approval_schema(arguments=EDITED), plan.id or "")
    return structs.replace(question, problem=encodable(problem))


def read_answer(answer: Any) -> Decision:
    """Return what the person decided; ``arguments`` are other steps, which are not approved by that."""
    made = decision(answer)
    return made if made.arguments is None else Decision(False, arguments=made.arguments)


def edit_answer(plan: PlanSpec) -> dict[str, Any]:
    """Return the answer that makes the draft this plan."""
    return {EDIT: {STEPS: plan.chat_data[STEPS]}}


def _steps(plan: PlanSpec) -> list[str]:
    return [f"{step.number or place}. {_line(step.description or '')}{_how(step)}" for place, step in enumerate(plan.steps, 1)]


def _line(text: str) -> str:
    """Return a model's text in one line, which no line of the question can be taken for."""
    return " ".join(text.split())


def _how(step: PlanStep) -> str:
    if not step.tools:
        return ""
    if step.executor_required:
        return f" (an agent with {', '.join(step.tools)})"
    return f" ({step.tools[0]} with {arguments_text(step.args)})" if step.args else f" ({', '.join(step.tools)})"


def _reach_line(reach: PlanReach) -> str:
    """Return what the plan may take, in a line."""
    counts = (
        (reach.calls, "tool call", "tool calls"),
        (len(reach.executors), "step by an agent", "steps by agents"),
        (len(reach.replies), "reply of the model", "replies of the model"),
    )
    parts = [f"{count} {one if count == 1 else many}" for count, one, many in counts if count]
    return f"It may take {', '.join(parts) or 'nothing'}."
