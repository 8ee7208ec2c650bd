"""Loads runs from files of any format, folders, archives, globs and stores."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, cast, overload

from agentnb.advice import AdvisedWarning, ListProblems, LoadTraces, Plain
from agentnb.core.run.facts import RunFacts
from agentnb.detect.run import Run
from agentnb.errors import StoreError, TraceError, suggest_similar
from agentnb.examples import FILES, find
from agentnb.interchange.archives import members, trace_file
from agentnb.interchange.formats import UnknownFormat, format_of, is_superseded
from agentnb.interchange.labelled import Assessments, FolderLabels, Labels, read_given_labels
from agentnb.interchange.trace_file import Problem, TraceFile
from agentnb.store.check_values import note_look
from agentnb.store.follow import FollowedRun
from agentnb.store.run_labels import assessments_in
from agentnb.store.store import AnyRun, Fold, Store, load_file, load_if_log, load_small_logs, unreadable

RunSource: TypeAlias = "Run | Store | str | Path | Iterable[Run | Store | str | Path]"
"""A run, a store, a path, a folder, a glob, or several of these."""
ENDINGS = frozenset(
    {".jsonl", ".ndjson", ".json", ".traj", ".eval", ".yaml", ".yml", ".db", ".sqlite", ".sqlite3", ".parquet"}
    | {".html", ".htm", ".har", ".zip", ".gz", ".log", ".txt"}
)
"""Extensions of the files that are read in a folder; a file named explicitly is read whatever its extension."""
MAX_WARNINGS = 10
"""Maximum number of skipped files with individual warnings; the rest are counted."""


class Runs(list[Run]):
    """The runs of a source, and its `problems`: the parts that could not be read."""

    def __init__(self, runs: Iterable[Run] = (), problems: Iterable[Problem] = ()) -> None:
        super().__init__(runs)
        self.problems: list[Problem] = [*problems]


@overload
def load_trace(path: str | Path, *, strict: bool = True, follow: Literal[False] = False) -> Run: ...
@overload
def load_trace(path: str | Path, *, strict: bool = True, follow: Literal[True]) -> FollowedRun: ...
def load_trace(path: str | Path, *, strict: bool = True, follow: bool = False) -> Run | FollowedRun:
    """Return the run in a file of any format that agentnb reads. A log without an end yields an ``interrupted`` run.

    If the file has nested runs or forks, the outer run is returned; if runs continue each other, the last. ``strict=False``
    skips damaged parts. ``follow=True`` returns a `FollowedRun`, which grows with a log that another process is writing. Raises
    `TraceError` if the file cannot be read or holds several runs, and `StoreError` if it cannot be opened.
    """
    path = _resolve(path)
    if path.is_dir():
        raise TraceError(f"{path} is a folder", LoadTraces(str(path), lead="Load all runs in it"))
    if follow:
        return FollowedRun(path)
    runs = [*_whole(path, strict, [])]
    ids = {run.id for run in runs}
    inner = {run.continued_from for run in runs} | {
        run.id for run in runs if run.parent_id in ids or (run.forked_from is not None and run.forked_from.run_id in ids)
    }
    outer = [run for run in runs if run.id not in inner]
    if len(outer) != 1:
        problem = f"{path} contains {len(outer):,} runs" if outer else f"{path} contains no runs"
        raise TraceError(problem, LoadTraces(str(path), lead="Load all of them") if outer else "")
    return outer[0]


def one_run(source: Run | str | Path) -> Run:
    """Return the run itself, or load it from a file or example."""
    return source if isinstance(source, Run) else load_trace(source)


def load_traces(
    source: RunSource, *, strict: bool = True, labels: Labels | None = None, threshold: float | None = None
) -> Runs:
    """Return all runs in a path, folder, glob, archive or store, or in several of these, ordered by name.

    The ``problems`` of the returned list are the parts that could not be read. A file named explicitly must be a trace and,
    with ``strict``, intact; in a folder, glob, archive or store, other files are skipped with a warning. ``strict=False`` reads
    as much of each file as possible, without warnings.

    ``labels``: healthy or failed by ``run.id``, or a file written by `agentnb.label`. They decide the outcomes of the runs, and
    override a ``labels.csv`` next to the files. ``threshold``: lowest recorded score that passes; by default, only full marks
    do.
    """
    problems: list[Problem] = []
    runs = Runs(_apply_labels(_whole(source, strict, problems), labels, threshold))
    runs.problems += problems
    if strict:
        warn_of(problems)
    return runs


def iter_traces(
    source: RunSource,
    *,
    strict: bool = True,
    problems: list[Problem] | None = None,
    labels: Labels | None = None,
    threshold: float | None = None,
) -> Iterator[Run]:
    """Yield the runs of `load_traces` one at a time, so that a source of any size fits in memory.

    Unreadable parts are appended to ``problems``.
    """
    yield from _apply_labels(_whole(source, strict, [] if problems is None else problems), labels, threshold)


def labels_beside(source: RunSource) -> Assessments:
    """Return the assessments, by run id, from labels next to the files of a store or path; runs in memory have their own."""
    if not isinstance(source, Store | str | Path):
        return {}
    if isinstance(source, Store):
        return assessments_in(source.folder)
    beside, assessments = FolderLabels(), Assessments()
    for folder, root in dict.fromkeys((file.folder, file.root) for file in files_of(source)):
        assessments |= beside.of(folder, root)
    return assessments


def _whole(source: RunSource, strict: bool, problems: list[Problem]) -> Iterator[Run]:
    return cast("Iterator[Run]", each_run(source, problems, Run.from_events, strict=strict))


def _apply_labels(runs: Iterator[Run], labels: Labels | None, threshold: float | None) -> Iterator[Run]:
    """Yield the runs after applying the caller's labels and threshold."""
    by_run = read_given_labels(labels)
    for run in runs:
        if run.id in by_run:
            run.set_labels(by_run[run.id])
        if threshold is not None:
            run.set_threshold(threshold)
        yield run


def each_run(source: RunSource, problems: list[Problem], fold: Fold[AnyRun], *, strict: bool = True) -> Iterator[AnyRun | Run]:
    """Yield the runs of a source one at a time.

    ``fold``: makes a run from the events of an agentnb log, as `Run.from_events` does; runs from other files are always
    complete.
    """
    beside = FolderLabels()
    for part in parts_of(source):
        if isinstance(part, Run):
            yield part
            continue
        labels = beside.of(part.folder, part.root)
        for run in part.runs(problems, fold, strict=strict):
            if labels and isinstance(run, RunFacts):
                run.set_labels(labels.get(run.id, ()))
            yield run


def parts_of(source: RunSource) -> Iterator[Run | SourceFile]:
    """Yield the runs and files of a source in order. Raises `TraceError` for any other object."""
    if isinstance(source, Run):
        yield source
    elif isinstance(source, Store | str | Path):
        yield from files_of(source)
    elif isinstance(source, Iterable):
        for item in source:
            yield from parts_of(item)
    else:
        raise TraceError(f"{source!r} is not a run", "Give one or more runs, a path, a folder, a glob or a Store")


class SourceFile(NamedTuple):
    """A file in a source. Its path is stored as text because a source may have a hundred thousand files."""

    name: str
    is_named: bool = False
    """True if it was named explicitly, and so must be a trace."""
    is_log: bool = False
    """True if it must be an agentnb log."""
    root: Path | None = None
    """The named folder in which the file was found, if any. Labels there also apply."""

    @property
    def path(self) -> Path:
        """The path."""
        return Path(self.name)

    @property
    def folder(self) -> str:
        """The folder that contains the file."""
        return os.path.dirname(self.name)  # noqa: PTH120  # a Path takes ten times as long

    def runs(self, problems: list[Problem], fold: Fold[AnyRun], *, strict: bool = True) -> Iterator[AnyRun | Run]:
        """Yield the file's runs, as `each_run` does. Unless the file was named explicitly, reading errors become problems."""
        read = _of_log(self.name, fold) if self.is_log else _of_path(self.path, strict, problems, fold, is_named=self.is_named)
        return read if self.is_named else _collect_problems([(self.name, lambda: read)], problems)


def read_files(
    files: Sequence[SourceFile], fold: Fold[AnyRun]
) -> Iterator[tuple[SourceFile, list[Problem], Iterator[AnyRun | Run]]]:
    """Yield each file with its runs, as in `SourceFile.runs`, and the list to which reading these adds problems."""
    for file, run in zip(files, load_small_logs([file.name for file in files], fold), strict=True):
        problems: list[Problem] = []
        yield file, problems, file.runs(problems, fold) if run is None else iter([run])


def files_of(source: Store | str | Path) -> Iterator[SourceFile]:
    """Yield the files in a store, folder, glob or path, ordered by name. Raises `StoreError` if nothing matches.

    A folder that matches a glob is searched for files, unless its name has a file extension. If runs of an unfinished
    experiment are read, this is recorded in the experiment's folder.
    """
    if isinstance(source, Store):
        if names := source.log_files():
            note_look(source.folder)
        yield from (SourceFile(name, is_log=True, root=source.folder) for name in names)
        return
    folders: set[str] = set()
    for file in _files_of(source):
        if (folder := file.folder) not in folders:
            folders.add(folder)
            note_look(folder)
        yield file


def _files_of(source: str | Path) -> Iterator[SourceFile]:
    path = _resolve(source)
    if path.is_dir():
        yield from (SourceFile(file, root=path) for file in _files_in(path))
    elif path.exists() or not glob.has_magic(str(path)):
        yield SourceFile(str(path), is_named=True)
    else:
        matches = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        if not matches:
            raise StoreError(f"No file matches {source}")
        folders = [match for match in matches if match.suffix.lower() not in ENDINGS and match.is_dir()]
        yield from map(SourceFile, map(str, _with_files_in(matches, folders) if folders else matches))


def _with_files_in(found: list[Path], folders: list[Path]) -> list[Path]:
    """Return the matches of a glob, each file once, with folders replaced by the files in them."""
    within = {folder: [*map(Path, _files_in(folder))] for folder in folders}
    files: dict[Path, Path] = {}
    for match in found:
        for file in within.get(match, [match]):
            files.setdefault(Path(os.path.realpath(file)), file)  # `resolve` raises for cyclic links
    return [*files.values()]


def folder_of(source: Store | str | Path) -> Path | None:
    """Return the folder of a store, or the folder at this path, or None."""
    path = source.folder if isinstance(source, Store) else _resolve(source)
    return path if path.is_dir() else None


def _files_in(folder: Path) -> list[str]:
    """Return the files in a folder and its subfolders that may be traces, leaving out hidden ones.

    Folders that may not be read are included, so that reading them reports an error with their name.
    """
    files: list[str] = []
    refused: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=refused.append):
        folders[:] = [name for name in folders if not name.startswith(".")]
        visible = (name for name in (*names, *folders) if not name.startswith("."))
        files += [f"{parent}{os.sep}{name}" for name in visible if os.path.splitext(name)[1].lower() in ENDINGS]  # noqa: PTH122
    files += [str(error.filename) for error in refused]
    files = [name.removeprefix(f".{os.sep}") for name in files]  # as in Path
    return sorted(files, key=lambda name: name.replace(os.sep, "\0"))  # in path order


def _collect_problems(
    sources: Iterable[tuple[str, Callable[[], Iterator[AnyRun]]]], problems: list[Problem]
) -> Iterator[AnyRun]:
    """Yield the runs of these named sources. If one is unreadable, it becomes a problem, and the others are still read."""
    for name, read in sources:
        try:
            yield from read()
        except UnknownFormat as error:
            # Its advice lists what it lacks for each format.
            problems.append(Problem(name, "", error.what, names_file=True, is_unknown=True))
        except (TraceError, StoreError) as error:
            problems.append(Problem(name, "", error.what, error.advice, names_file=True))


def _of_log(path: str, fold: Fold[AnyRun]) -> Iterator[AnyRun | Run]:
    run = load_if_log(path, fold)
    yield load_file(Path(path)) if run is None else run


def _of_path(
    path: Path, strict: bool, problems: list[Problem], fold: Fold[AnyRun], *, is_named: bool
) -> Iterator[AnyRun | Run]:
    run = load_if_log(path, fold)
    if run is not None:  # fast path: most files are intact logs
        yield run
        return
    try:
        if path.is_dir():
            next(path.iterdir(), None)  # raises if permission is missing
        file = trace_file(path, strict=strict)
        if is_named or not is_superseded(file):
            yield from _of_file(file, problems)
    except StoreError:
        raise
    except FileNotFoundError as error:
        missing = unreadable(path, error)
        is_word = str(path).replace("-", "").isalpha()
        examples = (Plain(f"Examples: {', '.join(FILES)}"),) if is_word else ()
        missing.replace(missing.what, suggest_similar(path.name, FILES) or (*missing.advice, *examples))
        raise missing from None
    except OSError as error:
        raise unreadable(path, error) from None


def _of_file(file: TraceFile, problems: list[Problem]) -> Iterator[Run]:
    """Yield the runs in a file, or in the files of an archive that has no known format."""
    try:
        trace_format = format_of(file)
    except UnknownFormat:
        if file.kind != "zip":
            raise
        kept = (member for member in members(file) if not is_superseded(member))
        yield from _collect_problems(((member.name, partial(_of_file, member, problems)) for member in kept), problems)
        return
    with file.guard():
        yield from trace_format.read(file)
    problems += file.problems


def warn_of(problems: list[Problem]) -> None:
    """Warn about skipped files: files of unknown format on one line, damaged ones by name."""
    unknown = [problem for problem in problems if problem.is_unknown]
    named = [problem for problem in problems if not problem.is_unknown] if len(unknown) > 1 else problems
    for problem in named[:MAX_WARNINGS]:
        warnings.warn(AdvisedWarning(f"Left out: {problem._replace(advice=())}", problem.advice), stacklevel=3)
    more = [f"{len(named) - MAX_WARNINGS:,} more"] if len(named) > MAX_WARNINGS else []
    if len(unknown) > 1:
        more.append(f"{len(unknown):,} files in formats that agentnb does not read, such as {Path(unknown[0].file).name}")
    if more:
        message = f"Left out: {' and '.join(more)}"
        warnings.warn(AdvisedWarning(message, ListProblems(rest=" lists all of them")), stacklevel=3)


def source_exists(source: str | Path) -> bool:
    """True if this file, folder or example exists."""
    return _resolve(source).exists()


def _resolve(source: str | Path) -> Path:
    """Return the path, or the path of an example if no such file exists."""
    try:
        path = Path(source).expanduser()
        return path if path.exists() else find(str(source)) or path
    except RuntimeError as error:
        raise StoreError(f"{source} cannot be read: {error}", "Give the full path of the folder") from error
    except OSError as error:  # a parent folder without permission, or a name that is too long
        raise unreadable(path, error) from None
