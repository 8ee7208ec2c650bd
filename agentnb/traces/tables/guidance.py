"""The table of guidance: one row for each ephemeral guidance a model got."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.guidance import Followed, Guidance
from agentnb.detect.rules import CELLS
from agentnb.detect.run import Run
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import Column, table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """One piece of guidance, whether it was followed, and how that compares with earlier and later guidance."""

    run: Run
    round: int
    guidance: Guidance
    verdict: Followed
    ignored_in_a_row: int
    rounds_until_followed: int | None


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run.id),
    Column("model", "str", lambda row: row.run.model),
    Column("policy", "str", lambda row: row.run.settings.get("policy", {}).get("name")),
    Column("round", "int64", lambda row: row.round),
    Column("set", "str", lambda row: row.guidance.set),
    Column("version", "str", lambda row: row.guidance.version),
    Column("cell", "str", lambda row: row.guidance.cell),
    Column("level", "int64", lambda row: row.guidance.level),
    Column("trigger", "str", lambda row: row.guidance.trigger),
    Column("followed", "boolean", lambda row: row.verdict.followed),
    Column("why", "str", lambda row: row.verdict.why),
    Column("ignored_in_a_row", "int64", lambda row: row.ignored_in_a_row),
    Column("rounds_until_followed", "Int64", lambda row: row.rounds_until_followed),
    Column("text", "str", lambda row: row.guidance.text),
]


def guidance(source: RunSource) -> pd.DataFrame:
    """Return one row for each time guidance was given, in order.

    ``followed``: whether the reply followed it (missing if that is unknown), and ``why``. ``ignored_in_a_row``: how
    often in a row guidance of this kind was ignored, this time included. ``rounds_until_followed``: 1 if this reply followed
    it, 2 if the reply of the next round did, and so on; missing if none did. The four cells are one kind, as they ask in turn
    for the same discipline; interventions are another.
    """
    return table((row for run in load_traces(source) for row in _rows(run)), COLUMNS)


def _rows(run: Run) -> Iterator[Row]:
    followed_next: dict[str, int] = {}
    until: dict[tuple[int, int], int | None] = {}
    for one in reversed(run.rounds):
        for position, (given, verdict) in enumerate(_verdicts(one.guidance, one.followed)):
            kind = _kind(given)
            if verdict.followed:
                followed_next[kind] = one.index
            found = followed_next.get(kind)
            until[one.index, position] = None if found is None else found - one.index + 1
    ignored: dict[str, int] = {}
    for one in run.rounds:
        for position, (given, verdict) in enumerate(_verdicts(one.guidance, one.followed)):
            kind = _kind(given)
            if verdict.followed is not None:
                ignored[kind] = 0 if verdict.followed else ignored.get(kind, 0) + 1
            yield Row(run, one.index, given, verdict, ignored.get(kind, 0), until[one.index, position])


def _verdicts(given: tuple[Guidance, ...], followed: tuple[Followed, ...]) -> Iterator[tuple[Guidance, Followed]]:
    """Yield each guidance with its verdict, which is unknown if the round was cut off."""
    for position, guidance in enumerate(given):
        yield guidance, followed[position] if position < len(followed) else Followed(None, "the round did not end")


def _kind(guidance: Guidance) -> str:
    return "cell" if guidance.cell in CELLS else guidance.cell
