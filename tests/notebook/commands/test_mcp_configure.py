"""``%agent mcp add``, ``load`` and ``remove``, and a real server configured in each way."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from own_folder import use_own_folder
from real_kernel import TOOLS, Kernel

from agentnb.display.texts.notebook_commands import error_in_notebook
from agentnb.errors import SettingsError
from agentnb.notebook.commands.mcp import configure, mcp_command, mcp_words
from agentnb.session import confirmed_servers
from agentnb.session.session import Session
from agentnb.settings import known_secrets
from agentnb.tools.mcp.mcp_server import MCPServer

TIME = Path(sys.executable).with_name("mcp-server-time")
SECRET = "tide-7f3a9b21c4"
MODEL = """
from agentnb import Agent, ToolCall
from agentnb.models import ScriptedModel
arguments = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}

def asks_the_time():
    return ScriptedModel([ToolCall("mcp_clock_convert_time", arguments), "Done."])

def said(run):
    return " ".join(part.text for one in run.rounds for record in one.records for part in record.result.parts)
"""


def session_of(*lines: str) -> Session:
    session = Session()
    for line in lines:
        mcp_command(session, None, line)
    return session


def test_added_servers_match_the_typed_command(subtests: pytest.Subtests) -> None:
    for line, server in {
        "clock mcp-server-time": MCPServer("clock", "mcp-server-time"),
        "clock mcp-server-time --local-timezone 'Europe/Paris'": MCPServer(
            "clock", "mcp-server-time", ["--local-timezone", "Europe/Paris"]
        ),
        "clock -- mcp-server-time --env X": MCPServer("clock", "mcp-server-time", ["--env", "X"]),
        "-- clock mcp-server-time": MCPServer("clock", "mcp-server-time"),
        "clock npx -y -- 'a b'": MCPServer("clock", "npx", ["-y", "--", "a b"]),
        "--env A=b=c --env TOKEN clock x": MCPServer("clock", "x", env={"A": "b=c", "TOKEN": "${TOKEN}"}),
        "clock --env=A=${B} --cwd /srv --timeout 5 --max-seconds 9 x": MCPServer(
            "clock", "x", env={"A": "${B}"}, cwd="/srv", timeout=5, max_seconds=9
        ),
        "--roots /srv --roots=data clock x": MCPServer("clock", "x", roots=["/srv", Path.cwd() / "data"]),
        "clock x $HOME {a} ${HOME}": MCPServer("clock", "x", ["$HOME", "{a}", "${HOME}"]),
        "harbour http://localhost:8900/mcp": MCPServer("harbour", "http://localhost:8900/mcp"),
        "harbour http://localhost/ --header 'Authorization=Bearer ${T}'": MCPServer(
            "harbour", "http://localhost/", headers={"Authorization": "Bearer ${T}"}
        ),
        "harbour ${URL} --header 'Authorization: Bearer ${T}'": MCPServer(
            "harbour", "${URL}", headers={"Authorization": "Bearer ${T}"}
        ),
    }.items():
        with subtests.test(line):
            assert [*session_of(f"add {line}").servers.configuration.servers.values()] == [server]


def test_adding_a_server_explains_how_to_use_it(snapshot: Snapshot, capsys: pytest.CaptureFixture[str]) -> None:
    session_of("add clock mcp-server-time --local-timezone Europe/Paris", f"add --env TOKEN={SECRET} --roots /srv fs fs-server")
    assert capsys.readouterr().out.splitlines() == snapshot
    assert SECRET in known_secrets(), "it is masked from then on"


def test_arguments_of_the_mcp_command_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of("add clock x")
    assert {"add", "load", "remove", "clock"} <= {*mcp_words([], session)}
    assert mcp_words(["remove"], session) == ["clock"]
    assert mcp_words(["add"], session) == ["--env", "--header", "--cwd", "--timeout", "--max-seconds", "--roots"]
    monkeypatch.setenv("MCP_SERVERS", "[")
    assert "clock" in mcp_words([], session), "completion survives a variable that cannot be read"


def test_invalid_mcp_add_commands_are_refused(snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    for line in (
        "add",
        "add clock",
        "add 'my clock' x",
        "add clock 'x",
        "add clock x --env A=b",
        "add --envs A=b clock x",
        f"add --env {SECRET}-x clock x",
        "add --header A clock x",
        "add --cwd",
        "add --timeout soon clock x",
        "add harbour http://localhost/ more",
        f"add harbour http://me:{SECRET}@localhost/",
        "add --env A=${env:B} clock x",
        "add --env A=b harbour http://localhost/",
        "add --header A=b clock x",
        "load",
        "load a.json b.json",
        "load missing.json",
        "remove",
        "remove clock",
    ):
        with subtests.test(line):
            with pytest.raises(SettingsError) as raised:
                session_of(line)
            assert error_in_notebook(raised.value) == snapshot(line.replace(SECRET, "SECRET"))
            assert SECRET not in str(raised.value)


def test_loading_a_server_file_reports_what_it_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot, capsys: pytest.CaptureFixture[str]
) -> None:
    use_own_folder(monkeypatch, tmp_path / "personal")
    monkeypatch.setattr(confirmed_servers, "_confirmed_here", set())
    monkeypatch.setattr(configure, "asker", lambda shell: lambda question: "yes")
    monkeypatch.setenv("MCP_SERVERS", "fs:/opt/fs-server")
    servers = {
        "clock": {"command": "a"},
        "fs": {"command": "b", "alwaysAllow": ["x"]},
        "old": {"command": "c", "disabled": True},
    }
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))
    Path("none.json").write_text('{"mcpServers": {}}')
    session = session_of("add clock typed", "load mcp.json", "load none.json", "remove clock", "remove fs", "remove clock")
    assert capsys.readouterr().out.replace(f"{tmp_path}", "FOLDER").splitlines() == snapshot
    assert {name: one.target for name, one in session.servers.configuration.servers.items()} == {"fs": "/opt/fs-server"}


# A real server


@pytest.fixture
def clean(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel in an empty folder."""
    kernel = Kernel(tmp_path)
    assert kernel.run(TOOLS + MODEL).status == "ok"
    yield kernel
    kernel.close()


def written(kernel: Kernel, name: str, *args: str) -> None:
    server = {"command": str(TIME), "args": [*args]}
    (kernel.folder / name).write_text(json.dumps({"mcpServers": {"clock": server}}))


def used(kernel: Kernel) -> str:
    """Return the server's answer in a cell that names it, or the error."""
    cell = kernel.run("%%agent -m asker -t mcp:clock --approve auto\nWhat time is it?", attended=True)
    return cell.error or kernel.value("said(run)")


@pytest.mark.nightly("by day each way is tried without a kernel")
@pytest.mark.slow("a kernel, and a real server that is started five times")
def test_every_way_to_configure_a_server_works(clean: Kernel) -> None:
    def again() -> str:
        assert clean.run("asker = asks_the_time()").status == "ok"
        return used(clean)

    written(clean, "mcp.json")
    written(clean, ".mcp.json")
    assert "There is no MCP server clock" in again(), "an existing file starts nothing"

    short = clean.folder / "time-server"  # the short form accepts no blank
    short.symlink_to(TIME)
    clean.run(f"import os; os.environ['MCP_SERVERS'] = 'clock:{short}'")
    assert "21:00" in again()
    in_code = "Agent(asks_the_time(), tools=['mcp:clock']).run_sync('Go.', approve='auto')"
    assert "21:00" in clean.value(f"said({in_code})")
    clean.run('os.environ[\'MCP_SERVERS\'] = \'[{"name": "clock", "command": }]\'')
    assert "MCP_SERVERS, line 1, column 31" in again()
    clean.run("del os.environ['MCP_SERVERS']")

    assert "nobody can confirm them here" in clean.run("%agent mcp load mcp.json").error
    declined = clean.run("%agent mcp load mcp.json", attended=True, reply="n")
    assert str(TIME) in declined.asked and "Nothing was configured" in declined.error
    assert "There is no MCP server clock" in again()
    assert "clock is configured" in clean.run("%agent mcp load mcp.json", attended=True, reply="y").printed
    assert "21:00" in again()
    assert "clock is configured" in clean.run("%agent mcp load mcp.json").printed, "confirmed before"

    connected = "len(get_ipython().find_line_magic('agent').__self__.session.servers.used)"
    clean.run("before = " + connected)
    assert clean.run(f"%agent mcp add clock {shlex.quote(str(TIME))} --local-timezone Asia/Tokyo").status == "ok"
    assert clean.value(f"(before - {connected})") == "1", "the previous connection has ended"
    assert "21:00" in again()
    written(clean, "mcp.json", "--local-timezone", "Asia/Tokyo")
    assert "nobody can confirm them here" in clean.run("%agent mcp load mcp.json").error, "the file has changed"
