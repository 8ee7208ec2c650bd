"""The fields that all events carry, and the words for how runs and rounds stand."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Literal, TypeAlias, get_args

import msgspec
from msgspec import Meta

from agentnb.core.messages import Message

Status: TypeAlias = Literal[
    "running", "waiting_on_user", "completed", "limited", "stopped", "cancelled", "interrupted", "unknown", "failed"
]
"""The state of a run. ``unknown``: another product recorded the run, and its trace does not record how it ended."""
EndStatus: TypeAlias = Literal["completed", "limited", "stopped", "cancelled", "unknown", "failed"]
ENDS: frozenset[EndStatus] = frozenset(get_args(EndStatus))
"""The statuses with which a run can end."""
RoundStatus: TypeAlias = str
"""How a round ended: running, success, error, cancelled, natural_completion, workflow_complete, auto_continue_todos,
auto_continue_workflow, todo_nudge, premature_stop_nudge, narration_without_tool_call, invalid_output, duplicate_loop_broken,
unexpected_empty_tools, or a policy's own word."""


class Event(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True, gc=False):
    """The fields that all events carry. ``seq`` counts from 0 without a gap.

    ``at`` is UTC, or None where a foreign trace does not say when it happened.
    """

    seq: int
    at: Annotated[datetime, Meta(tz=True)] | None
    run_id: Annotated[str, Meta(min_length=1)]
    parent_id: str | None = None
    user_message: ClassVar[Message | None] = None
    """The message of the person, or of the environment, if the event is one."""
    person_message: ClassVar[Message | None] = None
    """The same of the person alone."""


class Noted:
    """Marks an event that spans of the run hold as a note, from which it is read again."""

    __slots__ = ()
