"""The table of loops: one row for each time a policy found a run repeating itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.events import LoopDetected
from agentnb.detect.run import Run
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import Column, table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A detected loop and its run."""

    run: Run
    loop: LoopDetected


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run.id),
    Column("model", "str", lambda row: row.run.model),
    Column("rule", "str", lambda row: row.loop.rule),
    Column("first", "int64", lambda row: row.loop.first),
    Column("last", "int64", lambda row: row.loop.last),
    Column("severity", "str", lambda row: row.loop.severity),
    Column("sentence", "str", lambda row: row.loop.sentence),
]


def loops(source: RunSource) -> pd.DataFrame:
    """Return one row per loop that a policy found: its ``rule``, its rounds (``first`` to ``last``), and a sentence."""
    return table((Row(run, loop) for run in load_traces(source) for loop in run.loops), COLUMNS)
