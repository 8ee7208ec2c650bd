"""The table of guidance: one row per item of ephemeral guidance sent to a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.guidance import Followed, Guidance
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.guidance_rules import CELLS
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource
from agentnb.models.estimate import tokens_of_text
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.folders import frame_of
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """An item of guidance, whether it was followed, and how it relates to earlier and later guidance."""

    run: Run
    round: int
    guidance: Guidance
    verdict: Followed
    ignored_in_a_row: int
    times_ignored: int
    rounds_until_followed: int | None


COLUMNS: list[Column[Row]] = columns_of(
    "guidance",
    {
        "policy": lambda row: row.run.settings.get("policy", {}).get("name"),
        "tokens": lambda row: tokens_of_text(row.guidance.text),
    },
)


def _rows(run: Run) -> Iterator[Row]:
    followed_next: dict[str, int] = {}
    until: dict[tuple[int, int], int | None] = {}
    for current in reversed(run.rounds):
        for position, kind, _, verdict in _verdicts(current):
            if verdict.followed:
                followed_next[kind] = current.index
            followed_at = followed_next.get(kind)
            until[current.index, position] = None if followed_at is None else followed_at - current.index + 1
    ignored: dict[str, int] = {}
    altogether: Counter[str] = Counter()
    for current in run.rounds:
        for position, kind, item, verdict in _verdicts(current):
            if verdict.followed is not None:
                ignored[kind] = 0 if verdict.followed else ignored.get(kind, 0) + 1
                altogether[kind] += not verdict.followed
            counts = ignored.get(kind, 0), altogether[kind], until[current.index, position]
            yield Row(run, current.index, item, verdict, *counts)


def _verdicts(current: WorkflowRound) -> Iterator[tuple[int, str, Guidance, Followed]]:
    """Yield each item of guidance with its position, kind and verdict: unknown in a round that was cut off."""
    for position, guidance in enumerate(current.guidance):
        kind = "cell" if guidance.cell in CELLS else guidance.cell
        is_judged = position < len(current.followed)
        yield position, kind, guidance, current.followed[position] if is_judged else Followed(None, "the round did not end")


TABLE = Table("guidance", COLUMNS, _rows)


def guidance(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return the ledger of guidance: one row for each item of guidance sent to a model, in order."""
    return frame_of(source, TABLE, cache)
