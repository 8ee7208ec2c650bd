"""The fold over the tool calls of steps: each call in the order in which it began, with its result.

Their place is their step, not a round: no model asked for them, and they are not part of a conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from agentnb.core.run.facts import RunFacts
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.rounds import CallRecord
from agentnb.core.run.work_records import StepCall


def begin(run: RunFacts, step: str, record: CallRecord, at: datetime | None = None) -> None:
    """Add a call, or note that a call which waited has begun. ``at``: None of a call that waits, or was blocked."""
    calls, opened, call_id = run._step_calls, run._open_step_calls, record.call.id
    if call_id in opened:
        place = opened[call_id][0]
        calls[place] = replace(calls[place], record=record, started_at=at or calls[place].started_at)
    else:
        opened[call_id] = (len(calls),)
        calls.append(StepCall(step, record, at))


def end(run: RunFacts, call_id: str, ended: Callable[[CallRecord], CallRecord], at: datetime | None) -> None:
    """Record the result of a call, and forget where it is, with the calls that its tool made."""
    opened = run._open_step_calls
    if (path := opened.pop(call_id, None)) is None:
        return
    call = run._step_calls[path[0]]
    run._step_calls[path[0]] = replace(call, record=ended(call.record), ended_at=at)
    for _, inner in with_inner(call.record.inner):  # other open calls are not looked at
        opened.pop(inner.call.id, None)
