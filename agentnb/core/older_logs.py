"""Logs of earlier schemas: what their events did not say yet, and is read into them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from agentnb.core.event import RoundStatus
from agentnb.core.events import AnyEvent, RoundStarted, RunFinished

STATUS_BEFORE: Mapping[str, RoundStatus] = {
    "open_todos": "auto_continue_todos",
    "strict_todos": "auto_continue_todos",
    "todo_nudge": "todo_nudge",
    "workflow_mode": "auto_continue_workflow",
    "continue_marker": "auto_continue_workflow",
    "empty_answer": "premature_stop_nudge",
    "claimed_call": "narration_without_tool_call",
}
"""Up to schema 4: the status of a round, by the reason of the round after it."""
STATUS_AT_END: Mapping[str, RoundStatus] = {
    "natural": "natural_completion",
    "workflow_complete": "workflow_complete",
    "complete_with_open_todos": "workflow_complete",
    "loop_detected": "duplicate_loop_broken",
}
"""Up to schema 4: the status of the last round, by the stop reason."""
STATUSES_SINCE = 5
"""The schema from which events say these themselves."""


def brought_up(event: AnyEvent) -> AnyEvent:
    """Return an event of a log of schema 4 or earlier as this version writes it."""
    if isinstance(event, RoundStarted) and event.reason in STATUS_BEFORE:
        return replace(event, before=STATUS_BEFORE[event.reason])
    if isinstance(event, RunFinished) and event.stop_reason in STATUS_AT_END:
        return replace(event, last_round=STATUS_AT_END[event.stop_reason])
    return event
