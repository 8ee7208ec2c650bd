"""Settings of MCP servers as people write them, and locations of errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb.errors import SettingsError
from agentnb.tools.defaults import DEFAULT_TIMEOUT
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.mcp.server_settings import read_servers, read_variable

MCP_JSON = """{
  "mcpServers": {
    "fs": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/tides"]},
    "clock": {"command": "mcp-server-time", "args": ["--local-timezone", "Europe/Paris"],
              "env": {"LOG_LEVEL": "warning"}, "cwd": "/srv/tides"},
    "harbour": {"type": "http", "url": "http://localhost:8900/mcp", "headers": {"Authorization": "Bearer ${HARBOUR_TOKEN}"}}
  }
}
"""
MCP_SERVERS = """[
  {"name": "fs", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/tides"]},
  {"name": "clock", "command": "mcp-server-time", "args": ["--local-timezone", "Europe/Paris"],
   "env": {"LOG_LEVEL": "warning"}, "workDir": "/srv/tides"}
]
"""
FS = MCPServer("fs", "npx", ["-y", "@modelcontextprotocol/server-filesystem", "/srv/tides"])
CLOCK = MCPServer(
    "clock", "mcp-server-time", ["--local-timezone", "Europe/Paris"], env={"LOG_LEVEL": "warning"}, cwd="/srv/tides"
)
HARBOUR = MCPServer("harbour", "http://localhost:8900/mcp", headers={"Authorization": "Bearer ${HARBOUR_TOKEN}"})
SECRET = "tide-7f3a9b21c4"


def one(**fields: Any) -> str:
    """A file with one server."""
    return json.dumps({"mcpServers": {"clock": {"command": "mcp-server-time", **fields}}})


@pytest.mark.req("R2.15")
def test_every_configuration_form_yields_the_same_servers(subtests: pytest.Subtests) -> None:
    for name, text, servers in (
        ("mcpServers", MCP_JSON, [FS, CLOCK, HARBOUR]),
        ("a list", MCP_SERVERS, [FS, CLOCK]),
        ("a list on one line", MCP_SERVERS.replace("\n", " "), [FS, CLOCK]),
        ("as VS Code has it", MCP_JSON.replace("mcpServers", "servers"), [FS, CLOCK, HARBOUR]),
        ("byte order mark", f"\ufeff{MCP_JSON}", [FS, CLOCK, HARBOUR]),
        ("workDir in mcpServers", MCP_JSON.replace('"cwd"', '"workDir"'), [FS, CLOCK, HARBOUR]),
        ("cwd in a list", MCP_SERVERS.replace('"workDir"', '"cwd"'), [FS, CLOCK]),
        (
            "short",
            "fs:/opt/fs-server,clock:mcp-server-time",
            [MCPServer("fs", "/opt/fs-server"), MCPServer("clock", "mcp-server-time")],
        ),
        ("short with blanks", " fs : /opt/fs-server , ", [MCPServer("fs", "/opt/fs-server")]),
        ("short with an address", "harbour:http://localhost:8900/mcp", [MCPServer("harbour", "http://localhost:8900/mcp")]),
        ("no server", '{"mcpServers": {}}', []),
        ("blank", "  ", []),
    ):
        with subtests.test(name):
            read = read_servers if name == "byte order mark" else read_variable
            assert [*read(text, "MCP_SERVERS").servers] == servers


def test_settings_of_other_programs_keep_their_meaning(subtests: pytest.Subtests) -> None:
    usual = MCPServer("clock", "mcp-server-time")
    for name, fields, servers, notes in (
        ("type", {"type": "stdio"}, [usual], 0),
        ("description", {"description": "The time"}, [usual], 0),
        ("time-out", {"timeout": 5}, [MCPServer("clock", "mcp-server-time", timeout=5)], 0),
        ("no time-out", {"timeout": None}, [MCPServer("clock", "mcp-server-time", timeout=None)], 0),
        ("enabled", {"disabled": False}, [usual], 0),
        ("disabled", {"disabled": True}, [], 1),
        ("allowed", {"alwaysAllow": ["get_current_time"]}, [usual], 1),
        ("allowed by another word", {"autoApprove": True, "trust": True}, [usual], 2),
        ("something else", {"watchdog": 3}, [usual], 1),
        ("nothing given", {"args": None, "env": None, "cwd": None, "url": None}, [usual], 0),
    ):
        with subtests.test(name):
            configuration = read_servers(one(**fields), "mcp.json")
            assert [*configuration.servers] == servers and len(configuration.notes) == notes
    assert usual.timeout == DEFAULT_TIMEOUT


def test_notes_list_ignored_settings(snapshot: Snapshot) -> None:
    fields = {"alwaysAllow": ["get_current_time"], "watchdog": 3, "disabled": True}
    assert [*read_servers(one(**fields), "mcp.json").notes] == snapshot


def test_folders_are_relative_to_the_file(subtests: pytest.Subtests) -> None:
    for given, meant in {"data": "/srv/data", "/opt": "/opt", "~/x": "~/x", None: None}.items():
        with subtests.test(str(given)):
            roots = None if given is None else [given]
            (server,) = read_servers(one(cwd=given, roots=roots), "mcp.json", Path("/srv")).servers
            assert server.cwd == meant
            assert server.roots == (() if meant is None else (str(Path(meant).expanduser()),))


PROBLEMS = {
    "no JSON": '{\n  "mcpServers": {\n    "a": }\n}',
    "not closed": '{"mcpServers": {"a": 1}',
    "another object": '{"inputs": []}',
    "a text": '"clock"',
    "a list as the servers": '{"mcpServers": [1]}',
    "a list without names": '[{"command": "x"}]',
    "server that is a text": '{\n "mcpServers": {\n  "clock": "mcp-server-time"}}',
    "key twice": '{"mcpServers": {\n "a": {"command": "x"},\n "a": {"command": "y"}}}',
    "name twice in a list": '[{"name": "a", "command": "x"},\n {"name": "a", "command": "y"}]',
    "neither": '{"mcpServers": {"a": {"args": []}}}',
    "both": '{"mcpServers": {"a": {"command": "x",\n  "url": "http://localhost/"}}}',
    "blank command": one(command=" "),
    "command that is an empty list": one(command=[]),
    "address as a command": one(command="http://localhost/"),
    "url that is a command": '{"mcpServers": {"a": {"url": "localhost:8900/mcp"}}}',
    "password in the address": '{"mcpServers": {"a": {"url": "http://me:tide-7f3a9b21c4@localhost/mcp"}}}',
    "args that are a text": one(args="--utc"),
    "roots that are a text": one(roots="/srv"),
    "argument that is a list": one(args=["--port", [8900]]),
    "env that is a list": one(env=["A=tide-7f3a9b21c4"]),
    "env with an object": one(env={"A": "x", "PORT": {"tide-7f3a9b21c4": 8900}}),
    "misspelt": one(evn={"A": "tide-7f3a9b21c4"}),
    "enabled": one(enabled="no"),
    "disabled": one(disabled="yes"),
    "time-out": one(timeout=0),
    "time-out without an end": one(timeout=1).replace(": 1}", ": 1e999}"),
    "time-out of too many digits": one(timeout=10**400),
    "name twice in two objects": '{"mcpServers": {"a": {"command": "y"}},\n "servers": {"a": {"command": "x"}}}',
    "time-out that is a text": one(timeout="60s"),
    "time-out that is true": one(timeout=True),
    "type": one(type="websocket"),
    "type of the other kind": one(type="http"),
    "two folders": one(cwd="/a", workDir="/b"),
    "input as VS Code has it": one(env={"A": "${input:token}"}),
    "number that is too long": one(timeout=1).replace(": 1}", f": {'9' * 5_000}}}"),
    "not a number": one(timeout=float("nan")),
    "half of a character": '{"mcpServers": {"a": {"command": "x",\n "args": ["\\ud83d"]}}}',
    "too deep": '{"mcpServers": ' + "[" * 100_000,
}


@pytest.mark.req("R2.16")
def test_problems_in_files_are_located_without_showing_values(snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    for name, text in PROBLEMS.items():
        with subtests.test(name):
            with pytest.raises(SettingsError) as raised:
                read_servers(text, "mcp.json")
            assert str(raised.value) == snapshot(name)
            assert SECRET not in str(raised.value)


@pytest.mark.req("R2.16")
def test_problems_in_the_variable_are_located(snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    for name, text in {
        "no JSON": '[{"name": "clock", "command": }]',
        "no command": "fs:/opt/fs-server,clock:",
        "no name": "fs:/opt/fs-server,mcp-server-time",
        "address without a name": "http://localhost:8900/mcp",
        "arguments": "clock:mcp-server-time --utc",
        "name": "fs:/opt/fs-server,my clock:mcp-server-time",
        "twice": "clock:a,clock:b",
    }.items():
        with subtests.test(name):
            with pytest.raises(SettingsError) as raised:
                read_variable(text, "MCP_SERVERS")
            assert str(raised.value) == snapshot(name)
