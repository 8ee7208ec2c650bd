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
Path = tuple[int, ...]
"""Where a call stands: the place of the reply's own call, then the places among the inner calls of each."""


def started(run: RunState, event: e.ToolStarted) -> None:
    """Add the call to those of its parent call."""
    _add(run, event.parent_call, CallRecord(event.call, role=run.role_of(event.call.name)))


def finished(run: RunState, event: e.ToolFinished) -> None:
    """Record the result of the call."""
    path = run._inner_places.get(event.result.call_id)
    if path is not None:
        _change(run, path, lambda one: _ended(one, event))


def blocked(run: RunState, event: e.CallBlocked) -> None:
    """Add the call, which was not run, to those of its parent call."""
    _add(run, event.parent_call, CallRecord(event.call, event.result, rule=event.rule, role=run.role_of(event.call.name)))


def with_inner(records: Records, parent: str = "") -> Iterator[tuple[str, CallRecord]]:
    """Yield all calls with the ids of their parent calls, each before those that its tool made."""
    for one in records:
        yield parent, one
        if one.inner:
            yield from with_inner(one.inner, one.call.id)


def _ended(one: CallRecord, event: e.ToolFinished) -> CallRecord:
    how = event.seconds, event.traceback, event.display, one.rule, event.progress, one.role
    return CallRecord(one.call, event.result, *how, one.inner, False, event.printed)


def _add(run: RunState, parent: str, added: CallRecord) -> None:
    place = run._call_places.get(parent)
    path = run._inner_places.get(parent) if place is None else (place,)
    if path is None:
        return

    def with_added(one: CallRecord) -> CallRecord:
        run._inner_places[added.call.id] = (*path, len(one.inner))
        return replace(one, inner=(*one.inner, added))

    _change(run, path, with_added)


def _change(run: RunState, path: Path, change: Callable[[CallRecord], CallRecord]) -> None:
    """Change the record at this path. Only the records on it are looked at: a tool may make thousands of calls."""
    current = run._rounds[-1]
    run._rounds[-1] = replace(current, records=_changed(current.records, path, change))


def _changed(records: Records, path: Path, change: Callable[[CallRecord], CallRecord]) -> Records:
    place, further = path[0], path[1:]
    one = records[place]
    changed = [*records]
    changed[place] = replace(one, inner=_changed(one.inner, further, change)) if further else change(one)
    return tuple(changed)
