"""Other files among the logs: pipes, devices, folders, broken links, oversized and unreadable files.

Each is left out by its name.
"""

from __future__ import annotations

import errno
import os
import socket
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from agentnb import Agent, Store, iter_traces, load_trace, load_traces, survey, tables
from agentnb.errors import StoreError, TraceError
from agentnb.models import ScriptedModel
from agentnb.notebook.commands.history_command import history_command
from agentnb.session.session import Session
from agentnb.store import bounds, summaries
from agentnb.store import regular_files as reading
from agentnb.tables import cache_shares


def pipe(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def link_to_folder(path: Path) -> None:
    path.symlink_to(path.parent)


def listening(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # socket names must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


def circular(path: Path) -> None:
    path.symlink_to(path)


def forbidden(path: Path) -> None:
    path.write_text("{}")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10_000_000_000)


FORBIDDEN = "forbidden"
"""An unreadable file; the tests may run as root, who can open any."""
ODD: dict[str, tuple[Callable[[Path], None], str]] = {
    "a-pipe": (pipe, "is a pipe, not a file"),
    "endless": (endless, "is a device, not a file"),
    "folder": (folder, "is a folder"),
    "linked": (link_to_folder, "is a folder"),
    "listening": (listening, "is a socket, not a file"),
    "dangling": (dangling, r"cannot be (read|written): No such file"),
    "circular": (circular, r"cannot be (read|written): Too many levels of symbolic links"),
    FORBIDDEN: (forbidden, r"cannot be (read|written): Permission denied"),
    "huge": (huge, r"(is 10\.0 GB; only files up to [0-9.]+ GB are read|has a line longer than 4 MB)"),
}
pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Create a store with one run, and all of these files beside its log."""
    plain = os.open

    def checked(path: str | Path, *args: int, **options: int) -> int:
        if str(path).endswith(f"{FORBIDDEN}.jsonl"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return plain(path, *args, **options)

    for module in (bounds, summaries):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 4_000_000)  # reading 400 MB of each huge file takes seconds
    monkeypatch.setattr(cache_shares, "MAX_PROCESSES", 1)  # the huge file's length would start others
    store = Store(tmp_path / "runs")
    Agent(ScriptedModel(["Done."])).run_sync("go", store=store)
    for name, (make, _) in ODD.items():
        make(store.path(name))
    monkeypatch.setattr(os, "open", checked)
    return store


def test_odd_file_is_refused_with_its_name_and_kind(store: Store, subtests: pytest.Subtests) -> None:
    for name, (_, said) in ODD.items():
        path = store.path(name)
        for load in (load_trace, load_traces, lambda path: store.load(path.stem), lambda path: store.reopen(path.stem)):
            if load is load_traces and path.is_dir():
                continue  # may contain runs
            with subtests.test(name), pytest.raises((TraceError, StoreError), match=rf"{name}\.jsonl {said}"):
                load(path)


def test_odd_files_in_a_folder_are_skipped_and_named(store: Store) -> None:
    for source in (store, store.folder, str(store.folder / "*.jsonl")):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert len(load_traces(source)) == 1
        assert [sum(f"{name}.jsonl" in str(one.message) for one in told) for name in ODD] == [1] * len(ODD)
    problems: list[object] = []
    assert len([*iter_traces(store.folder, strict=False, problems=problems)]) == 1
    assert [sum(f"{name}.jsonl" in str(problem) for problem in problems) for name in ODD] == [1] * len(ODD)


def test_tables_and_surveys_skip_bad_files_with_one_warning(store: Store, subtests: pytest.Subtests) -> None:
    readers = {
        "table": lambda: tables.events(store),
        "kept table": lambda: tables.runs(store.folder, cache=True),
        "kept table again": lambda: tables.runs(store.folder, cache=True),
        "survey": lambda: survey(store.folder),
    }
    for name, read in readers.items():
        with subtests.test(name), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert len(read()) > 0
            assert [sum(f"{name}.jsonl" in str(one.message) for one in told) for name in ODD] == [1] * len(ODD)
            assert max(len(str(one.message)) for one in told) < 400


def test_list_of_runs_skips_and_names_odd_files(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    left_out: list[str] = []
    assert len(list(store.each_summary(left_out))) == len(store.summaries()) == 1
    assert sorted(left_out) == sorted(f"{name}.jsonl" for name in ODD)
    history_command(Session(store=store), None, "")
    told = capsys.readouterr().out
    assert "are not run logs: " in told and all(f"{name}.jsonl" in told for name in ODD)


def test_file_that_changes_kind_while_opened_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.path(store.summaries()[0].id)
    plain = os.open

    def swapped(name: Path, flags: int) -> int:
        assert flags & os.O_NONBLOCK
        return plain(store.path("a-pipe"), flags)

    monkeypatch.setattr(reading.os, "open", swapped)
    with pytest.raises(TraceError, match="is a pipe"):
        load_trace(path)


def test_missing_file_is_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        load_trace(tmp_path / "gone.jsonl")
