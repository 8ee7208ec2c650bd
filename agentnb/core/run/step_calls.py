"""The fold over the tool calls of steps: each call in the order in which it began, with its result.

Their place is their step, not a round: no model asked for them, and they are not part of a conversation.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from agentnb.core.log import events as e
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.rounds import CallRecord
from agentnb.core.run.work_records import StepCall


def admitted(run: RunFacts, event: e.ToolAdmitted) -> None:
    """Add a call that waits for the person."""
    _put(run, event.step, CallRecord(event.call, role=run.role_of(event.call.name), waits=bool(event.reason)))


def started(run: RunFacts, event: e.ToolStarted) -> None:
    """Add the call, or note that a call which waited has begun."""
    _put(run, event.step, CallRecord(event.call, role=run.role_of(event.call.name)), started_at=event.at)


def finished(run: RunFacts, event: e.ToolFinished) -> None:
    """Record the result of the call."""
    path = run._open_step_calls.get(event.result.call_id)
    if path is not None:
        _put(run, event.step, run._step_calls[path[0]].record.ended(event), ended_at=event.at)


def blocked(run: RunFacts, event: e.CallBlocked) -> None:
    """Record the call, which was not run, with the rule that blocked it."""
    record = CallRecord(event.call, event.result, rule=event.rule, role=run.role_of(event.call.name))
    _put(run, event.step, record, ended_at=event.at)


def _put(run: RunFacts, step: str, record: CallRecord, **changes: Any) -> None:
    """Put the record of a call in its place; of one with a result forget the place, and those of calls that its tool made."""
    call_id, opened = record.call.id, run._open_step_calls
    if call_id in opened:
        place = opened[call_id][0]
        run._step_calls[place] = replace(run._step_calls[place], record=record, **changes)
    else:
        opened[call_id] = (len(run._step_calls),)
        run._step_calls.append(StepCall(step, record, **changes))
    if record.result is not None:
        del opened[call_id]
        for _, inner in with_inner(record.inner) if record.inner else ():
            opened.pop(inner.call.id, None)
