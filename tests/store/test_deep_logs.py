"""Logs nested too deep to be read are left out and named; the rest of the store stays usable."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from marked_logs import cut_log
from scripted_runs import work

from agentnb import Store, ToolCall, load_trace, load_traces, tables
from agentnb.agent.agent import Agent
from agentnb.core.log.events import SCHEMA, ModelReplied
from agentnb.core.log.wire import decode, encode
from agentnb.errors import TraceError
from agentnb.models import ScriptedModel
from agentnb.notebook.commands.history_command import history_command
from agentnb.session.session import Session

DEEP = 200_000  # more than any version of Python reads


def good_run(store: Store) -> str:
    model = ScriptedModel([ToolCall("work", {"n": 1}), "Done."])
    return Agent(model, tools=[work], guidance="off", todos=False).run_sync("go", store=store).id


def spoil(path: Path, *, kind: str = "model_replied", key: bytes = b'"n":1', cut: bool = False) -> None:
    """Put a value nested too deep into the first event of this kind; with ``cut`` the log ends there."""
    lines = path.read_bytes().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if line.startswith(b'{"kind":"%s"' % kind.encode()))
    assert key in lines[place]
    lines[place] = lines[place].replace(key, key.partition(b":")[0] + b":" + b"[" * DEEP + b"]" * DEEP, 1)
    path.write_bytes(b"".join(lines[: place + 1] if cut else lines))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def deep(store: Store) -> tuple[str, Path]:
    """Return the id of a good run, and the log of another that is nested too deep."""
    good, bad = good_run(store), good_run(store)
    spoil(store.path(bad))
    return good, store.path(bad)


def test_deeply_nested_log_is_refused_by_name(store: Store, deep: tuple[str, Path]) -> None:
    path = deep[1]
    for load in (load_trace, load_traces, lambda path: store.load(path.stem), lambda path: store.reopen(path.stem)):
        with pytest.raises(TraceError, match=rf"{path.name}, line 3 is nested too deep"):
            load(path)


def test_logs_beside_a_deep_one_are_listed_and_loaded(store: Store, deep: tuple[str, Path]) -> None:
    good, path = deep
    assert [summary.id for summary in store.summaries()] == [good]
    for load in (lambda: load_traces(store.folder), lambda: load_traces(store)):
        with pytest.warns(UserWarning, match=f"Left out: .*{path.name}"):
            assert [run.id for run in load()] == [good]
    with pytest.warns(UserWarning, match=f"Left out: .*{path.name}"):
        assert list(tables.runs(store.folder).run_id) == [good]


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("run_started", b'"schema":%d' % SCHEMA),
        ("run_started", b'"settings":{'),
        ("model_replied", b'"n":1'),
        ("tool_started", b'"n":1'),
        ("tool_finished", b'"seconds":0'),
    ],
)
def test_excessive_depth_anywhere_raises_only_agentnb_errors(store: Store, kind: str, key: bytes) -> None:
    good, bad = good_run(store), good_run(store)
    path = store.path(bad)
    spoil(path, kind=kind, key=key)
    assert good in [summary.id for summary in store.summaries()]
    with pytest.raises(TraceError, match=path.name):
        load_trace(path)


def test_deep_last_line_is_not_taken_for_truncated(store: Store) -> None:
    bad = good_run(store)
    spoil(store.path(bad), cut=True)
    before = store.path(bad).read_bytes()
    with pytest.raises(TraceError, match="nested too deep"):
        store.reopen(bad)
    with pytest.raises(TraceError, match="nested too deep"):
        load_trace(store.path(bad))
    assert store.path(bad).read_bytes() == before  # nothing was removed from it


def test_history_and_recovery_skip_deep_logs(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    interrupted, bad = good_run(store), good_run(store)
    cut_log(store.path(interrupted), -2)
    spoil(store.path(bad), cut=True)
    session = Session(store=store)
    history_command(session, None, "")
    assert interrupted in capsys.readouterr().out
    assert session.newest_interrupted() == interrupted


def test_depth_check_does_not_change_decoding(store: Store) -> None:
    path = store.path(good_run(store))
    copy = path.with_name("copy.jsonl")
    shutil.copy(path, copy)
    events = load_trace(copy).events
    assert [decode(encode(event)) for event in events] == list(events)
    assert any(isinstance(event, ModelReplied) for event in events)
