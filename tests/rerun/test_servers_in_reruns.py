"""Forks and reproductions of runs with MCP servers: recorded results need no server; named ones connect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_runs import bench, calls, is_alive, played, process_of, texts

from agentnb import Run, Store, diff, fork_sync, reproduce_sync
from agentnb.core.log.work_events import ServerStarted
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers

WHERE = calls(("where", {}))


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Connections shared by the tests of this module, with the server configured."""
    held = Servers()
    held.configuration.add(bench())
    yield held
    held.close()


@pytest.fixture(scope="module")
def recorded() -> Run:
    """Return a run with two calls of a server that has ended."""
    return played([WHERE, calls(("add", {"a": 1, "b": 2}))], [bench()])


def started(run: Run) -> list[Any]:
    return [event for event in run.events if isinstance(event, ServerStarted)]


def test_fork_with_recorded_results_needs_no_server(recorded: Run, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for at_round in (1, 2, 3):
        with subtests.test(at_round):
            script = [WHERE, calls(("add", {"a": 1, "b": 2})), "Done."][at_round - 1 :]
            again = fork_sync(recorded, at_round, model=ScriptedModel(script), store=Store(tmp_path))
            assert texts(again) == texts(recorded)
            assert [tool.name for tool in again.tools] == [tool.name for tool in recorded.tools]
            assert not started(again)
            assert "mcp_servers" not in again.settings
    same = reproduce_sync(recorded)
    assert texts(same) == texts(recorded)
    assert not started(same)


def test_fork_connects_to_its_named_servers(recorded: Run, servers: Servers, subtests: pytest.Subtests) -> None:
    with use_host(Host(servers=servers)):
        for name, options in {"tools": {"tools": ["mcp:bench"]}, "at its begin": {"tools": ["mcp:bench"], "at": 1}}.items():
            with subtests.test(name):
                at_round, tools = options.get("at", 2), options["tools"]
                again = fork_sync(recorded, at_round, model=ScriptedModel([WHERE, "Done."]), tools=tools, approve="auto")
                assert is_alive(process_of(texts(again)[-1]))
                assert again.settings["mcp_servers"]["bench"]["command_or_url"] == bench().command_or_url
                assert "mcp_bench_where" in [tool.name for tool in again.tools]


def test_reproduction_with_named_servers_calls_them(servers: Servers) -> None:
    recorded = played([calls(("add", {"a": 1, "b": 2}))], [bench()])
    with use_host(Host(servers=servers)):
        for tools in (["mcp:bench"], []):  # the log names it too
            same = reproduce_sync(recorded, tools=tools, approve="auto")
            assert texts(same) == ["3"]
            assert "mcp_servers" in same.settings


def test_fallback_server_runs_only_unrecorded_calls(recorded: Run, servers: Servers) -> None:
    replies = [WHERE, calls(("add", {"a": 2, "b": 2})), "Done."]
    with use_host(Host(servers=servers)):
        again = fork_sync(recorded, 1, model=ScriptedModel(replies), fallback=["mcp:bench"], approve="auto")
    assert texts(again) == [texts(recorded)[0], "4"]
    without = fork_sync(recorded, 1, model=ScriptedModel(replies))
    assert without.rounds[1].results[0].error_code == "not_recorded"
    assert diff(recorded, without) is not None
