"""The question whether a draft may run, with a list of everything it might do; the answer may also edit the steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import structs

from agentnb.chat.plans.plan_reach import Reach, arguments_text, reach_of
from agentnb.core.messages import encodable
from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.questions import QuestionKind, WaitingOnUser, new_question
from agentnb.core.request import ToolSpec
from agentnb.core.run.approvals import EDIT, approval_schema
from agentnb.workflow.plans.plan_spec import PlanSpec

KIND: QuestionKind = "plan_review"
_CALLS = ("tool call", "tool calls")
_COUNTED: dict[Reach, tuple[str, str]] = {
    "shown": _CALLS,
    "filled": _CALLS,
    "executor": ("step by an agent", "steps by agents"),
    "reply": ("reply of the model", "replies of the model"),
}
"""Names for the possible actions of steps, which the question counts: singular and plural."""
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
"""Schema of an edit: the complete list of steps, in the form of chat plans; each step requires only a description."""


def draft_question(plan: PlanSpec, specs: Iterable[ToolSpec], problem: str = "") -> WaitingOnUser:
    """Return the question. ``specs``: the available tools; ``problem``: what was wrong with the last edit."""
    steps = [
        f"{step.number or number}. {_line(step.description or '')}{_how(step)}" for number, step in enumerate(plan.steps, 1)
    ]
    opening = filter(None, [problem, _line(plan.reasoning or "")])
    counts = Counter([_COUNTED.get(reach) for reach in reach_of(plan, specs)])
    parts = [f"{counts[names]} {names[counts[names] > 1]}" for names in dict.fromkeys(_COUNTED.values()) if counts[names]]
    lines = [*opening, f"May the plan {plan.id} run?", *steps, f"It may involve {', '.join(parts) or 'nothing'}."]
    question = new_question(KIND, "\n".join(lines), approval_schema(arguments=EDITED), plan.id or "")
    return structs.replace(question, problem=encodable(problem))


def edit_answer(plan: PlanSpec) -> dict[str, Any]:
    """Return the answer that replaces the draft with this plan."""
    return {EDIT: {STEPS: plan.chat_data[STEPS]}}


def _line(text: str) -> str:
    """Return a model's text on one line, so that it cannot be mistaken for a line of the question."""
    return " ".join(text.split())


def _how(step: PlanStep) -> str:
    if not step.tools:
        return ""
    if step.executor_required:
        return f" (an agent with {', '.join(step.tools)})"
    return f" ({step.tools[0]} with {arguments_text(step.args)})" if step.args else f" ({', '.join(step.tools)})"
