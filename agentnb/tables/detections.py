"""The table of detections: what detectors find in recorded runs, whether or not they looked on when these were made."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentnb.detect.presets.registry import DEFAULT
from agentnb.detect.timelines import Detection, Presets
from agentnb.interchange.detecting import DetectedRun, detected_runs
from agentnb.interchange.files import RunSource, warn_of
from agentnb.interchange.trace_file import Problem
from agentnb.tables.columns import ROUNDS, Column
from agentnb.tables.frames import Values

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A finding and its run."""

    run: DetectedRun
    found: Detection


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run.run_id, "The run", "event.run_id"),
    Column("model", "str", lambda row: row.run.model, "The run's model", "run_started.model"),
    Column("round", "int64", lambda row: row.found.made + 1, "The round after which it was first found", "detect", ROUNDS),
    Column("preset", "str", lambda row: row.found.preset, "The preset or detector that found it", "detect"),
    Column("rule", "str", lambda row: row.found.rule, "The rule that found it", "detect"),
    Column("family", "str", lambda row: row.found.family, "What kind of problem it is: loop, stall, failure, ...", "detect"),
    Column("severity", "str", lambda row: row.found.severity, "How far it had gone at last: notice to stop", "detect"),
    Column("first", "int64", lambda row: row.found.first + 1, "First of its rounds", "detect", ROUNDS),
    Column("last", "int64", lambda row: row.found.last + 1, "Last of its rounds", "detect", ROUNDS),
    Column("times", "int64", lambda row: row.found.times, "How often it was found, each time with a later round", "detect"),
    Column("sentence", "str", lambda row: row.found.sentence, "What was found", "detect"),
]


def detections(source: RunSource, presets: Presets = (DEFAULT,), *, processes: int = 1) -> pd.DataFrame:
    """Return one row per finding of these detectors in any runs, in the order of the runs; rounds count from 1.

    The columns are those of `agentnb.detect.timeline`, behind the run and its model. ``presets``: presets by their names,
    detectors of your own, or several. ``processes``: how many worker processes read the files, for large folders; detectors of
    your own must then be in a module. One run a process is in memory at a time. Raises `SettingsError` for a preset that there
    is not, and for a detector that no worker can import. What a detector raises is raised; what cannot be read is left out
    with a warning.
    """
    problems: list[Problem] = []
    values = Values(COLUMNS)
    for run in detected_runs(source, presets, processes=processes, problems=problems):
        if run.found:
            values.add([Row(run, one) for one in run.found])
    warn_of(problems)
    return values.take()
