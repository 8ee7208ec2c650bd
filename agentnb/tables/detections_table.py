"""The table of detections: detectors' findings in recorded runs, whether or not the detectors ran live."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentnb.detect.presets.preset_registry import DEFAULT
from agentnb.detect.timelines import Detection, Presets
from agentnb.interchange.detecting import DetectedRun, detected_runs
from agentnb.interchange.files import RunSource, warn_of
from agentnb.interchange.trace_file import Problem
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.table_values import Values

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A finding, and the run in which it was made."""

    run: DetectedRun
    found: Detection


COLUMNS: list[Column[Row]] = columns_of("detections")


def detections(source: RunSource, presets: Presets = (DEFAULT,), *, processes: int = 1) -> pd.DataFrame:
    """Return one row per finding of these detectors in the runs, in the order of the runs; rounds count from 1.

    The columns are those of `agentnb.detect.timeline`, preceded by the run and its model. ``presets``: the name of a
    preset, your own detectors, or several of these. ``processes``: number of worker processes that read the files,
    for large folders; your own detectors must then be in a module. Each process holds one run at a time. Raises
    `SettingsError` for an unknown preset, and for a detector that a worker cannot import. Errors in detectors
    propagate; unreadable files are skipped with a warning.
    """
    problems: list[Problem] = []
    values = Values(COLUMNS)
    for run in detected_runs(source, presets, processes=processes, problems=problems):
        if run.found:
            values.add([Row(run, finding) for finding in run.found])
    warn_of(problems)
    return values.take()
