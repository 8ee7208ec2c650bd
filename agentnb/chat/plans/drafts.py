"""The drafts of a conversation: what its log says of each, and whether the person has spoken since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from agentnb.chat.plans.plan_outcome import PENDING
from agentnb.chat.plans.plan_request import DRAFT, NAME
from agentnb.core.log.events import CommandReceived
from agentnb.core.log.work_events import PlanApproved, PlanProposed
from agentnb.core.messages import ToolResult
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.workflow.plan import Plan
from agentnb.workflow.plans.plan_spec import PlanSpec


class Draft(NamedTuple):
    """A draft."""

    plan: PlanSpec
    was_answered: bool = False
    """Whether the person has written since it was made."""
    has_run: bool = False
    """Whether it was approved and run."""


def drafts_of(run: Run) -> dict[str, Draft]:
    """Return the drafts of the conversation by id: those of its earlier runs, and those of this one."""
    found: dict[str, Draft] = {}
    for message in run.messages:
        for part in message.parts:
            if isinstance(part, ToolResult) and part.name == NAME and not part.is_error:
                _take(found, part.text)
    found = {name: draft._replace(was_answered=True) for name, draft in found.items()}  # the prompt of the run came after
    of_this_run = {event.plan_id for event in run.events if isinstance(event, PlanProposed)}
    found = {name: draft for name, draft in found.items() if name not in of_this_run}
    for event in run.events:
        if isinstance(event, PlanProposed) and event.plan.get("execution_mode") == DRAFT:
            found[event.plan_id] = Draft(_spec(event.plan))
        elif isinstance(event, PlanApproved) and event.plan_id in found:
            found[event.plan_id] = found[event.plan_id]._replace(has_run=True)
        elif isinstance(event, CommandReceived) and event.command == "say":
            found = {name: draft._replace(was_answered=True) for name, draft in found.items()}
    return found


def _take(found: dict[str, Draft], text: str) -> None:
    """Take the draft that a result holds, or note that one has run."""
    try:
        result: Any = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return
    name = result.get("plan_id") if isinstance(result, dict) else None
    if not isinstance(name, str):
        return
    if result.get("status") == PENDING and isinstance(result.get("plan"), dict):
        try:
            found[name] = Draft(_spec({**result["plan"], "id": name}))
        except SettingsError:
            return
    elif name in found:
        found[name] = found[name]._replace(has_run=True)


def _spec(data: Mapping[str, Any]) -> PlanSpec:
    return Plan.read({key: data[key] for key in ("id", "steps", "reasoning") if key in data})
