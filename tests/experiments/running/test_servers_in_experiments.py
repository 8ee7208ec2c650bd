"""MCP servers in experiments: named in variants, shared by the cells of a kernel, kept open in a worker process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp_runs import PROGRAM, bench, is_alive, process_of, texts
from small_experiments import rows

from agentnb import Agent, Experiment, Run, Store
from agentnb.agent.portable import from_portable, portable
from agentnb.core.log.work_events import ServerStarted
from agentnb.core.messages import ToolCall
from agentnb.errors import SettingsError
from agentnb.experiments.form.yaml_reader import read_experiment
from agentnb.experiments.results.experiment_results import Results
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.mcp_server import MCPServer

WHERE = ToolCall("mcp_bench_where", {})
SECRET = "long-secret-value-4711"


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Connections shared by the tests of this module, with the server configured."""
    held = Servers()
    held.configuration.add(bench(env={"TOKEN": SECRET}))
    yield held
    held.close()


def scripted() -> ScriptedModel:
    return ScriptedModel([line for _ in range(20) for line in ([WHERE], "Done.")])


def experiment(tools: list[Any], folder: Path, count: int = 2, **settings: Any) -> Experiment:
    """Return an experiment with one server call per cell, in a folder."""
    arms = {
        "one": Agent(scripted(), tools=tools, todos=False),
        "other": Agent(scripted(), tools=tools, todos=False, system="x"),
    }
    return Experiment(rows(count), arms, folder=folder, primary="answered", approve="auto", places=1, **settings)


def runs_of(results: Results, folder: Path) -> list[Run]:
    store = Store(folder)
    assert not results.failures
    return [store.load(row.run_id) for row in results.rows]


def processes_of(runs: list[Run]) -> set[int]:
    return {process_of(text) for run in runs for text in texts(run)}


def test_cells_share_one_process(servers: Servers, tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[list[Any], Servers | None]] = {"kernel": (["mcp:bench"], servers), "code": ([bench()], None)}
    for name, (tools, held) in cases.items():
        with subtests.test(name), use_host(Host(servers=held)):
            runs = runs_of(experiment(tools, tmp_path / name).run_sync(show=False), tmp_path / name)
            assert len(runs) == 4
            assert len(processes_of(runs)) == 1
            assert is_alive(processes_of(runs).pop()) == (held is not None)


@pytest.mark.nightly("by day the kernel keeps one connection, and worker processes run cells")
@pytest.mark.slow("starts a worker process with a server")
def test_worker_process_keeps_one_connection_until_its_end(servers: Servers, tmp_path: Path) -> None:
    with use_host(Host(servers=servers)):
        results = experiment(["mcp:bench"], tmp_path, executor="processes").run_sync(show=False)
    runs = runs_of(results, tmp_path)
    assert len(processes_of(runs)) == 1
    assert sum(isinstance(event, ServerStarted) for run in runs for event in run.events) == 1
    assert not is_alive(processes_of(runs).pop())
    assert all(SECRET.encode() not in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())


def test_variant_content_includes_its_servers(servers: Servers, tmp_path: Path, subtests: pytest.Subtests) -> None:
    other = Servers()
    other.configuration.add(bench("other"))
    with use_host(Host(servers=servers)):
        first = experiment(["mcp:bench"], tmp_path).id
        assert experiment(["mcp:bench"], tmp_path).id == first
    for name, (tools, held) in {
        "no server": ([], servers),
        "one tool": (["mcp:bench/where"], servers),
        "configured otherwise": (["mcp:bench"], other),
        "given": ([bench("other")], servers),
    }.items():
        with subtests.test(name), use_host(Host(servers=held)):
            assert experiment(tools, tmp_path).id != first
    same = {"a": {"tools": [MCPServer("x", "here")]}, "b": {"tools": [MCPServer("x", "there")]}}
    Experiment(rows(1), same, models=["simulated:disciplined"], folder=False).check()
    with pytest.raises(SettingsError, match="equal"):
        Experiment(rows(1), {**same, "b": same["a"]}, models=["simulated:disciplined"], folder=False).check()


def test_yaml_experiment_can_name_servers(servers: Servers) -> None:
    text = """
tasks: [{id: t, prompt: Look.}]
models: [simulated:disciplined]
agent: {tools: [mcp:bench/where]}
variants:
  one: {guidance: matrix}
  other: {tools: [mcp:bench], guidance: "off"}
primary: answered
"""
    with use_host(Host(servers=servers)):
        found = read_experiment(text, {})
        found.check()
    assert found.agent["tools"] == ["mcp:bench/where"]
    with pytest.raises(SettingsError, match="mcp:-"):
        read_experiment(text.replace("[mcp:bench]", '["mcp:-"]'), {})


def test_pickled_agent_keeps_its_servers_but_not_their_secrets(snapshot: Any) -> None:
    agent = Agent("simulated:disciplined", tools=["mcp:clock", bench(env={"TOKEN": "${TOKEN}", "LANG": "warning"})])
    again = from_portable(portable(agent))
    assert again.toolbox.servers == agent.toolbox.servers
    assert PROGRAM in again.toolbox.servers[1].server.target
    with pytest.raises(SettingsError, check=snapshot.worded):
        portable(replace(agent, tools=[bench(env={"TOKEN": SECRET})]))
