"""Sessions of docker-agent: documents, and databases in every state."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from session_files import FILES

from agentnb import Run, load_trace, load_traces
from agentnb.errors import TraceError
from agentnb.interchange.formats import UnknownFormat

SAMPLE = FILES / "docker_agent" / "41b179a2.json"
SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, title TEXT, cost REAL, parent_id TEXT, created_at TEXT);
CREATE TABLE session_items (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, position INTEGER, item_type TEXT,
    agent_name TEXT, message_json TEXT, implicit BOOLEAN, subsession_id TEXT, summary_text TEXT);
"""


def reply(text: str, *calls: str, **more: Any) -> dict[str, Any]:
    made = [{"id": f"t-{name}", "type": "function", "function": {"name": name, "arguments": '{"x": 1}'}} for name in calls]
    return {"role": "assistant", "content": text, "tool_calls": made} | more


def replies(run: Run) -> list[tuple[str, list[str]]]:
    return [(round_.text, [call.name for call in round_.calls]) for round_ in run.rounds]


def fill(opened: sqlite3.Connection) -> None:
    """Write a session with a sub-session and a summary, in WAL mode."""
    opened.executescript(f"PRAGMA journal_mode = WAL; {SCHEMA}")
    for session, parent in (("main", None), ("inner", "main")):
        opened.execute("INSERT INTO sessions VALUES (?, 'Title', 0.5, ?, '2026-01-01T00:00:00Z')", (session, parent))
    message = (
        "INSERT INTO session_items (session_id, position, item_type, agent_name, message_json) VALUES (?, ?, 'message', ?, ?)"
    )
    usage = {"input_tokens": 10, "cached_input_tokens": 90, "output_tokens": 5}
    for row in (
        ("main", 0, "", {"role": "user", "content": "Go"}),
        ("main", 1, "root", reply("", "transfer_task", usage=usage, model="gpt-5", cost=0.25)),
        ("main", 3, "", {"role": "tool", "content": "3", "tool_call_id": "t-transfer_task"}),
        ("main", 5, "root", reply("Done.")),
        ("inner", 0, "", {"role": "user", "content": "Count"}),
        ("inner", 1, "counter", reply("3")),
    ):
        opened.execute(message, (*row[:3], json.dumps(row[3])))
    insert = (
        "INSERT INTO session_items (session_id, position, item_type, subsession_id, summary_text) VALUES ('main', ?, ?, ?, ?)"
    )
    opened.execute(insert, (2, "subsession", "inner", None))
    opened.execute(insert, (4, "summary", None, "So far: 3."))
    opened.commit()


def database(path: Path) -> Path:
    with closing(sqlite3.connect(path)) as opened:
        fill(opened)
    return path


def is_as_filled(runs: list[Run]) -> bool:
    main, inner = runs
    assert replies(main) == [("", ["transfer_task"]), ("Done.", [])] and replies(inner) == [("3", [])]
    assert (main.id, inner.id, inner.parent_id, inner.agent) == ("main", "inner", "main", "counter")
    used = main.rounds[0].usage
    assert (used.input, used.cache_read, used.cost, main.model) == (100, 90, 0.25, "gpt-5")
    assert main.rounds[0].records[0].call.arguments == {"x": 1} and main.rounds[0].results[0].text == "3"
    assert [compaction.compacted and compaction.compacted.text for compaction in main.rounds[1].compactions] == ["So far: 3."]
    return True


def test_doubly_nested_messages_and_calls_without_text_are_read() -> None:
    recorded = [message["message"]["message"] for message in json.loads(SAMPLE.read_text())["messages"]]
    run = load_trace(SAMPLE)
    made = [one for one in recorded if one["role"] == "assistant"]
    assert replies(run) == [(one["content"], ["list_directory"] if "tool_calls" in one else []) for one in made]
    assert run.rounds[0].records[0].call.arguments == {"path": "./"}
    assert (run.id, run.status, run.agent) == ("41b179a2-ed19-4ae2-a45d-95775aaa90f7", "unknown", "root")
    assert run.settings["recorded"]["input_tokens"] == 918


def test_wal_database_is_read_without_leaving_files(tmp_path: Path) -> None:
    path = database(tmp_path / "session.db")
    assert is_as_filled(load_traces(path)) and list(tmp_path.iterdir()) == [path]


def test_rows_in_the_wal_file_are_read_without_modifying_it(tmp_path: Path) -> None:
    path = tmp_path / "session.db"
    with closing(sqlite3.connect(path)) as opened:
        fill(opened)
        before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
        assert len(before["session.db-wal"]) > 0 and b"Done." not in before["session.db"]
        assert is_as_filled(load_traces(path))
        assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_database_in_an_archive_is_read(tmp_path: Path) -> None:
    path = database(tmp_path / "session.db")
    with zipfile.ZipFile(tmp_path / "sessions.zip", "w") as packed:
        packed.write(path, "sessions/session.db")
    assert is_as_filled(load_traces(tmp_path / "sessions.zip"))


def test_older_schema_with_messages_in_the_session_table_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY, messages TEXT, created_at TEXT)")
        document = json.loads(SAMPLE.read_text())
        opened.execute("INSERT INTO sessions VALUES ('old', ?, '2025')", (json.dumps(document["messages"]),))
        opened.commit()
    assert replies(load_trace(path)) == replies(load_trace(SAMPLE))


def test_database_of_another_product_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE cookies (name TEXT)")
    with pytest.raises(UnknownFormat, match="docker_agent: it has no table of sessions"):
        load_traces(path)
    path.write_bytes(database(tmp_path / "whole.db").read_bytes()[:3000] + b"\xff" * 2000)
    with pytest.raises(TraceError, match="cannot be read"):
        load_traces(path)


def test_damaged_messages_and_self_nested_sessions_are_problems(tmp_path: Path) -> None:
    path = database(tmp_path / "session.db")
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("UPDATE session_items SET message_json = '7' WHERE session_id = 'inner' AND position = 1")
        opened.execute("INSERT INTO sessions VALUES ('loop', '', 0, NULL, '2027')")
        opened.execute("INSERT INTO session_items (session_id, position, subsession_id) VALUES ('loop', 0, 'lost')")
        opened.commit()
    runs = load_traces(path, strict=False)
    assert [replies(run) for run in runs] == [[("", ["transfer_task"]), ("Done.", [])], []]
    assert "there is no session lost" in str(runs.problems)
    document = json.loads(SAMPLE.read_text())
    document["messages"][1]["message"]["message"] = 7
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(document))
    runs = load_traces(broken, strict=False)
    assert len(runs) == 1 and runs.problems[0].position == "message 1"


def test_session_without_messages_is_omitted_and_noted(tmp_path: Path) -> None:
    path = database(tmp_path / "session.db")
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("INSERT INTO sessions VALUES ('empty', '', 0, NULL, '2027')")
        opened.commit()
    with pytest.warns(UserWarning, match="session empty: It contains no messages"):
        assert is_as_filled([*load_traces(path)])


def test_orphaned_sessions_are_read_or_noted(tmp_path: Path, subtests: pytest.Subtests) -> None:
    messages = json.dumps(json.loads(SAMPLE.read_text())["messages"])
    cases: dict[str, tuple[list[tuple[str | None, str | None]], int, str]] = {
        "beside a session without an id": ([(None, None), ("a", None)], 1, "there is no session None"),
        "only a session without an id": ([(None, None)], 0, "there is no session None"),
        "within each other": ([("a", "b"), ("b", "a")], 0, "all contain each other"),
    }
    for name, (rows, count, problem) in cases.items():
        with subtests.test(name):
            path = tmp_path / f"{name}.db"
            with closing(sqlite3.connect(path)) as opened:
                opened.execute("CREATE TABLE sessions (id TEXT, parent_id TEXT, messages TEXT, created_at TEXT)")
                opened.executemany("INSERT INTO sessions VALUES (?, ?, ?, '2025')", [(*row, messages) for row in rows])
                opened.commit()
            runs = load_traces(path, strict=False)
            assert len([run for run in runs if run.parent_id is None]) == count and problem in str(runs.problems)
