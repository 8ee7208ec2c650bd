"""The fold over inner calls, which a tool made itself: they stand in the record of its call and nowhere else.

They count as calls of the run, but are not part of the conversation, and repeat nothing that the model asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from agentnb.core import events as e
from agentnb.core.rounds import CallRecord
from agentnb.core.run_state import RunState

Records = tuple[CallRecord, ...]


def started(run: RunState, event: e.ToolStarted) -> None:
    """Add the call to those of its parent call."""
    place = run._work.open_calls.get(event.parent_call)
    if place is not None:  # a step made the call whose tool makes this one
        run._work.open_calls[event.call.id] = place
    _change(run, event.parent_call, lambda inner: (*inner, CallRecord(event.call, role=run.role_of(event.call.name))))


def finished(run: RunState, event: e.ToolFinished) -> None:
    """Record the result of the call."""

    def ended(inner: Records) -> Records:
        return tuple([_ended(one, event) if one.call.id == event.result.call_id else one for one in inner])

    _change(run, event.parent_call, ended)


def blocked(run: RunState, event: e.CallBlocked) -> None:
    """Add the call, which was not run, to those of its parent call."""
    record = CallRecord(event.call, event.result, rule=event.rule, role=run.role_of(event.call.name))
    _change(run, event.parent_call, lambda inner: (*inner, record))


def outer_calls(run: RunState) -> Iterator[CallRecord]:
    """Yield the calls of the model, in order, then those of steps."""
    for one in run._rounds:
        yield from one.records
    for each in run._work.calls:
        yield each.record


def all_calls(run: RunState) -> Iterator[CallRecord]:
    """Yield the calls of the model and of steps, each before those that its tool made."""
    for outer in outer_calls(run):
        yield outer
        if outer.inner:
            yield from (record for _, record in with_inner(outer.inner))


def count_of(run: RunState, parent: str) -> int:
    """Return the number of calls that the tool of an open call has made so far, also in a process that died."""
    place = run._work.open_calls.get(parent)
    records = (run._work.calls[place].record,) if place is not None else run._rounds[-1].records if run._rounds else ()
    return sum(above == parent for above, _ in with_inner(records))


def with_inner(records: Records, parent: str = "") -> Iterator[tuple[str, CallRecord]]:
    """Yield all calls with the ids of their parent calls, each before those that its tool made."""
    for one in records:
        yield parent, one
        if one.inner:
            yield from with_inner(one.inner, one.call.id)


def _ended(one: CallRecord, event: e.ToolFinished) -> CallRecord:
    how = event.seconds, event.traceback, event.display, one.rule, event.progress, one.role
    return CallRecord(one.call, event.result, *how, one.inner, False, event.printed)


def _change(run: RunState, parent: str, change: Callable[[Records], Records]) -> None:
    place = run._work.open_calls.get(parent)
    if place is not None:
        of_step = run._work.calls[place]
        (record,) = _changed((of_step.record,), parent, change)
        run._work.calls[place] = replace(of_step, record=record)
        return
    current = run._rounds[-1]
    run._rounds[-1] = replace(current, records=_changed(current.records, parent, change))


def _changed(records: Records, parent: str, change: Callable[[Records], Records]) -> Records:
    found = []
    for one in records:
        if one.call.id == parent:
            one = replace(one, inner=change(one.inner))  # noqa: PLW2901
        elif one.inner:
            one = replace(one, inner=_changed(one.inner, parent, change))  # noqa: PLW2901
        found.append(one)
    return tuple(found)
