"""MCP server files that the user names: confirmed first and after each change."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from own_folder import use_own_folder

from agentnb.errors import SettingsError
from agentnb.runtime.servers.servers import Servers
from agentnb.session import confirmed_servers
from agentnb.session.confirmed_servers import FILE, load_server_file
from agentnb.tools.mcp.mcp_server import MCPServer

SECRET = "tide-7f3a9b21c4"
CLOCK = {"command": "mcp-server-time", "args": ["--local-timezone", "Europe/Paris"], "env": {"LOG_LEVEL": SECRET}}
HARBOUR = {"url": "http://localhost/", "headers": {"Authorization": "Bearer ${HARBOUR_TOKEN}"}}


class Person:
    """Answers every question with the same line, and records the questions."""

    def __init__(self, line: str = "y") -> None:
        self.line = line
        self.asked: list[str] = []

    def __call__(self, question: str) -> str:
        self.asked.append(question)
        return self.line


@pytest.fixture
def personal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user folder, with nothing confirmed in this process."""
    monkeypatch.setattr(confirmed_servers, "_confirmed_here", set())
    return use_own_folder(monkeypatch, tmp_path / "personal")


def written(name: str = "mcp.json", **servers: Any) -> Path:
    path = Path(name)
    path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    return path


def load(person: Person | None, name: str = "mcp.json") -> list[MCPServer]:
    """Return the servers configured by the file."""
    servers = Servers()
    load_server_file(servers, name, person)
    return [*servers.configuration.servers.values()]


def forget_process() -> None:
    """Go on as another process."""
    confirmed_servers._confirmed_here.clear()


def test_file_is_confirmed_first_and_after_each_change(personal: Path, subtests: pytest.Subtests) -> None:
    for change, fields, asks in (
        ("nothing", {}, False),
        ("what changes no server", {"description": "The time"}, False),
        ("argument", {"args": ["--local-timezone", "Asia/Tokyo"]}, True),
        ("program", {"command": "other"}, True),
        ("value of a variable", {"env": {"LOG_LEVEL": "debug"}}, True),
        ("folder", {"cwd": "/srv"}, True),
        ("roots", {"roots": ["/srv"]}, True),
        ("time-out", {"timeout": 5}, True),
        ("address", {**HARBOUR, "command": None, "args": [], "env": {}}, True),
    ):
        with subtests.test(change):
            for state, asks_now in ({}, True), (fields, asks), ({}, asks):
                person = Person()
                written(clock={**CLOCK, **state})
                load(person)
                assert bool(person.asked) == asks_now
                forget_process()
                load(None)  # a confirmed file needs no user
            (personal / FILE).unlink()
    written(clock=CLOCK, fs={"command": "fs-server"})
    person = Person()
    assert len(load(person)) == 2 and person.asked


def test_changed_header_needs_a_new_confirmation(personal: Path) -> None:
    written(harbour=HARBOUR)
    load(Person())
    written(harbour={**HARBOUR, "headers": {"Authorization": "Bearer ${OTHER_TOKEN}"}})
    with pytest.raises(SettingsError):
        load(None)


def test_confirmation_applies_only_to_that_file(personal: Path) -> None:
    written(clock=CLOCK)
    load(Person())
    written("copy.json", clock=CLOCK)
    with pytest.raises(SettingsError):
        load(None, "copy.json")
    load(None, str(Path("mcp.json").absolute()))


def test_question_shows_commands_but_no_values(personal: Path, snapshot: Snapshot) -> None:
    written(
        clock={**CLOCK, "cwd": "/srv/tides", "env": {"LOG_LEVEL": SECRET, "ZONE": "${MY_ZONE}"}},
        fs={
            "command": "npx",
            "args": ["-y", "a b", "", "${FOLDER}", "\x1b[2J\u202e"],
            "timeout": 600_000,
            "max_seconds": 3_600,
            "roots": ["/srv", "/x\ny"],
        },
        harbour={
            "httpUrl": "http://localhost:${PORT:-80}/mcp?key=${KEY:-tide-7f3a9b21c4}",
            "headers": {"Authorization": "Bearer ${HARBOUR_TOKEN:-tide-7f3a9b21c4}", "X-Key": SECRET},
            "timeout": None,
            "trust": True,
        },
        left={"command": "never", "disabled": True},
    )
    person = Person()
    assert len(load(person)) == 3
    assert person.asked == snapshot
    assert SECRET not in person.asked[0]
    assert SECRET not in (personal / FILE).read_text()


def test_unconfirmed_file_configures_nothing(personal: Path, snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    written(clock=CLOCK)
    for name, person in {"no": Person("no"), "nothing": Person(""), "nobody": None}.items():
        with subtests.test(name):
            servers = Servers()
            with pytest.raises(SettingsError) as raised:
                load_server_file(servers, "mcp.json", person)
            assert str(raised.value) == snapshot(name)
            assert not servers.configuration.servers and not (personal / FILE).exists()


def test_unreadable_files_are_refused(personal: Path, snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    Path("latin").write_bytes(b'{"mcpServers": "\xe9"}')
    Path("broken").write_text('{"mcpServers": {}')
    Path("folder").mkdir()
    os.mkfifo("pipe")
    for name in ("missing", "latin", "broken", "folder", "pipe"):
        with subtests.test(name):
            with pytest.raises(SettingsError) as raised:
                load(Person(), name)
            assert str(raised.value) == snapshot(name)


def test_confirmation_is_asked_once_per_process_without_a_writable_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(confirmed_servers, "_confirmed_here", set())
    use_own_folder(monkeypatch, tmp_path / "file" / "below")
    written(clock=CLOCK)
    load(Person())
    load(None)
    forget_process()
    with pytest.raises(SettingsError):
        load(None)


def test_file_without_servers_needs_no_confirmation(personal: Path) -> None:
    written()
    assert load(None) == []


def test_server_file_in_the_working_folder_configures_nothing(personal: Path) -> None:
    for name in (".mcp.json", "mcp.json"):
        written(name, clock=CLOCK)
    assert not Servers().configuration.servers
