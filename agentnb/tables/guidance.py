"""The table of guidance: one row for each ephemeral guidance a model got."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.guidance import Followed, Guidance
from agentnb.detect.rules import CELLS
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource
from agentnb.models.estimate import tokens_of_text
from agentnb.tables.columns import COUNTED, ROUNDS, TOKENS, Column, number_of
from agentnb.tables.folders import frame_of
from agentnb.tables.frames import Table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """One piece of guidance, whether it was followed, and how that compares with earlier and later guidance."""

    run: Run
    round: int
    guidance: Guidance
    verdict: Followed
    ignored_in_a_row: int
    times_ignored: int
    rounds_until_followed: int | None


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run.id, "The run", "event.run_id"),
    Column("model", "str", lambda row: row.run.model, "The run's model", "run_started.model"),
    Column(
        "policy",
        "str",
        lambda row: row.run.settings.get("policy", {}).get("name"),
        "Name of the run's policy",
        "run_started.settings",
    ),
    Column("round", "int64", lambda row: number_of(row.round), "The round it was given for", "round_started.index", ROUNDS),
    Column("set", "str", lambda row: row.guidance.set, "The variant: name of its guidance set", "guidance_given.guidance.set"),
    Column("version", "str", lambda row: row.guidance.version, "Content hash of its set", "guidance_given.guidance.version"),
    Column(
        "cell",
        "str",
        lambda row: row.guidance.cell,
        "Cell of the matrix, intervention and so on",
        "guidance_given.guidance.cell",
    ),
    Column("level", "int64", lambda row: row.guidance.level, "Strength", "guidance_given.guidance.level", "1 to 3"),
    Column("trigger", "str", lambda row: row.guidance.trigger, "What caused it", "guidance_given.guidance.trigger"),
    Column(
        "tokens",
        "int64",
        lambda row: tokens_of_text(row.guidance.text),
        "Tokens of its text",
        "estimated by models.estimate",
        TOKENS,
    ),
    Column(
        "followed",
        "boolean",
        lambda row: row.verdict.followed,
        "Whether the reply followed it; missing if that is unknown",
        "judged by detect.rules",
    ),
    Column("why", "str", lambda row: row.verdict.why, "Why it counts as followed or not", "judged by detect.rules"),
    Column(
        "ignored_in_a_row",
        "int64",
        lambda row: row.ignored_in_a_row,
        "Times in a row that guidance of its kind was ignored, this time included; the four cells are one kind",
        COUNTED,
        "times",
    ),
    Column(
        "times_ignored",
        "int64",
        lambda row: row.times_ignored,
        "Times that guidance of its kind was ignored in the run so far, this time included",
        COUNTED,
        "times",
    ),
    Column(
        "rounds_until_followed",
        "Int64",
        lambda row: row.rounds_until_followed,
        "1 if this reply followed it, 2 if that of the next round followed guidance of its kind; missing if none did",
        COUNTED,
        "rounds",
    ),
    Column("text", "str", lambda row: row.guidance.text, "Its text", "guidance_given.guidance.text"),
]


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
    altogether: Counter[str] = Counter()
    for one in run.rounds:
        for position, (given, verdict) in enumerate(_verdicts(one.guidance, one.followed)):
            kind = _kind(given)
            if verdict.followed is not None:
                ignored[kind] = 0 if verdict.followed else ignored.get(kind, 0) + 1
                altogether[kind] += not verdict.followed
            counts = ignored.get(kind, 0), altogether[kind], until[one.index, position]
            yield Row(run, one.index, given, verdict, *counts)


def _verdicts(given: Sequence[Guidance], followed: tuple[Followed, ...]) -> Iterator[tuple[Guidance, Followed]]:
    """Yield each guidance with its verdict, which is unknown if the round was cut off."""
    for position, guidance in enumerate(given):
        yield guidance, followed[position] if position < len(followed) else Followed(None, "the round did not end")


def _kind(guidance: Guidance) -> str:
    return "cell" if guidance.cell in CELLS else guidance.cell


TABLE = Table("guidance", COLUMNS, _rows)


def guidance(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return the ledger of guidance: one row for each time guidance was given to a model, in order."""
    return frame_of(source, TABLE, cache)
