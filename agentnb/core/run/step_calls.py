"""The fold over the tool calls of steps, in the order in which they started, with their results.

They belong to a step, not to a round: no model requested them, and they are not part of a conversation.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from agentnb.core.run.facts import RunFacts
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.rounds import CallRecord
from agentnb.core.run.work_records import StepCall


def put(run: RunFacts, step: str, record: CallRecord, **changes: Any) -> None:
    """Store the record of a call. Once it has a result, drop its position and those of the calls made by its tool."""
    call_id, open_calls = record.call.id, run._open_step_calls
    if call_id in open_calls:
        position = open_calls[call_id][0]
        run._step_calls[position] = replace(run._step_calls[position], record=record, **changes)
    else:
        open_calls[call_id] = (len(run._step_calls),)
        run._step_calls.append(StepCall(step, record, **changes))
    if record.result is not None:
        del open_calls[call_id]
        for _, inner in with_inner(record.inner) if record.inner else ():
            open_calls.pop(inner.call.id, None)
