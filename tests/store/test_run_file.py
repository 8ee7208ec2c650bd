"""The log of one run on disk, and disks that fail."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from marked_logs import marked
from msgspec.structs import replace
from scripted_runs import add

from agentnb import Agent, Run, Store, ToolCall, load_trace
from agentnb.core.log.events import SCHEMA, AnyEvent, RoundFinished, RunFinished, RunRecovered, RunStarted, Warned
from agentnb.core.log.wire import decode_lines, encode
from agentnb.core.messages import user
from agentnb.errors import StoreError
from agentnb.models import ScriptedModel
from agentnb.store import run_file
from agentnb.store.run_file import RunFile

FULL = Path("/dev/full")


def event(seq: int, text: str = "mind") -> Warned:
    return Warned(seq=seq, at=datetime.now(UTC), run_id="r", message=text)


def test_event_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    file, written = RunFile(tmp_path / "r.jsonl"), []
    for seq in range(3):
        written.append(event(seq))
        file.append(written[-1])
        assert file.path.read_bytes() == marked(written)
    file.close()


def test_log_stays_readable_with_two_recoveries_and_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network drive: the second writer is refused before it writes."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    if run_file.fcntl is not None:
        monkeypatch.setattr(run_file.fcntl, "flock", refuse)
    model = ScriptedModel([ToolCall("add", {"a": 1, "b": 2}), "3"])
    whole = Agent(model, tools=[add]).run_sync("Add", store=Store(tmp_path))
    path = tmp_path / f"{whole.id}.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for order in ("first", "second"):
        path.write_bytes(b"".join(lines[:4]))
        (first, events), (second, _) = RunFile.reopen(path), RunFile.reopen(path)
        early, late = (first, second) if order == "first" else (second, first)
        recovered = RunRecovered(seq=len(events), at=datetime.now(UTC), run_id=whole.id, schema=SCHEMA)
        early.append(recovered)
        with pytest.raises(OSError, match="something else has changed it"):
            late.append(recovered)
        early.append(replace(event(len(events) + 1), run_id=whole.id))
        first.close()
        second.close()
        assert len(load_trace(path).events) == len(events) + 2


@pytest.mark.skipif(os.name == "nt", reason="Windows has no file modes")
def test_log_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        RunFile(tmp_path / "r.jsonl").close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "r.jsonl").stat().st_mode) == 0o600


def test_existing_log_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        RunFile(path)
    assert path.read_text() == "precious"


def test_closing_a_log_twice_is_reported_once(tmp_path: Path) -> None:
    closed: list[int] = []
    file = RunFile(tmp_path / "r.jsonl", on_close=lambda: closed.append(1))
    file.close()
    file.close()
    assert closed == [1]


def test_partial_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    file, one = RunFile(tmp_path / "r.jsonl"), event(0, "wörds " * 10)
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data)[:7]))
    file.append(one)
    monkeypatch.undo()
    file.close()
    assert file.path.read_bytes() == marked([one])


def test_write_that_fails_halfway_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, pieces = os.write, []

    def half(descriptor: int, data: bytes) -> int:
        pieces.append(data)
        if len(pieces) > 1:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data)[:10])

    file, first, second = RunFile(tmp_path / "r.jsonl"), event(0), event(1)
    file.append(first)
    monkeypatch.setattr(os, "write", half)
    with pytest.raises(OSError, match="No space left"):
        file.append(second)
    monkeypatch.undo()
    assert file.path.read_bytes() == marked([first])
    file.append(second)
    file.close()
    assert file.path.read_bytes() == marked([first, second])


def test_disk_is_synced_after_each_round_only_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forced: list[int] = []
    monkeypatch.setattr(run_file, "_sync", forced.append)
    now = datetime.now(UTC)
    events: list[AnyEvent] = [
        event(0),
        RoundFinished(seq=1, at=now, run_id="r", index=0, status="success"),
        RunFinished(seq=2, at=now, run_id="r", status="completed", stop_reason="natural"),
    ]
    for sync_rounds, times in ((False, 0), (True, 2)):
        file = RunFile(tmp_path / f"{sync_rounds}.jsonl", sync_rounds=sync_rounds)
        for one in events:
            file.append(one)
        file.close()
        assert len(forced) == times


class FullDisk:
    """A store on a disk that is full from event ``after`` on: the kernel itself refuses."""

    def __init__(self, path: Path, after: int) -> None:
        self.path = path
        self.after = after

    async def open(self, run_id: str, *, nested: bool = False) -> FullDisk:
        self.file = RunFile(self.path)
        return self

    def append(self, one: AnyEvent) -> None:
        if one.seq == self.after:
            full = os.open(FULL, os.O_WRONLY)
            os.dup2(full, self.file._descriptor)
            os.close(full)
        self.file.append(one)

    def close(self) -> None:
        self.file.close()


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full, the disk that is always full")
@pytest.mark.parametrize("after", [0, 2, 4])
def test_full_disk_stops_the_run_after_the_last_event(tmp_path: Path, after: int) -> None:
    told: list[int] = []
    agent = Agent(ScriptedModel([ToolCall("add", {"a": 1, "b": 2}), "Three."]), tools=[add])
    store = FullDisk(tmp_path / "r.jsonl", after)
    with pytest.raises(StoreError, match="No space left on device") as caught:
        asyncio.run(agent.run("Go", store=store, watch=lambda item: told.append(getattr(item, "seq", -1))))
    run = caught.value.run
    assert run is not None and run.status == "failed" and told == list(range(len(run.events)))
    assert store.path.read_bytes() == marked(run.events[:after])


LIMITED = """
import asyncio, resource, sys
from pathlib import Path
from agentnb import Agent, Store, ToolCall
from agentnb.errors import StoreError
from agentnb.models import ScriptedModel
from agentnb.store.own_logs import is_own_log

def add(a: int, b: int) -> int:
    "Adds."
    return a + b

calls = [ToolCall("add", {"a": n, "b": 2}) for n in range(30)]
for limit in sys.argv[2:]:
    store = Store(Path(sys.argv[1]) / limit)
    agent = Agent(ScriptedModel([*calls, "Done."]), tools=[add], guidance="off", todos=False)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
    try:
        asyncio.run(agent.run("Go", store=store))
    except StoreError as error:
        path = store.path(error.run.id)
        data = path.read_bytes()
        kept = data.count(b"\\n")
        assert data.endswith(b"\\n") and is_own_log(path, error.run.events[:kept]), data[-100:]
        assert kept < len(error.run.events)
        print("stopped", error.run.status)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of file sizes")
def test_disk_with_room_for_half_an_event_keeps_complete_events(subtests: pytest.Subtests, tmp_path: Path) -> None:
    limits = [3000, 3011, 3050, 3107, 3200]
    command = [sys.executable, "-c", LIMITED, str(tmp_path), *map(str, limits)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "stopped failed\n" * len(limits), done.stderr
    for limit in limits:
        with subtests.test(limit=limit):
            (path,) = (tmp_path / str(limit)).glob("*.jsonl")
            run = load_trace(path)
            assert path.stat().st_size <= limit and run.status == "interrupted" and len(run.events) > 3
            assert Run.from_events(run.events).events == run.events


def test_closed_log_never_writes_to_a_reused_descriptor(tmp_path: Path) -> None:
    file = RunFile(tmp_path / "a.jsonl")
    file.close()
    with (tmp_path / "other.txt").open("w+b") as other:
        with pytest.raises(OSError, match="was closed"):
            file.append(event(0))
        other.flush()
    assert (tmp_path / "other.txt").read_bytes() == b""


@pytest.mark.parametrize("torn", [b"", b'{"kind":"warn', encode(event(1))[:-1]], ids=["whole", "half an event", "no line end"])
def test_log_is_continued_after_its_last_complete_event(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    first = RunStarted(seq=0, at=datetime.now(UTC), run_id="r", schema=SCHEMA, prompt=user("x"), model="m")
    path.write_bytes(encode(first) + torn)
    file, events = RunFile.reopen(path)
    file.append(event(len(events), "again"))
    file.close()
    with path.open("rb") as lines:
        assert decode_lines(lines, "r")[:-1] == events
    assert len(events) == (2 if torn.endswith(b"}") else 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_process_of_a_tool_does_not_hold_the_log(tmp_path: Path) -> None:
    """The writer dies while its child lives: the log has no writer any more."""
    code = """
import os, signal, sys
from pathlib import Path
from agentnb.store.run_file import RunFile
file = RunFile(Path(sys.argv[1]))
heard, there = os.pipe()
child = os.fork()
if child == 0:
    os.write(there, b"!")
    signal.pause()
    os._exit(0)
print(child, flush=True)
os.read(heard, 1)  # the child has begun its own life
os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "r.jsonl"
    with (tmp_path / "out").open("w") as out:
        done = subprocess.run([sys.executable, "-c", code, str(path)], stdout=out, check=False)
    assert done.returncode != 0
    try:
        with path.open("rb") as log:
            assert not run_file.is_being_written(log)
    finally:
        os.kill(int((tmp_path / "out").read_text()), 9)
