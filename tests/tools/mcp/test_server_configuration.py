"""Lookup of servers by name, and variables in ``${NAME}``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from asserted_sentences import Snapshot

from agentnb.errors import SettingsError
from agentnb.tools.mcp.expansion import expand_variables, secrets, variables
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.mcp.server_configuration import TYPED, Configuration
from agentnb.tools.mcp.server_settings import ServerList

SECRET = "tide-7f3a9b21c4"


def server(command: str, name: str = "clock") -> MCPServer:
    return MCPServer(name, command)


def loaded(*commands: str) -> ServerList:
    return ServerList(tuple(server(command) for command in commands))


def test_added_servers_take_precedence_over_files_and_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = Configuration()
    assert configuration.source("clock") == "" and configuration.servers == {}
    monkeypatch.setenv("MCP_SERVERS", "clock:of-variable,fs:fs-server")  # read at lookup
    assert (configuration.server("clock"), configuration.source("clock")) == (server("of-variable"), "MCP_SERVERS")
    configuration.load(loaded("of-file"), "/a.json")
    configuration.load(loaded("of-newer-file"), "/b.json")
    assert (configuration.server("clock"), configuration.source("clock")) == (server("of-newer-file"), "/b.json")
    configuration.load(loaded("of-file"), "/a.json")
    assert (configuration.server("clock"), configuration.source("clock")) == (server("of-file"), "/a.json"), "loaded last"
    configuration.add(server("typed"))
    assert (configuration.server("clock"), configuration.source("clock")) == (server("typed"), TYPED)
    assert [*configuration.servers] == ["clock", "fs"] and configuration.servers["clock"] == server("typed")
    sources = []
    while configuration.source("clock") != "MCP_SERVERS":
        configuration.remove("clock")
        sources.append(configuration.source("clock"))
    assert sources == ["/a.json", "/b.json", "MCP_SERVERS"]


def test_reloaded_file_replaces_its_servers() -> None:
    configuration = Configuration()
    configuration.load(ServerList((server("a"), server("b", "fs"))), "/a.json")
    configuration.load(loaded("c"), "/a.json")
    assert configuration.servers == {"clock": server("c")}


def test_malformed_variable_is_an_error_only_when_it_is_needed(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    configuration = Configuration()
    configuration.add(server("typed"))
    monkeypatch.setenv("MCP_SERVERS", '[{"name": "fs", "command": }]')
    assert configuration.server("clock") == server("typed")
    assert [*configuration.known] == ["clock"]
    with pytest.raises(SettingsError, check=snapshot.worded):
        configuration.server("fs")
    with pytest.raises(SettingsError):
        assert configuration.servers


def test_unknown_server_names_get_a_hint(
    monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot, subtests: pytest.Subtests
) -> None:
    monkeypatch.setenv("MCP_SERVERS", "fs:fs-server")
    configuration = Configuration()
    configuration.add(server("typed"))
    for name, act in {
        "similar": lambda: configuration.server("clok"),
        "other": lambda: configuration.server("harbour"),
        "removed unknown": lambda: configuration.remove("clok"),
        "removed from the variable": lambda: configuration.remove("fs"),
    }.items():
        with subtests.test(name):
            with pytest.raises(SettingsError) as raised:
                act()
            assert str(raised.value) == snapshot(name)


def test_variables_are_replaced_by_their_values_or_defaults(tmp_path: Path) -> None:
    environment = {"TOKEN": SECRET, "PORT": "8900", "ZONE": "Europe/Paris", "ADDRESS": "http://localhost:8900/mcp"}
    args = ["--zone", "${ZONE}", "$ZONE", "${NONE:-y}", "${NONE:-}", "${ZONE:-z}", "${NONE:-a${PORT}b}", "${NONE:-${X:-d}}"]
    program = MCPServer("a", "${HOME}/run", args, env={"T": "${TOKEN}"}, cwd=tmp_path, transport="stdio")
    filled = ["--zone", "Europe/Paris", "$ZONE", "y", "", "Europe/Paris", "a8900b", "d"]
    expected = MCPServer("a", "/h/run", filled, env={"T": SECRET}, cwd=tmp_path, transport="stdio")
    assert expand_variables(program, {**environment, "HOME": "/h"}) == expected
    remote = MCPServer("b", "http://localhost:${PORT}/mcp", headers={"Authorization": "Bearer ${TOKEN}"})
    filled = MCPServer("b", "http://localhost:8900/mcp", headers={"Authorization": f"Bearer {SECRET}"})
    assert expand_variables(remote, environment) == filled
    assert expand_variables(MCPServer("c", "${ADDRESS}"), environment) == MCPServer("c", "http://localhost:8900/mcp")
    assert variables(program) == ["HOME", "ZONE", "NONE", "PORT", "X", "TOKEN"] and variables(remote) == ["PORT", "TOKEN"]
    assert secrets(remote) == []
    assert SECRET in secrets(filled)


def test_errors_do_not_show_values_of_variables(snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    for name, given, value in (
        ("not set", MCPServer("a", "x", env={"T": "${MISSING}"}), ""),
        ("not set in an address", MCPServer("a", "http://localhost/${MISSING}"), ""),
        ("line break in a header", MCPServer("a", "http://localhost/", headers={"Authorization": "${TOKEN}"}), f"{SECRET}\n"),
        ("address that is none", MCPServer("a", "${TOKEN}"), SECRET),
        ("address that is a variable again", MCPServer("a", "${TOKEN}"), "${TOKEN}"),
        ("password in an address", MCPServer("a", "${TOKEN}"), f"http://me:{SECRET}@localhost/"),
        ("folder", MCPServer("a", "x", cwd="/no/such/folder"), ""),
        ("root", MCPServer("a", "x", roots=["/no/such/folder"]), ""),
    ):
        with subtests.test(name):
            with pytest.raises(SettingsError) as raised:
                expand_variables(given, {"TOKEN": value})
            assert str(raised.value) == snapshot(name)
            assert SECRET not in f"{raised.value!r} {raised.value.__context__!r}"
    assert SECRET not in repr(MCPServer("a", "x", env={"T": SECRET}))


def test_args_and_roots_accept_any_collection_and_nothing_else(subtests: pytest.Subtests) -> None:
    server = MCPServer("a", "x", (arg for arg in ["--utc"]), roots=(root for root in ["/srv"]))
    assert (server.args, server.roots) == (("--utc",), ("/srv",)), "read once"
    for setting, value in (("roots", Path("/srv")), ("roots", "/srv"), ("roots", [" "]), ("args", "--utc"), ("args", 5)):
        with subtests.test(f"{setting} {value!r}"), pytest.raises(SettingsError, match=f"{setting} of the MCP server a"):
            MCPServer("a", "x", **{setting: value})  # type: ignore[arg-type]


def test_identity_of_a_server_excludes_secrets() -> None:
    same = MCPServer("a", "./run", ["--utc"], env={"T": SECRET}, timeout=5), MCPServer("b", "./run", ["--utc"])
    utc = same[0]
    others = (
        MCPServer("a", "./run"),
        replace(utc, cwd="/srv"),
        replace(utc, args=["--utc", "/srv"]),
        replace(utc, roots=["/srv"]),
    )
    assert len({one.identity for one in (*same, *others)}) == 1 + len(others)
