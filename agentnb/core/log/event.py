"""Fields shared by all events, and the statuses of runs and rounds."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from agentnb.core.messages import Message

Status: TypeAlias = Literal[
    "running", "waiting_on_user", "completed", "limited", "stopped", "cancelled", "interrupted", "unknown", "failed"
]
"""The state of a run. ``unknown``: another product recorded the run, and the trace does not say how the run ended."""
EndStatus: TypeAlias = Literal["completed", "limited", "stopped", "cancelled", "unknown", "failed"]
ENDS: frozenset[EndStatus] = frozenset(get_args(EndStatus))
"""The statuses with which a run can end."""
RoundStatus: TypeAlias = str
"""The status of a round: running, success, error, cancelled, natural_completion, workflow_complete, auto_continue_todos,
auto_continue_workflow, todo_nudge, premature_stop_nudge, narration_without_tool_call, invalid_output, duplicate_loop_broken,
unexpected_empty_tools, or a status defined by a policy."""


class Event(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True, gc=False):
    """Fields shared by all events. ``seq`` counts from 0 without gaps.

    ``at`` is in UTC, or None if another product's trace has no time.
    """

    seq: int
    at: Annotated[datetime, Meta(tz=True)] | None
    run_id: Annotated[str, Meta(min_length=1)]
    parent_id: str | None = None
    user_message: ClassVar[Message | None] = None
    """The event's message from the person or the environment, if any."""
    person_message: ClassVar[Message | None] = None
    """The event's message from the person, if any."""
    is_followed: ClassVar[bool] = False
    """True if its round always has another event before the next call of a tool."""


class Noted:
    """Marker for events that are stored as notes in the run's spans and restored from them."""

    __slots__ = ()
