"""The fold over inner calls, which tools make. They are stored only in the record of the call whose tool made them.

They count as calls of the run, but are not part of the conversation, and are ignored in the detection of the model's repeated
calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import CallRecord

Records = tuple[CallRecord, ...]
Path = tuple[int, ...]
"""Position of a call: the index of the reply's or step's call, then the index within each level of inner calls."""


def end(run: RunFacts, call_id: str, ended: Callable[[CallRecord], CallRecord]) -> None:
    """Record the result of a call."""
    path = _places(run, call_id).get(call_id)
    if path is not None:
        _change(run, call_id, path, ended)


def outer_calls(run: RunFacts) -> Iterator[CallRecord]:
    """Yield the calls of the model, in order, then those of steps."""
    for round_ in run._rounds:
        yield from round_.records
    for step_call in run._step_calls:
        yield step_call.record


def all_calls(run: RunFacts) -> Iterator[CallRecord]:
    """Yield the calls of the model and of steps, each before the calls made by its tool."""
    for outer in outer_calls(run):
        yield outer
        if outer.inner:
            yield from (record for _, record in with_inner(outer.inner))


def count_of(run: RunFacts, parent: str) -> int:
    """Return the number of calls made so far by the tool of an open call, including those in a process that died."""
    path = run._open_step_calls.get(parent)
    records = (run._step_calls[path[0]].record,) if path is not None else run._rounds[-1].records if run._rounds else ()
    return sum(parent_id == parent for parent_id, _ in with_inner(records))


def with_inner(records: Records, parent: str = "") -> Iterator[tuple[str, CallRecord]]:
    """Yield all calls with the ids of their parent calls, each before the calls made by its tool."""
    for record in records:
        yield parent, record
        if record.inner:
            yield from with_inner(record.inner, record.call.id)


def _places(run: RunFacts, call_id: str) -> dict[str, Path]:
    """Return the positions of step calls if this call is among them, otherwise those of the open round's inner calls."""
    open_calls = run._open_step_calls
    return open_calls if call_id in open_calls else run._inner_places


def add(run: RunFacts, parent: str, added: CallRecord) -> None:
    """Add a call to its parent call."""
    positions, position = _places(run, parent), run._call_places.get(parent)
    path = positions.get(parent) if position is None else (position,)
    if path is None:
        return

    def with_added(one: CallRecord) -> CallRecord:
        positions[added.call.id] = (*path, len(one.inner))
        return replace(one, inner=(*one.inner, added))

    _change(run, parent, path, with_added)


def _change(run: RunFacts, call_id: str, path: Path, change: Callable[[CallRecord], CallRecord]) -> None:
    """Change the record at this path, visiting only the records on it: a tool may make thousands of calls."""
    if call_id in run._open_step_calls:
        of_step = run._step_calls[path[0]]
        (record,) = _change_records((of_step.record,), (0, *path[1:]), change)
        run._step_calls[path[0]] = replace(of_step, record=record)
        return
    current = run._rounds[-1]
    run._rounds[-1] = run._last_round = replace(current, records=_change_records(current.records, path, change))


def _change_records(records: Records, path: Path, change: Callable[[CallRecord], CallRecord]) -> Records:
    position, remaining = path[0], path[1:]
    record = records[position]
    changed = [*records]
    changed[position] = replace(record, inner=_change_records(record.inner, remaining, change)) if remaining else change(record)
    return tuple(changed)
