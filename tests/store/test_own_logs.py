"""Logs written by this user's agentnb are recognized by their marks, and no others."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from marked_logs import marked
from msgspec.structs import replace
from own_folder import use_own_folder
from scripted_runs import agent_of

from agentnb import Agent, Run, Store, ToolCall, load_trace, recover
from agentnb.core.log.events import ModelReplied, Warned
from agentnb.core.log.wire import decode, encode
from agentnb.errors import SettingsError
from agentnb.interchange.files import load_traces
from agentnb.models import ScriptedModel
from agentnb.runtime.budget import Budget
from agentnb.runtime.host.run_options import RunOptions
from agentnb.store import own_logs
from agentnb.store.own_logs import SECRET_BYTES, SECRET_FILE, is_own_log

Lines = list[bytes]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own folder of the user that is empty, as on the first day."""
    return use_own_folder(monkeypatch, tmp_path / "home")


async def look(path: str) -> str:
    """Looks."""
    return f"saw {path}"


agent = partial(agent_of, tools=[look], todos=False)


def run_in(folder: Path) -> tuple[Path, Run]:
    run = agent(ToolCall("look", {"path": "a"}), "Seen.").run_sync("Look.", store=Store(folder))
    return Store(folder).path(run.id), run


def warned(seq: int) -> Warned:
    return Warned(seq=seq, at=datetime.now(UTC), run_id="r", message="mind")


def test_own_log_is_recognized_complete_or_truncated_anywhere(tmp_path: Path, subtests: pytest.Subtests) -> None:
    path, run = run_in(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == len(run.events) and [decode(line) for line in lines] == [*run.events]
    for count in range(1, len(lines) + 1):
        with subtests.test(lines=count):
            path.write_bytes(b"".join(lines[:count]))
            assert is_own_log(path) and load_trace(path).gives_consent
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:40])  # the process died while it wrote
    assert is_own_log(path) and load_trace(path).gives_consent


EDITS: dict[str, Callable[[Lines], Lines]] = {
    "a byte of a line": lambda lines: [lines[0].replace(b"Look.", b"Rook."), *lines[1:]],
    "another model": lambda lines: [lines[0].replace(b'"model":"', b'"model":"evil:', 1), *lines[1:]],
    "a mode": lambda lines: [lines[0].replace(b'"settings":{', b'"settings":{"approve":"auto",', 1), *lines[1:]],
    "a line left out": lambda lines: [*lines[:2], *lines[3:]],
    "two lines swapped": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "a line without a mark at the end": lambda lines: [*lines, encode(warned(len(lines)))],
    "the last mark of another line": lambda lines: [*lines[:-1], _body(lines[-1]) + _mark(lines[-2])],
    "no mark on the last line": lambda lines: [*lines[:-1], _body(lines[-1]) + b"}\n"],
    "no marks": lambda lines: [_body(line) + b"}\n" for line in lines],
    "a mark of zeros": lambda lines: [*lines[:-1], _body(lines[-1]) + b',"_mark":"' + b"A" * 16 + b'"}\n'],
}
"""Possible edits of a log by another user."""


def _body(line: bytes) -> bytes:
    return line[: line.rindex(b',"_mark"')]


def _mark(line: bytes) -> bytes:
    return line[line.rindex(b',"_mark"') :]


def test_edited_log_is_not_recognized_as_own(tmp_path: Path, subtests: pytest.Subtests) -> None:
    path, _ = run_in(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    for name, edit in EDITS.items():
        with subtests.test(name):
            edited = edit(lines)
            assert edited != lines
            path.write_bytes(b"".join(edited))
            assert not is_own_log(path)


def test_marks_of_another_user_are_not_accepted(home: Path, tmp_path: Path) -> None:
    path, _ = run_in(tmp_path / "theirs")
    assert is_own_log(path)
    (home / SECRET_FILE).write_bytes(b"x" * SECRET_BYTES)
    own_logs._secret.cache_clear()
    assert not is_own_log(path) and not load_trace(path).gives_consent


def test_own_runs_and_own_logs_give_consent(tmp_path: Path) -> None:
    path, run = run_in(tmp_path)
    assert run.gives_consent and Store(tmp_path).load(run.id).gives_consent
    assert all(one.gives_consent for one in load_traces(tmp_path))
    assert not Run.from_events(run.events).gives_consent
    loaded = load_trace(path)
    path.write_bytes(marked([replace(run.events[0], model="other"), *run.events[1:]]))  # also own, but not the loaded one
    assert not loaded.gives_consent


def test_refused_run_gives_consent_after_its_resumption_is_logged(tmp_path: Path) -> None:
    _, run = run_in(tmp_path)
    theirs = Run.from_events(run.events[:-1])
    nothing_left = RunOptions(trust_log=False, budget=Budget(1.0, name="session_budget", spent=1.0))
    with pytest.raises(SettingsError, match="is used up"):
        agent("Seen.").resume(theirs, options=nothing_left).result(10)
    assert not theirs.gives_consent
    agent("Seen.").resume(theirs, options=RunOptions(trust_log=False)).result(10)
    assert theirs.gives_consent


def test_nested_and_recovered_logs_are_recognized_as_own(tmp_path: Path) -> None:
    async def outer() -> str:
        """Starts a run."""
        return (await agent("Inner.").run("Go.")).text

    store = Store(tmp_path)
    whole = Agent(ScriptedModel([ToolCall("outer"), "Done."]), tools=[outer]).run_sync("Go.", store=store)
    for run_id in store.ids():
        assert is_own_log(store.path(run_id))
    path = store.path(whole.id)
    lines = path.read_bytes().splitlines(keepends=True)
    replied = [type(event) for event in whole.events].index(ModelReplied)
    path.write_bytes(b"".join(lines[:replied]) + b'{"kind":"model_rep')
    for cut in (replied + 2, None):  # the second process dies too
        asyncio.run(recover(whole.id, store=store, agent=agent("Done.")))
        assert is_own_log(path) and store.load(whole.id).times_recovered
        lines = path.read_bytes().splitlines(keepends=True)
        if cut is not None:
            path.write_bytes(b"".join(lines[:cut]))


def test_processes_starting_at_once_share_one_secret(home: Path, tmp_path: Path) -> None:
    secrets: list[bytes | None] = []
    ready = threading.Barrier(8)

    def begin() -> None:
        ready.wait()
        secrets.append(own_logs._secret.__wrapped__())

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(secrets)) == 1 and len(secrets[0] or b"") == SECRET_BYTES
    assert [path.name for path in home.iterdir()] == [SECRET_FILE]
    if sys.platform != "win32":
        assert stat.S_IMODE((home / SECRET_FILE).stat().st_mode) == 0o600
        (home / SECRET_FILE).chmod(0o644)
        assert own_logs._secret.__wrapped__() == secrets[0]
        assert stat.S_IMODE((home / SECRET_FILE).stat().st_mode) == 0o600


def test_runs_without_a_usable_secret_warn_once_and_work(home: Path, tmp_path: Path, subtests: pytest.Subtests) -> None:
    home.parent.mkdir(exist_ok=True)
    for name, prepare in {
        "a file in its place": lambda: home.write_text("x"),
        "a damaged secret": lambda: (home.unlink(), home.mkdir(), (home / SECRET_FILE).write_bytes(b"short")),
    }.items():
        with subtests.test(name):
            prepare()
            own_logs._secret.cache_clear()
            with pytest.warns(UserWarning, match="cannot mark your run logs as yours") as said:
                path, run = run_in(tmp_path / name)
                run_in(tmp_path / name)
            assert len(said) == 1 and run.status == "completed"
            assert b"_mark" not in path.read_bytes() and not is_own_log(path)
            assert load_trace(path) == run


WRITES = """
import sys
from agentnb.core.log.events import Warned
from agentnb.store.run_file import RunFile
file = RunFile(sys.argv[1])
file.append(Warned(seq=0, at=None, run_id="r", message="mind"))
file.close()
"""


def test_own_log_from_another_process_is_recognized(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    subprocess.run([sys.executable, "-c", WRITES, str(path)], check=True, timeout=60)
    marks = own_logs.log_marks()
    assert marks is not None and marks.read(path.read_bytes().splitlines(keepends=True))


def test_unknown_event_kind_keeps_its_fields_without_the_mark() -> None:
    line = b'{"kind":"later","seq":1,"at":null,"run_id":"r","colour":"red"}\n'
    marks = own_logs.log_marks()
    assert marks is not None
    written, _ = marks.add_mark(line)
    assert encode(decode(written)) == line
