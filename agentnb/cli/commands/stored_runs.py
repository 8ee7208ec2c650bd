"""Runs and files named on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from glob import has_magic
from pathlib import Path

from agentnb.detect.run import Run
from agentnb.errors import SettingsError, StoreError, TraceError
from agentnb.interchange.files import load_traces, source_exists
from agentnb.session.default_store import default_store
from agentnb.store.atomic_files import write_whole
from agentnb.store.store import Store
from agentnb.workflow.files.nested_files import path_of


def store_in(folder: Path | None) -> Store:
    """Return the store of a folder; the current folder by default."""
    if folder is None:
        return default_store()[0]
    if not folder.is_dir():
        raise StoreError(f"There is no folder {folder}", "agentnb runs lists those in this folder's .agentnb/runs")
    return Store(_runs_within(folder))


def _runs_within(folder: Path) -> Path:
    """Return the folder, or its ``.agentnb/runs`` if its logs are there."""
    within = folder / ".agentnb" / "runs"
    return within if within.is_dir() and not any(folder.glob("*.jsonl")) else folder


def holds_other_files(path: Path) -> bool:
    """True for a file, an example, or a folder that contains no agentnb run logs."""
    folder = path_of(path)
    if not folder.is_dir():
        return source_exists(path)
    store = Store(_runs_within(folder))
    return next(iter(store.each_summary()), None) is None and any(folder.rglob("*.*"))


def runs_named(name: str, *, loose: bool) -> list[Run]:
    """Return the runs of a file or an example, or the run with this id."""
    path = path_of(name)
    if path.is_dir():
        raise SettingsError(f"{path} is a folder", f"agentnb runs {path} lists its runs")
    if not (_is_file(path) or source_exists(name)):
        return [default_store()[0].load(name)]
    traces = load_traces(name, strict=not loose)
    if not traces:
        raise TraceError(f"{name} contains no runs")
    return traces


def choose_run(runs: Sequence[Run], which: str | None, name: str) -> Run | None:
    """Return the run with this number (from 1) or id ending; by default, the only run that is not nested."""
    if not which:
        ids = {run.id for run in runs}
        fits = [run for run in runs if run.parent_id not in ids]
    elif which.isdecimal() and 0 < int(which) <= len(runs):
        fits = [runs[int(which) - 1]]
    else:
        fits = [run for run in runs if run.id.endswith(which)]
    if which and len(fits) != 1:
        many = f"{len(fits):,} runs" if fits else "no run"
        raise SettingsError(f"{name} has {many} {which}", f"agentnb runs {name} lists its {len(runs):,} runs")
    return fits[0] if len(fits) == 1 else None


def source_of(name: str) -> Path:
    """Return a file, folder or glob unchanged, or the log of the run with this id."""
    path = path_of(name)
    if path.is_dir():
        return _runs_within(path)
    if _is_file(path) or has_magic(name) or source_exists(name):
        return path
    store = default_store()[0]
    return store.path(store.find(name))


def _is_file(path: Path) -> bool:
    return path.suffix == ".jsonl" or path.exists()  # ids have no suffix


def write_file(data: bytes, path: Path, noun: str) -> str:
    """Write the file, and return an empty string for standard output."""
    write_whole(path_of(path), [data], noun)
    return ""
