"""What a call of ``agent_create_plan`` asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentnb.core.plans.plan_history import DRAFT as OF_DRAFTS
from agentnb.core.request import ToolSpec
from agentnb.core.run.agent_state import PLAN_TOOL
from agentnb.errors import near
from agentnb.tools.tool import ToolOutcome, failure

NAME = PLAN_TOOL
AUTO, DRAFT, REVIEW = MODES = ("auto_execute", OF_DRAFTS, "agent_review")
PLANNER = "planner"
"""Who closes a draft that another of the same turn replaces."""
UNKNOWN_MODE = "unknown_mode"
_TEXTS = {"type": "array", "items": {"type": "string"}}
SPEC = ToolSpec(
    NAME,
    "Make a plan for work with several steps: run it now, leave it as a draft for the person, or have it reviewed first.",
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
                "description": f"Former way: false means {DRAFT}. Ignored where execution_mode is given.",
            },
            "requested_outputs": {**_TEXTS, "description": "What the person asked to get."},
            "priority_entities": {**_TEXTS, "description": "Ids of what the plan has to look at first."},
            "plan_id": {
                "type": "string",
                "description": "Run this draft as it stands, without planning again. Only after the person has approved it.",
            },
        },
        "required": ["objective"],
    },
)


class PlanRequest(NamedTuple):
    """The arguments of a call, and what follows from the run."""

    objective: str
    mode: str = AUTO
    requested_outputs: tuple[str, ...] = ()
    priority_entities: tuple[str, ...] = ()
    plan_id: str = ""
    """The draft that is to be run."""
    message: str = ""
    """What the person has written."""

    def intent(self, context: str, entity: str, conversation: str, run_id: str) -> dict[str, Any]:
        """Return the intent as the documents have it; a field that is empty is left out."""
        found: dict[str, Any] = {
            "objective": self.objective,
            "contextType": context,
            "sessionId": conversation,
            "entityId": entity,
            "plannerAgentId": run_id,
            "requestedOutputs": list(self.requested_outputs),
            "priorityEntities": list(self.priority_entities),
            "executionMode": self.mode,
        }
        return {**{key: value for key, value in found.items() if value}, "autoExecute": self.mode == AUTO}


def read_request(arguments: Mapping[str, Any], message: str) -> PlanRequest | ToolOutcome:
    """Return what a call asks for; an error result for an unknown mode. ``message``: the person's, for a blank objective.

    A mode that is given wins over ``auto_execute``.
    """
    given = arguments.get("execution_mode")
    if given is not None and given not in MODES:
        what = f"{NAME}: there is no execution_mode {given!r}. It is one of {', '.join(MODES)}."
        closest = near(str(given), MODES)
        return failure(UNKNOWN_MODE, what, "" if not closest else "Call it again with one of these.")
    mode = given or (DRAFT if arguments.get("auto_execute") is False else AUTO)
    return PlanRequest(
        str(arguments.get("objective") or "").strip() or message.strip(),
        mode,
        _texts(arguments.get("requested_outputs")),
        _texts(arguments.get("priority_entities")),
        str(arguments.get("plan_id") or "").strip(),
        message.strip(),
    )


def _texts(value: Any) -> tuple[str, ...]:
    return tuple([one for one in value if isinstance(one, str)]) if isinstance(value, list | tuple) else ()
