"""Accepting the current state of an MCP server: shown to and confirmed by the user."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from mcp_runs import PROGRAM, bench, played
from own_folder import use_own_folder

from agentnb.core.messages import ToolCall
from agentnb.errors import SettingsError
from agentnb.runtime.questions.model_code import ModelCode
from agentnb.runtime.servers.first_seen import compare_tools
from agentnb.runtime.servers.servers import Servers
from agentnb.session.server_acceptance import accept_as_now
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.mcp_server import MCPServer, ServerTools

GROW = ToolCall("mcp_bench_grow", {"name": "grown"})
OTHER = bench("--other", "<b>[31m")


@pytest.fixture(autouse=True)
def first_sight(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user folder without known servers."""
    return use_own_folder(monkeypatch, tmp_path_factory.mktemp("person"))


def live_of(servers: Servers, server: MCPServer) -> LiveServer:
    return servers.live(ServerTools(server.name, server=server), Path.cwd())


def changed(servers: Servers, server: MCPServer) -> list[str]:
    """Return the changes of a server and its tools, in a word each."""
    live = live_of(servers, server)
    return sorted({word for tool in compare_tools(live, live.tools) for word in tool.origin.changed})


def test_server_changes_are_shown_and_apply_only_when_confirmed(servers: Servers, snapshot: Snapshot) -> None:
    played([[GROW]], [bench()], servers)
    played([[GROW]], [bench()], servers)
    played(["Done."], [OTHER], servers)
    asked: list[str] = []

    def person(line: str) -> object:
        return lambda question: asked.append(question) or line

    messages = []
    for server in (bench(), OTHER):
        live = live_of(servers, server)
        expected = changed(servers, server)
        assert expected == (["tool"] if server is not OTHER else ["server"])
        for ask in (None, person(""), person("n")):
            with pytest.raises(SettingsError) as refused:
                accept_as_now(servers, live, ask)  # type: ignore[arg-type]
            assert changed(servers, server) == expected, str(refused.value)
        with ModelCode(None).running(), pytest.raises(SettingsError, match="reserved for the person"):
            accept_as_now(servers, live, person("y"))  # type: ignore[arg-type]
        messages.append(accept_as_now(servers, live, person("y")))  # type: ignore[arg-type]
        assert not changed(servers, server)
        messages.append(accept_as_now(servers, live, None))
    shown = re.sub(r"\d+ others", "N others", "\n\n".join(dict.fromkeys(asked)))
    assert shown.replace(PROGRAM, "PROGRAM").replace(bench().command_or_url, "PYTHON").split("\n") == snapshot("asked")
    assert messages == snapshot("done")
