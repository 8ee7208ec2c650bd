"""Cached summaries beside logs equal those of the logs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from run_builder import RunBuilder, a_round, called

from agentnb import Agent, Run, Store, save_trace
from agentnb.models import ScriptedModel
from agentnb.store import known_summaries
from agentnb.store import store as stores
from agentnb.store.folder_cache import HOME
from agentnb.store.summaries import RunSummary


def log_of(store: Store, name: str, rounds: int = 1) -> Path:
    story = RunBuilder(f"about {name}", run_id=name)
    for index in range(rounds):
        story.extend(*a_round(index, called("look", f"c{index}")))
    return Path(save_trace(Run.from_events(story.events), store.path(name)))


def ended_log_of(store: Store, prompt: str) -> str:
    return Agent(ScriptedModel(["Done."])).run_sync(prompt, store=store).id


def plain(store: Store) -> list[RunSummary]:
    """Return the summaries from the logs, one by one."""
    return [store.summary(run_id) for run_id in store.ids()[::-1]]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the logs that are read."""
    found: list[str] = []
    read: Callable[..., RunSummary] = stores._summary

    def noted(*given: object) -> RunSummary:
        one = read(*given)
        found.append(one.id)
        return one

    monkeypatch.setattr("agentnb.store.store._summary", noted)
    monkeypatch.setattr(known_summaries, "MANY", 3)
    return found


def test_only_new_and_changed_logs_are_read_again(tmp_path: Path, reads: list[str]) -> None:
    store = Store(tmp_path)
    ids = [ended_log_of(store, f"number {number}") for number in range(6)]
    first = store.summaries()
    assert sorted(reads) == sorted(ids)
    reads.clear()
    assert store.summaries() == first
    assert reads == []
    new = ended_log_of(store, "one more")
    path = store.path(ids[2])
    path.write_bytes(path.read_bytes().replace(b"number 2", b"number 9"))
    store.path(ids[4]).unlink()
    summaries = store.summaries()
    assert sorted(reads) == sorted([new, ids[2]])
    assert summaries == plain(store)
    assert {summary.prompt for summary in summaries} == {"number 0", "number 1", "number 9", "number 3", "number 5", "one more"}


def test_replaced_log_of_equal_size_and_time_is_reread(tmp_path: Path, reads: list[str]) -> None:
    store = Store(tmp_path)
    ids = [ended_log_of(store, f"number {number}") for number in range(4)]
    store.summaries()
    path = store.path(ids[0])
    at = path.stat()
    other = tmp_path / "other.tmp"
    other.write_bytes(path.read_bytes().replace(b"number 0", b"number 7"))
    os.utime(other, ns=(at.st_atime_ns, at.st_mtime_ns))
    other.replace(path)
    assert store.summaries() == plain(store)


def test_log_without_an_end_is_read_each_time(tmp_path: Path, reads: list[str]) -> None:
    store = Store(tmp_path)
    for number in range(4):
        ended_log_of(store, f"number {number}")
    log_of(store, "20990101-000000-00000000000")
    for _ in range(3):
        assert [summary.status for summary in store.summaries()] == ["interrupted", *["completed"] * 4]
    assert reads.count("20990101-000000-00000000000") == 3


def test_broken_summary_file_falls_back_to_the_logs(tmp_path: Path, reads: list[str], subtests: pytest.Subtests) -> None:
    store = Store(tmp_path)
    for number in range(4):
        ended_log_of(store, f"number {number}")
    expected = store.summaries()
    file = tmp_path / HOME / "summaries.json"
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    layout = f'"made_by":"{known_summaries.LAYOUT} '.encode()
    assert layout in whole
    damages = {
        "cut off": whole[: len(whole) // 2],
        "empty": b"",
        "something else": b'{"summaries": []}',
        "no text": b"\xff\xfe",
        "nested too deep": b"[" * 5000,
        "another version": whole.replace(layout, b'"made_by":"0 '),
        "another folder": whole.replace(b'"made_of":"', b'"made_of":"/elsewhere'),
        "a changed byte": whole.replace(b"number", b"Number", 1),
        "without its last line": b"".join(lines[:-1]),
        "without a line": b"".join([*lines[:3], *lines[4:]]),
        "of an earlier layout": b'{"made_by":"3 0","made_of":"x","summaries":{}}',
        "lies of another version": whole.replace(layout, b'"made_by":"0 ').replace(b"number", b"NUMBER"),
    }
    for name, data in damages.items():
        with subtests.test(name):
            file.write_bytes(data)
            reads.clear()
            assert store.summaries() == expected
            assert len(reads) == 4
            assert file.read_bytes() != data


DYING = """
import os, sys
from pathlib import Path
from agentnb import Store
from agentnb.store import known_summaries
known_summaries.MANY = 3
if sys.argv[2] == "dies":  # with the new file whole, and the old one in its place
    Path.replace = lambda *_: os._exit(7)
print(len(Store(sys.argv[1]).summaries()))
"""


def process_that(does: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", DYING, str(folder), does], stdout=subprocess.PIPE, text=True)


def test_crash_while_writing_keeps_the_earlier_summaries(tmp_path: Path, reads: list[str]) -> None:
    store = Store(tmp_path)
    old = {ended_log_of(store, f"number {number}") for number in range(4)}
    store.summaries()
    new = {ended_log_of(store, f"number {number}") for number in range(4)}
    process = process_that("dies", tmp_path)
    process.communicate()
    assert process.returncode == 7
    (torn,) = (tmp_path / HOME).glob(".summaries.json.*")
    reads.clear()
    assert {summary.id for summary in store.summaries()} == old | new and {*reads} == new and torn.exists()
    os.utime(torn, (0, 0))
    ended_log_of(store, "more"), ended_log_of(store, "and more"), ended_log_of(store, "and more")
    store.summaries()
    assert not torn.exists()


def test_concurrent_processes_keep_all_summaries(tmp_path: Path, reads: list[str]) -> None:
    store = Store(tmp_path)
    for number in range(6):
        ended_log_of(store, f"number {number}")
    both = process_that("lists", tmp_path), process_that("lists", tmp_path)
    assert [process.communicate()[0] for process in both] == ["6\n", "6\n"]
    assert store.summaries() == plain(store)
    assert len(reads) == 6  # those of `plain`


def test_few_summaries_and_unwritable_folders_are_not_cached(tmp_path: Path, reads: list[str]) -> None:
    store = Store(tmp_path)
    ended_log_of(store, "one")
    store.summaries()
    assert not (tmp_path / HOME).exists()
    (tmp_path / HOME).write_text("a file of somebody else")
    for number in range(4):
        ended_log_of(store, f"number {number}")
    assert store.summaries() == store.summaries() == plain(store)


def test_listing_only_the_newest_reads_only_their_logs(tmp_path: Path, reads: list[str]) -> None:
    store = Store(tmp_path)
    ids = [ended_log_of(store, f"number {number}") for number in range(6)]
    assert [summary.id for summary in store.summaries(2)] == sorted(ids)[:-3:-1]
    assert len(reads) == 2
