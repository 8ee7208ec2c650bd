"""Runs detectors on a source of any size, in one process or several."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import NamedTuple

from agentnb.core.run.facts import RunFacts
from agentnb.detect.presets.preset_registry import DEFAULT
from agentnb.detect.run import Run
from agentnb.detect.run_detectors import detectors_of
from agentnb.detect.timelines import Detection, Presets, WatchedRun, as_detectors, detections, fold_watched
from agentnb.errors import SettingsError
from agentnb.interchange.files import RunSource, SourceFile, parts_of
from agentnb.interchange.trace_file import Problem
from agentnb.interchange.workers import results_of


class DetectedRun(NamedTuple):
    """The detections in one run."""

    run_id: str
    model: str
    rounds: int
    found: tuple[Detection, ...]


def detected_runs(
    source: RunSource, presets: Presets = (DEFAULT,), *, processes: int = 1, problems: list[Problem] | None = None
) -> Iterator[DetectedRun]:
    """Yield the detections of these presets for each run in a source, in order. Holds only one run at a time.

    ``processes``: number of worker processes that read and check the files; runs in memory are checked in this process.
    Unreadable parts are appended to ``problems``. Raises `SettingsError` if a preset is unknown, or if a worker process cannot
    import a detector of your own. Errors in detectors propagate.
    """
    preset_list = as_detectors(presets)
    for preset in preset_list:
        detectors_of(preset)  # fail for unknown presets before reading
    if type(processes) is not int or processes < 1:
        raise SettingsError(f"processes= must be a positive integer, got {processes!r}", "Use processes=2, or more")
    return _detect(source, preset_list, processes, [] if problems is None else problems)


def _detect(source: RunSource, presets: Presets, processes: int, problems: list[Problem]) -> Iterator[DetectedRun]:
    parts = parts_of(source)
    if processes == 1:
        for part in parts:
            yield from [_of_run(part, presets)] if isinstance(part, Run) else in_file(part, presets, problems)
        return
    for result in results_of(parts, partial(in_files, presets=presets), processes):
        if isinstance(result, Run):
            yield _of_run(result, presets)
        else:
            runs, new_problems = result
            problems += new_problems
            yield from runs


def in_files(files: Iterable[SourceFile], presets: Presets) -> tuple[list[DetectedRun], list[Problem]]:
    """Return the detections in these files' runs, and any problems encountered in reading the files."""
    problems: list[Problem] = []
    return [run for file in files for run in in_file(file, presets, problems)], problems


def in_file(file: SourceFile, presets: Presets, problems: list[Problem]) -> Iterator[DetectedRun]:
    """Yield the detections for each run in a file. A run's log is folded only once for all detectors."""
    for run in file.runs(problems, partial(fold_watched, presets=presets)):
        yield _of_run(run, presets)


def _of_run(run: RunFacts, presets: Presets) -> DetectedRun:
    results = run.detections() if isinstance(run, WatchedRun) else detections(run, presets)
    return DetectedRun(run.id, run.model, len(run.rounds), tuple(results))
