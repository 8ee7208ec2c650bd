"""What differs between the calls of two rounds that belong together: other calls, arguments or results."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.display.markup import Html, joined, tag
from agentnb.display.texts.labels import clean, first_line

Calls: TypeAlias = dict[int, list[Html]]
"""The calls of a round that differ, by their places in it, each with notes of what differs."""
MAX_OF_A_VALUE = 160
MAX_ARGUMENTS = 6
"""Arguments of a call that are named; of more, only the count is."""
BEFORE = 20
"""Characters shown before the first that differs."""
_encoder = msgspec.json.Encoder(order="sorted")


def differing_calls(one: WorkflowRound, other: WorkflowRound) -> Calls:
    """Return the calls of ``one`` that ``other`` has not, or has with another result.

    Calls are matched by name and arguments; of those left, by name, in their order, to say which arguments differ.
    """
    left = [*other.records]
    unmatched: list[tuple[int, CallRecord]] = []
    found: Calls = {}
    for place, record in enumerate(one.records):
        match = next((each for each in left if _key(each) == _key(record)), None)
        if match is None:
            unmatched.append((place, record))
            continue
        left.remove(match)
        if note := _other_result(record, match):
            found[place] = [note]
    for place, record in unmatched:
        match = next((each for each in left if each.call.name == record.call.name), None)
        if match is not None:
            left.remove(match)
        found[place] = _other_arguments(record, match) if match is not None else []
    return found


def _key(record: CallRecord) -> tuple[str, bytes]:
    return record.call.name, _encoder.encode(record.call.arguments)


def _other_result(record: CallRecord, match: CallRecord) -> Html | None:
    mine, others = (each.result.text if each.result is not None else "" for each in (record, match))
    if mine == others and _fails(record) == _fails(match):
        return None
    first = next((place for place, (a, b) in enumerate(zip(mine, others, strict=False)) if a != b), min(len(mine), len(others)))
    start = max(0, first - BEFORE)
    excerpt = first_line(clean(mine[start : start + 2 * MAX_OF_A_VALUE]), MAX_OF_A_VALUE)
    return joined("other result: ", tag("span", "diff-value", f"{'…' if start else ''}{excerpt}" or "(empty)"))


def _fails(record: CallRecord) -> bool:
    return record.result is not None and record.result.is_error


def _other_arguments(record: CallRecord, match: CallRecord) -> list[Html]:
    mine, others = record.call.arguments, match.call.arguments
    if not isinstance(mine, dict) or not isinstance(others, dict):
        return [joined("other arguments: ", _value(mine))]
    names = [name for name in mine if name not in others or mine[name] != others[name]]
    notes = [joined(f"{first_line(clean(str(name)), 60)}: ", _value(mine[name])) for name in names[:MAX_ARGUMENTS]]
    if more := len(names) - MAX_ARGUMENTS:
        notes += [joined(f"{more:,} more arguments differ")] if more > 0 else []
    if gone := [first_line(clean(str(name)), 60) for name in others if name not in mine]:
        notes.append(joined(f"without {', '.join(gone[:MAX_ARGUMENTS])}"))
    return notes


def _value(value: Any) -> Html:
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return tag("span", "diff-value", first_line(clean(shown), MAX_OF_A_VALUE))
