"""What lies among the logs and is none: pipes, devices, folders, files that are far too large. Each is left out by its name."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from agentnb import Agent, Store, load_trace, load_traces, tables
from agentnb.errors import StoreError, TraceError
from agentnb.models import ScriptedModel
from agentnb.notebook.commands.history import show_history
from agentnb.session.session import Session
from agentnb.traces import reading


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
    os.chdir(path.parent)  # the name of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10_000_000_000)


ODD: dict[str, tuple[Callable[[Path], None], str]] = {
    "a-pipe": (pipe, "is a pipe, and no file"),
    "endless": (endless, "is a device, and no file"),
    "folder": (folder, "is a folder"),
    "linked": (link_to_folder, "is a folder"),
    "listening": (listening, "is a socket, and no file"),
    "huge": (huge, r"has 10\.0 GB, and files up to 1 GB are read"),
}
pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one run, and all of these beside its log."""
    store = Store(tmp_path / "runs")
    Agent(ScriptedModel(["Done."])).run_sync("go", store=store)
    for name, (make, _) in ODD.items():
        make(store.path(name))
    return store


def test_each_is_refused_with_its_name_and_what_it_is(store: Store, subtests: pytest.Subtests) -> None:
    for name, (_, said) in ODD.items():
        path = store.path(name)
        for load in (load_trace, load_traces, lambda path: store.load(path.stem), lambda path: store.reopen(path.stem)):
            if load is load_traces and path.is_dir():
                continue  # it may hold runs
            with subtests.test(name), pytest.raises(TraceError, match=rf"{name}\.jsonl {said}"):
                load(path)


def test_in_a_folder_they_are_left_out_by_name_and_all_else_is_read(store: Store) -> None:
    for source in (store, store.folder, str(store.folder / "*.jsonl")):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert len(load_traces(source)) == 1
        assert [sum(f"{name}.jsonl" in str(one.message) for one in told) for name in ODD] == [1] * len(ODD)
    with pytest.warns(UserWarning, match="Left out"):
        assert len(tables.events(store)) > 0


def test_the_list_of_runs_goes_past_them_and_names_them(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    left_out: list[str] = []
    assert len(list(store.each_summary(left_out))) == len(store.summaries()) == 1
    assert sorted(left_out) == sorted(f"{name}.jsonl" for name in ODD)
    show_history(Session(store=store), None, [])
    told = capsys.readouterr().out
    assert "Left out because they are not run logs: " in told and all(f"{name}.jsonl" in told for name in ODD)


def test_a_file_that_becomes_another_while_it_is_opened_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.path(store.summaries()[0].id)
    plain = os.open

    def swapped(name: Path, flags: int) -> int:
        assert flags & os.O_NONBLOCK
        return plain(store.path("a-pipe"), flags)

    monkeypatch.setattr(reading.os, "open", swapped)
    with pytest.raises(TraceError, match="is a pipe"):
        load_trace(path)


def test_what_is_not_there_is_still_said_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        load_trace(tmp_path / "gone.jsonl")
