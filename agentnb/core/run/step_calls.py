"""The fold over the tool calls of steps: each call in the order in which it began, with its result.

Their place is their step, not a round: no model asked for them, and they are not part of a conversation.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from agentnb.core.log import events as e
from agentnb.core.messages import ToolCall
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.rounds import CallRecord
from agentnb.core.run.work_records import StepCall


def admitted(run: RunFacts, event: e.ToolAdmitted) -> None:
    """Add a call that waits for the person."""
    _begin(run, event.step, event.call, waits=bool(event.reason))


def started(run: RunFacts, event: e.ToolStarted) -> None:
    """Add the call, or note that a call which waited has begun."""
    _begin(run, event.step, event.call, waits=False)
    _change(run, event.call.id, started_at=event.at)


def finished(run: RunFacts, event: e.ToolFinished) -> None:
    """Record the result of the call."""
    call_id, calls = event.result.call_id, run._open_step_calls
    if (path := calls.get(call_id)) is None:
        return
    _change(run, call_id, record=run._step_calls[path[0]].record.ended(event), ended_at=event.at)
    _close(run, call_id)


def blocked(run: RunFacts, event: e.CallBlocked) -> None:
    """Record the call, which was not run, with the rule that blocked it."""
    call = event.call
    _begin(run, event.step, call, waits=False)
    record = CallRecord(call, event.result, rule=event.rule, role=run.role_of(call.name))
    _change(run, call.id, record=record, ended_at=event.at)
    _close(run, call.id)


def _begin(run: RunFacts, step: str, call: ToolCall, *, waits: bool) -> None:
    record = CallRecord(call, role=run.role_of(call.name), waits=waits)
    if call.id in run._open_step_calls:
        _change(run, call.id, record=record)
    else:
        run._open_step_calls[call.id] = (len(run._step_calls),)
        run._step_calls.append(StepCall(step, record))


def _change(run: RunFacts, call_id: str, **changes: Any) -> None:
    place = run._open_step_calls[call_id][0]
    run._step_calls[place] = replace(run._step_calls[place], **changes)


def _close(run: RunFacts, call_id: str) -> None:
    """Forget where the call is, and the calls that its tool made. Other open calls are not looked at."""
    opened = run._open_step_calls
    record = run._step_calls[opened.pop(call_id)[0]].record
    for _, inner in with_inner(record.inner):
        opened.pop(inner.call.id, None)
