"""Planning and review: the request in the tool call, the prompts of planner and reviewer, and parsers for their replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import structs

from agentnb.chat.plans.plan_rules import INVALID, CheckedPlan, check_chat_plan, hints
from agentnb.chat.prompts import prompt
from agentnb.context.side_question import side_question
from agentnb.core.messages import Message, encodable, user
from agentnb.core.plans.plan_history import DRAFT as OF_DRAFTS
from agentnb.core.redaction import redact
from agentnb.core.request import Request, ToolSpec
from agentnb.core.run.agent_state import PLAN_TOOL
from agentnb.errors import BrokenReply, suggest_names
from agentnb.tools.tool import ToolOutcome, failure
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.reply_plans import plan_in_reply
from agentnb.workflow.templates.json_in_text import json_values

NAME = PLAN_TOOL
AUTO, DRAFT, REVIEW = MODES = ("auto_execute", OF_DRAFTS, "agent_review")
PLANNER = "planner"
"""Author of a draft's rejection when another draft of the same turn replaces it."""
UNKNOWN_MODE = "unknown_mode"
MAX_PROBLEMS = 10
"""Maximum number of problems of a plan that are reported to the planner or the model."""
_TEXTS = {"type": "array", "items": {"type": "string"}}
SPEC = ToolSpec(
    NAME,
    "Make a plan for multi-step work: run it now, leave it as a draft for the person, or have it reviewed first.",
    {
        "type": "object",
        "properties": {
            "objective": {"type": "string", "description": "The whole goal."},
            "execution_mode": {
                "type": "string",
                "enum": list(MODES),
                "description": f"{AUTO} (default) runs the plan; {DRAFT} returns it for approval and runs nothing; "
                f"{REVIEW} runs it if a reviewer approves.",
            },
            "auto_execute": {
                "type": "boolean",
                "description": f"Deprecated: false means {DRAFT}. Ignored if execution_mode is given.",
            },
            "requested_outputs": {**_TEXTS, "description": "The outputs that the person asked for."},
            "priority_entities": {**_TEXTS, "description": "Ids of the entities that the plan must look at first."},
            "plan_id": {
                "type": "string",
                "description": "Run this draft unchanged, without planning again. Only after the person has approved it.",
            },
        },
        "required": ["objective"],
    },
)
Verdict: TypeAlias = Literal["approved", "rejected", "needs_changes"]
VERDICTS: dict[str, Verdict] = {
    "approved": "approved",
    "approve": "approved",
    "rejected": "rejected",
    "reject": "rejected",
    "needs_changes": "needs_changes",
    "changes_requested": "needs_changes",
}
"""Words for each verdict, including those that the documents use."""


class PlanRequest(NamedTuple):
    """Arguments of a call, and facts about the run."""

    objective: str
    mode: str = AUTO
    requested_outputs: tuple[str, ...] = ()
    priority_entities: tuple[str, ...] = ()
    plan_id: str = ""
    """Draft to run."""
    message: str = ""
    """The person's latest message."""

    def intent(self, context: str, entity: str, conversation: str, run_id: str) -> dict[str, Any]:
        """Return the intent in the form that the documents use, without empty fields."""
        fields: dict[str, Any] = {
            "objective": self.objective,
            "contextType": context,
            "sessionId": conversation,
            "entityId": entity,
            "plannerAgentId": run_id,
            "requestedOutputs": list(self.requested_outputs),
            "priorityEntities": list(self.priority_entities),
            "executionMode": self.mode,
        }
        return {**{key: value for key, value in fields.items() if value}, "autoExecute": self.mode == AUTO}


def read_request(arguments: Mapping[str, Any], message: str) -> PlanRequest | ToolOutcome:
    """Parse the arguments of a call; return an error result for an unknown mode. ``message``: used if the objective
    is blank.

    An explicit mode takes precedence over ``auto_execute``.
    """
    mode = arguments.get("execution_mode")
    if mode is not None and mode not in MODES:
        problem = f"{NAME}: unknown execution_mode {mode!r}. It is one of {', '.join(MODES)}."
        return failure(UNKNOWN_MODE, problem, "Call it again with one of these." if suggest_names(str(mode), MODES) else "")
    return PlanRequest(
        str(arguments.get("objective") or "").strip() or message.strip(),
        mode or (DRAFT if arguments.get("auto_execute") is False else AUTO),
        _texts(arguments.get("requested_outputs")),
        _texts(arguments.get("priority_entities")),
        str(arguments.get("plan_id") or "").strip(),
        message.strip(),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple([item for item in value if isinstance(item, str)]) if isinstance(value, list | tuple) else ()


def plan_request(
    asked: PlanRequest,
    intent: Mapping[str, Any],
    tools: Sequence[ToolSpec],
    rules: Sequence[Mapping[str, Any]],
    problems: Sequence[str] = (),
) -> Request:
    """Return the request for a plan. ``problems``: those of the previous attempt."""
    parts = [prompt("chat_planner")]
    if rule_hints := hints(rules):
        parts.append("## Rules of this context\n\n" + "\n".join(f"- {hint}" for hint in rule_hints))
    text = f"## What is wanted\n\n{msgspec.json.encode(dict(intent)).decode()}"
    if problems:
        wrong = "\n".join(f"- {problem}" for problem in problems)
        text += f"\n\n## What was wrong in the last plan\n\n{wrong}\n\nWrite the whole plan again: the bare JSON object."
    wanted = dict.fromkeys((asked.objective, asked.message))  # a blank objective equals the message
    planning = {"query": "\n\n".join(wanted), "results": []}
    return redact(Request(encodable("\n\n".join(parts)), (user(encodable(text)),), tuple(tools), {"planning": planning}))


def read_plan(reply: Message, tools: Sequence[ToolSpec], rules: Sequence[Mapping[str, Any]]) -> CheckedPlan:
    """Parse and check the plan in a planner's reply."""
    try:
        read = plan_in_reply(reply.text, reply.calls)
    except BrokenReply as error:
        return CheckedPlan(None, INVALID, (error.what,))
    if read is None or not read.plan.steps:
        return CheckedPlan(None, INVALID, ("the reply contains no plan with steps",))
    checked = check_chat_plan(read.plan.chat_data, tools, rules)
    return checked._replace(problems=checked.problems[:MAX_PROBLEMS])


def review_request(asked: PlanRequest, plan: PlanSpec, tools: Sequence[ToolSpec]) -> Request:
    """Return the request for a review."""
    names = [spec.name for spec in tools]
    task = {"objective": asked.objective, "requested_outputs": list(asked.requested_outputs), "tools": names}
    text = f"{msgspec.json.encode(task).decode()}\n\nThe plan:\n{msgspec.json.encode(plan.chat_data).decode()}"
    return structs.replace(side_question(text, prompt("reviewer")), settings={"review": True})


def read_review(text: str) -> tuple[Verdict, str] | None:
    """Return the verdict and notes in a reply, or None if it has no verdict."""
    for value in json_values(text):
        verdict = VERDICTS.get(str(value.get("verdict", "")).strip().lower()) if isinstance(value, dict) else None
        if verdict is not None:
            return verdict, str(value.get("notes") or "").strip()
    return None
