"""``--mcp FILE``: servers of a file in a shell, first confirmed at a terminal."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from shell_calls import Call, written
from test_answer_in_a_shell import command_of

from agentnb.runtime.servers.first_seen import forget

if TYPE_CHECKING:
    from terminal import Program

TIME = Path(sys.executable).with_name("mcp-server-time")
STEP = """workflow:
  - {id: a, type: tool, name: mcp_clock_convert_time, args: {source_timezone: UTC, time: "12:00", target_timezone: Asia/Tokyo}}
"""
NAMED = ("-t", "mcp:clock", "--mcp", "mcp.json", "--approve", "auto")


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the user's home folders into the folder of the test."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


def server_file(**fields: object) -> None:
    written("mcp.json", json.dumps({"mcpServers": {"clock": {"command": str(TIME), **fields}}}))


def linked_time() -> Path:
    """Link the server under a path without blanks, as the short form requires."""
    link = Path("time-server").absolute()
    link.symlink_to(TIME)
    return link


@pytest.mark.nightly("by day a kernel asks the same")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
@pytest.mark.slow("programs of their own that ask at a terminal, and a real server")
def test_file_is_confirmed_once_at_a_terminal(program: Program, cli: Call) -> None:
    server_file()
    path = written("one.yaml", STEP)
    refused = cli("exec", path, *NAMED)
    assert refused.code == 2 and "nobody can confirm them here" in refused.err
    for typed, code in (("n", 2), ("y", 0)):
        with program("exec", str(path), *NAMED) as terminal:
            assert str(TIME) in terminal.type(typed)
            found, out = terminal.ended()
            assert found == code and ("21:00" in out) == (typed == "y"), terminal.shown
    again = cli("exec", path, *NAMED)
    assert again.code == 0 and "21:00" in again.out, again.err
    waiting = cli("exec", path, *NAMED[:4])
    assert waiting.code == 4, waiting.err
    answered = cli(*command_of(waiting))
    assert answered.code == 0 and "21:00" in answered.out, answered.err
    server_file(args=["--local-timezone", "Asia/Tokyo"])
    assert cli("exec", path, *NAMED).code == 2, "it has changed"


@pytest.mark.slow("a real server")
def test_environment_variable_configures_servers_in_a_shell(cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written("one.yaml", STEP)
    missing = cli("exec", path, "-t", "mcp:clock", "--approve", "auto")
    assert missing.code != 0 and "--mcp FILE" in missing.err
    monkeypatch.setenv("MCP_SERVERS", f"clock:{linked_time()}")
    done = cli("exec", path, "-t", "mcp:clock", "--approve", "auto")
    assert done.code == 0 and "21:00" in done.out, done.err


def test_unreadable_server_file_prevents_the_run(cli: Call) -> None:
    path = written("one.yaml", STEP)
    written("mcp.json", '{"mcpServers": {"clock": }}')
    for command in (("exec", path, *NAMED), ("validate", path, "--mcp", "mcp.json")):
        done = cli(*command)
        assert done.code == 2 and "mcp.json, line 1, column 26" in done.err and not Path(".agentnb").exists()
    server_file()
    assert cli("validate", path, "--mcp", "mcp.json").code == 0, "it starts nothing, and asks nothing"


@pytest.mark.nightly("by day a kernel asks the same")
@pytest.mark.skipif(sys.platform == "win32", reason="there is no pty")
@pytest.mark.slow("programs of their own that ask at a terminal, and a real server")
def test_changed_server_is_accepted_at_a_terminal(program: Program, cli: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    path, rule = written("one.yaml", STEP), ("--rule", "mcp:clock=allow")
    monkeypatch.setenv("MCP_SERVERS", f"clock:{linked_time()}")
    assert cli("exec", path, "-t", "mcp:clock", *rule).code == 0
    configured = [{"name": "clock", "command": str(TIME), "args": ["--local-timezone", "Asia/Tokyo"]}]
    monkeypatch.setenv("MCP_SERVERS", json.dumps(configured))
    assert cli("exec", path, "-t", "mcp:clock", *rule).code == 4
    assert "Nobody can confirm this here" in cli("accept", "clock").err
    with program("accept", "clock") as terminal:
        assert "Asia/Tokyo" in terminal.type("y")
        assert terminal.ended()[0] == 0, terminal.shown
    forget()
    assert cli("exec", path, "-t", "mcp:clock", *rule).code == 0
