"""Slow and large files: the cost of reading is bounded, and the error names the bound."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import sys
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agentnb import load_trace, load_traces, save_trace
from agentnb.errors import TraceError
from agentnb.interchange import archives, sqlite_files, trace_file, yaml_text
from agentnb.interchange.formats.message_content import time_of
from agentnb.store import bounds
from agentnb.store.bounds import BoundExceeded

ASKED = {"role": "user", "content": "Go"}


def chat(path: Path, *messages: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"messages": [ASKED, *messages]}))
    return path


def call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "look", "arguments": "{}"}}


def message_with_calls(*names: str) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [call(name) for name in names]}


def result(name: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": name, "content": "x"}


def lines_run(act: Callable[[], object]) -> int:
    """Count the lines of Python that this executes."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return count


SHAPES: dict[str, Callable[[int], list[dict[str, Any]]]] = {
    "equal ids in many rounds": lambda n: [each for _ in range(n) for each in (message_with_calls("same"), result("same"))],
    "equal ids in one message": lambda n: [message_with_calls(*["same"] * n), *[result("same")] * n],
    "many calls in one message": lambda n: [message_with_calls(*map(str, range(n))), *[result(str(name)) for name in range(n)]],
    "answered in reverse": lambda n: [
        message_with_calls(*map(str, range(n))),
        *[result(str(name)) for name in reversed(range(n))],
    ],
    "answered long after": lambda n: [
        *[message_with_calls(str(name)) for name in range(n)],
        *[result(str(name)) for name in range(n)],
    ],
    "results without calls": lambda n: [message_with_calls(), *[result(str(name)) for name in range(n)]],
}


def test_reading_time_is_proportional_to_the_calls(tmp_path: Path, subtests: pytest.Subtests) -> None:
    load_trace(chat(tmp_path / "first.json", message_with_calls("a"), result("a")))
    for name, messages in SHAPES.items():
        with subtests.test(name):
            few, many = (chat(tmp_path / f"{count}.json", *messages(count)) for count in (40, 160))
            assert lines_run(lambda path=many: load_trace(path)) < 4.5 * lines_run(lambda path=few: load_trace(path))


def test_archive_is_opened_once_for_all_its_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class Counted(archives.Archive):
        def __init__(self, file: Any, name: str, expansion: Any) -> None:
            opened.append(name)
            super().__init__(file, name, expansion)

    monkeypatch.setattr(archives, "Archive", Counted)
    counts = []
    for count in (2, 20):
        path = tmp_path / f"{count}.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for number in range(count):
                archive.writestr(f"{number}.json", json.dumps({"messages": [ASKED, {"role": "assistant", "content": "x"}]}))
        opened.clear()
        assert len(load_traces(path)) == count
        counts.append(len(opened))
    assert counts[0] == counts[1] < 5


def zipped(data: bytes, name: str) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return whole.getvalue()


def test_deeply_nested_archives_are_not_unpacked(tmp_path: Path) -> None:
    data = json.dumps({"messages": [ASKED, {"role": "assistant", "content": "Here."}]}).encode()
    for depth, name in ((archives.MAX_DEPTH, "read"), (30, "refused")):
        packed = zipped(data, "x.json")
        for _ in range(depth - 1):
            packed = zipped(packed, "x.zip")
        (tmp_path / f"{name}.zip").write_bytes(packed)
    assert [run.text for run in load_traces(tmp_path / "read.zip")] == ["Here."]
    runs = load_traces(tmp_path / "refused.zip", strict=False)
    assert not runs and "is nested in 3 other archives; the limit is 3" in str(runs.problems)


def test_contents_and_expansion_of_a_file_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    log = save_trace(
        load_trace(chat(tmp_path / "chat.json", *[{"role": "assistant", "content": "x"}] * 40)), tmp_path / "log.jsonl"
    )
    values = json.dumps({"messages": [ASKED, {"role": "assistant", "content": "x", "more": [[]] * 3_000}]}).encode()
    lines = b'{"messages": [{"role": "user", "content": "Go"}]}\n' * 300
    with zipfile.ZipFile(tmp_path / "directory.zip", "w") as archive:
        for number in range(60):
            archive.writestr(f"{number}.json", b"{}")
    files = {
        "values": (values, bounds, {"MAX_HELD_VALUES": 1_000}, "contains more than 1,000 JSON values"),
        "packed values": (gzip.compress(values), bounds, {"MAX_HELD_VALUES": 1_000}, "contains more than 1,000 JSON values"),
        "records": (lines, bounds, {"MAX_RECORDS": 100}, "has more than 100 records"),
        "log": (log.read_bytes(), bounds, {"MAX_RUN_EVENTS": 50}, "has a run with more than 50 events"),
        "rounds": ((tmp_path / "chat.json").read_bytes(), bounds, {"MAX_RUN_EVENTS": 50}, "has a run with more than 50 events"),
        "replies in a row": (
            (tmp_path / "chat.json").read_bytes(),
            bounds,
            {"MAX_MESSAGES_IN_A_ROW": 30},
            "has more than 30 consecutive messages from one side",
        ),
        "user messages in a row": (
            json.dumps({"messages": [*[ASKED] * 40, {"role": "assistant", "content": "x"}]}).encode(),
            bounds,
            {"MAX_MESSAGES_IN_A_ROW": 30},
            "has more than 30 consecutive messages from one side",
        ),
        "bytes": (values, trace_file, {"MAX_HELD_BYTES": 1_000}, "is larger than 0 MB"),
        "directory": (
            (tmp_path / "directory.zip").read_bytes(),
            archives,
            {"MAX_DIRECTORY_BYTES": 1_000},
            "has a directory of",
        ),
        "members": ((tmp_path / "directory.zip").read_bytes(), archives, {"MAX_MEMBERS": 50}, "contains 60 files"),
        "calls": (
            chat(tmp_path / "x.json", message_with_calls(*"abcdef")).read_bytes(),
            bounds,
            {"MAX_ROUND_CALLS": 5},
            "more than 5 calls",
        ),
        "yaml": (
            b"interactions:\n" + b"- {request: {body: x}}\n" * 40,
            yaml_text,
            {"MAX_YAML_TOKENS": 100},
            "100 YAML tokens",
        ),
    }
    for name, (data, module, changed, told) in files.items():
        path = tmp_path / f"{name}.data"
        path.write_bytes(data)
        with subtests.test(name), monkeypatch.context() as patch:
            patch.setattr(bounds, "UNCOUNTED_BYTES", 500)
            for constant, value in changed.items():
                patch.setattr(module, constant, value)
            with pytest.raises(BoundExceeded, match=told) as error:
                load_traces(path)
            assert error.value.hint and str(path) in str(error.value)


def test_only_the_first_of_many_problems_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_file, "MAX_PROBLEMS", 3)
    path = tmp_path / "chat.jsonl"
    path.write_text(json.dumps({"messages": [ASKED, {"role": "assistant", "content": "x"}]}) + "\n" + "{broken\n" * 20)
    runs = load_traces(path, strict=False)
    assert len(runs) == 1 and [problem.position for problem in runs.problems] == ["line 2", "line 3", "line 4", ""]
    assert runs.problems[-1].message == "Further parts were left out"


def test_number_out_of_range_for_a_time_is_dropped() -> None:
    for value in (float("inf"), float("-inf"), float("nan"), 1e300, 10**400, -(10**400), True, None, "9" * 400, [], {}):
        assert time_of(value) is None
    seconds = 1_767_225_600
    for times in (1, 1_000, 1_000_000, 1_000_000_000):
        found = time_of(seconds * times)
        assert found is not None and found.isoformat() == "2026-01-01T00:00:00+00:00"


def test_trace_with_impossible_numbers_is_read(tmp_path: Path) -> None:
    message = '{"role": "assistant", "content": "x", "created_at": NUMBER, "timestamp": NUMBER}'
    for number in ("1e999", "-1e999", "9" * 400):
        path = tmp_path / "chat.json"
        path.write_text(
            '{"created": NUMBER, "messages": [{"role": "user", "content": "Go"}, MESSAGE]}'.replace("MESSAGE", message).replace(
                "NUMBER", number
            )
        )
        assert load_traces(path, strict=False)[0].text == "x"


def database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as opened:
        for statement in statements:
            opened.execute(statement)
        opened.commit()
    return path


NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ROWS = f"{NUMBERS} SELECT 'x' AS id, '2026' AS created_at, '[]' AS messages FROM n"


def test_endless_database_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TraceError, match="has views instead of tables"):
        load_traces(database(tmp_path / "view.db", f"CREATE VIEW sessions AS {ROWS}"))
    table = "CREATE TABLE sessions (id TEXT, created_at TEXT, messages TEXT)"
    large = database(tmp_path / "table.db", table, f"INSERT INTO sessions {ROWS} LIMIT 500")
    monkeypatch.setattr(sqlite_files, "MAX_STEPS", 1_000)
    monkeypatch.setattr(sqlite_files, "STEPS_BETWEEN_CHECKS", 100)
    with pytest.raises(BoundExceeded, match="takes more than 1,000 SQLite steps"):
        load_traces(large)


def test_trace_without_a_reply_gets_a_warning(tmp_path: Path) -> None:
    run = load_trace(chat(tmp_path / "chat.json"))
    assert not run.rounds and "The trace has no model reply." in run.warnings[0]
