"""Which server a name stands for, and what ``${NAME}`` does."""

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


def test_added_wins_over_files_and_files_over_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Configuration()
    assert found.source("clock") == "" and found.servers == {}
    monkeypatch.setenv("MCP_SERVERS", "clock:of-variable,fs:fs-server")  # read when a server is looked up
    assert (found.server("clock"), found.source("clock")) == (server("of-variable"), "MCP_SERVERS")
    found.load(loaded("of-file"), "/a.json")
    found.load(loaded("of-newer-file"), "/b.json")
    assert (found.server("clock"), found.source("clock")) == (server("of-newer-file"), "/b.json")
    found.load(loaded("of-file"), "/a.json")
    assert (found.server("clock"), found.source("clock")) == (server("of-file"), "/a.json"), "loaded last"
    found.add(server("typed"))
    assert (found.server("clock"), found.source("clock")) == (server("typed"), TYPED)
    assert [*found.servers] == ["clock", "fs"] and found.servers["clock"] == server("typed")
    sources = []
    while found.source("clock") != "MCP_SERVERS":
        found.remove("clock")
        sources.append(found.source("clock"))
    assert sources == ["/a.json", "/b.json", "MCP_SERVERS"]


def test_file_that_is_loaded_again_replaces_its_servers() -> None:
    found = Configuration()
    found.load(ServerList((server("a"), server("b", "fs"))), "/a.json")
    found.load(loaded("c"), "/a.json")
    assert found.servers == {"clock": server("c")}


def test_unusable_variable_is_an_error_where_it_would_be_used(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    found = Configuration()
    found.add(server("typed"))
    monkeypatch.setenv("MCP_SERVERS", '[{"name": "fs", "command": }]')
    assert found.server("clock") == server("typed")
    assert [*found.known] == ["clock"]
    with pytest.raises(SettingsError, check=snapshot.worded):
        found.server("fs")
    with pytest.raises(SettingsError):
        assert found.servers


def test_unknown_names_say_what_to_do(monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    monkeypatch.setenv("MCP_SERVERS", "fs:fs-server")
    found = Configuration()
    found.add(server("typed"))
    for name, act in {
        "similar": lambda: found.server("clok"),
        "other": lambda: found.server("harbour"),
        "removed unknown": lambda: found.remove("clok"),
        "removed from the variable": lambda: found.remove("fs"),
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


def test_values_of_variables_are_in_no_error(snapshot: Snapshot, subtests: pytest.Subtests) -> None:
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


def test_args_and_roots_are_any_collection_and_nothing_else(subtests: pytest.Subtests) -> None:
    server = MCPServer("a", "x", (arg for arg in ["--utc"]), roots=(root for root in ["/srv"]))
    assert (server.args, server.roots) == (("--utc",), ("/srv",)), "read once"
    for setting, value in (("roots", Path("/srv")), ("roots", "/srv"), ("roots", [" "]), ("args", "--utc"), ("args", 5)):
        with subtests.test(f"{setting} {value!r}"), pytest.raises(SettingsError, match=f"{setting} of the MCP server a"):
            MCPServer("a", "x", **{setting: value})  # type: ignore[arg-type]


def test_permissions_belong_to_command_arguments_folders_and_address_and_to_no_secret() -> None:
    same = MCPServer("a", "./run", ["--utc"], env={"T": SECRET}, timeout=5), MCPServer("b", "./run", ["--utc"])
    utc = same[0]
    others = (
        MCPServer("a", "./run"),
        replace(utc, cwd="/srv"),
        replace(utc, args=["--utc", "/srv"]),
        replace(utc, roots=["/srv"]),
    )
    assert len({one.identity for one in (*same, *others)}) == 1 + len(others)
