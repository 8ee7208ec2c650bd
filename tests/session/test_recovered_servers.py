"""Recovery with MCP servers: names from the log, commands from the configuration."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp_runs import bench, is_alive, process_of, texts

from agentnb import Agent, Run, Store, recover
from agentnb.agent.from_log import agent_of
from agentnb.core.log.work_events import ServerStarted, ToolsChanged
from agentnb.core.messages import ToolCall
from agentnb.core.redaction import redact
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.resumed_servers import changed_servers
from agentnb.runtime.servers.servers import Servers
from agentnb.settings import Key
from agentnb.tools.mcp.logged import logged_servers
from agentnb.tools.mcp.mcp_server import MCPServer, ServerTools
from agentnb.workflow.workflow import Workflow

WHERE = ToolCall("mcp_bench_where", {})
SECRET = "long-secret-value-0815"


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Shared connections of this module, with the server configured."""
    held = Servers()
    held.configuration.add(bench())
    yield held
    held.close()


def look() -> str:
    """Look."""
    return "seen"


def suspended(store: Store, tools: list[Any], servers: Servers | None) -> Run:
    """Return a run that waits for approval of a server call."""
    agent = Agent(ScriptedModel([[WHERE], "Done."]), tools=tools, todos=False)
    with use_host(Host(servers=servers)):
        run = agent.run_sync("Go.", store=store, suspend=True)
    assert run.is_suspended
    return run


def resumed(run: Run, store: Store, servers: Servers | None = None, **keywords: Any) -> Run:
    """Return the run after its call was allowed."""
    with use_host(Host(servers=servers)):
        answers = None if keywords.get("trust_log") is False else {question.id: True for question in run.waiting}
        return asyncio.run(recover(run.id, store=store, answers=answers, model=ScriptedModel(["Done."]), **keywords))


def test_suspended_run_is_resumed_with_its_servers(servers: Servers, tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[list[Any], list[Any], Servers | None]] = {
        "configured": (["mcp:bench", look], [look], servers),
        "configured, one tool": (["mcp:bench/where", look], [look], servers),
        "given again": ([bench(env={"TOKEN": SECRET}), look], [look, bench(env={"TOKEN": SECRET})], None),
        "given again by its word": (["mcp:bench", look], ["mcp:bench", look], servers),
    }
    for name, (tools, again, held) in cases.items():
        with subtests.test(name):
            store = Store(tmp_path / name.replace(" ", "-"))
            run = suspended(store, tools, held)
            words = ["mcp:bench/where"] if "one tool" in name else ["mcp:bench"]
            assert (run.own_tools, run.tool_words) == (["look"], ["look", *words])
            whole = resumed(run, store, held, tools=again)
            assert whole.status == "completed"
            assert is_alive(process_of(texts(whole)[0])) == (held is not None)
            changes = [event for event in whole.events if isinstance(event, ToolsChanged)]
            assert len(changes) == 1, "the tools are those that the log has"
            assert not whole.warned
            log = "".join(path.read_text() for path in store.folder.glob("*.jsonl"))
            assert SECRET not in log


def test_recovery_never_starts_a_command_from_the_log(servers: Servers, tmp_path: Path, snapshot: Any) -> None:
    store, trace = Store(tmp_path / "runs"), tmp_path / "started"
    run = suspended(store, ["mcp:bench", look], servers)
    path, command, program = next(store.folder.glob("*.jsonl")), bench().command_or_url, bench().args[0]
    words = {"RUN": run.id, "PROGRAM": f"{command} {program}", "HOSTILE": f"touch {trace}", "FILE": program}
    with pytest.raises(SettingsError) as caught:
        resumed(run, store, Servers(), tools=[look])
    assert str(caught.value) == snapshot("own", **words)

    hostile = f'"command_or_url":"touch {trace}\\n\\u202e"'
    path.write_text(path.read_text().replace(f'"command_or_url":"{command}"', hostile))
    for trusted in (True, False):
        with pytest.raises(SettingsError) as caught:
            resumed(run, store, Servers(), tools=[look], trust_log=trusted, suspend=not trusted)
        assert str(caught.value) == snapshot("from elsewhere", **words)
        assert not trace.exists()
    assert resumed(run, store, servers, tools=[look], trust_log=True).status == "completed"
    assert not trace.exists()


def test_changed_server_is_reported(servers: Servers, tmp_path: Path, snapshot: Any) -> None:
    store = Store(tmp_path)
    run = suspended(store, ["mcp:bench"], servers)
    other = Servers()
    other.configuration.add(bench("other"))
    whole = resumed(run, store, other, approve="auto")
    other.close()
    assert whole.status == "completed"
    (warned,) = whole.warned
    assert warned.message == snapshot(PROGRAM=f"{bench().command_or_url} {bench().args[0]}")


def test_server_with_a_redacted_argument_counts_as_unchanged() -> None:
    Key("planted", "tide-5d81c0aa37", "a test")
    item = ServerTools("bench", server=bench("--key", "tide-5d81c0aa37"))
    logged: Any = SimpleNamespace(settings=redact(logged_servers([item])))
    assert "tide-5d81c0aa37" not in str(logged.settings)
    assert list(changed_servers(logged, [item])) == []
    for other in bench("--other"), replace(item.server, roots=["/srv"]):
        assert len(list(changed_servers(logged, [ServerTools("bench", server=other)]))) == 1


def test_agent_from_the_log_names_servers_without_their_commands(servers: Servers, tmp_path: Path) -> None:
    run = suspended(Store(tmp_path), ["mcp:bench/where", "mcp:bench/add", look], servers)
    assert run.settings["mcp_servers"] == {"bench": {**bench().as_logged, "tools": ["where", "add"]}}
    agent = agent_of(run, tools=[look], model=ScriptedModel(["Done."]))
    assert [(item.word, item.server) for item in agent.toolbox.servers] == [("mcp:bench/where", None), ("mcp:bench/add", None)]
    own = MCPServer("bench", "another")
    assert [item.server for item in replace(agent, tools=[own]).toolbox.servers] == [own]


def test_suspended_workflow_is_resumed_with_its_servers(servers: Servers, tmp_path: Path) -> None:
    text = (
        "workflow:\n  - {id: ok, type: human, ask: Go on?, confirm: true}\n  - {id: where, type: tool, name: mcp_bench_where}\n"
    )
    store = Store(tmp_path)
    with use_host(Host(servers=servers)):
        run = Workflow.from_yaml(text, tools=["mcp:bench"]).run_sync(store=store, suspend=True, approve="auto")
        assert run.is_suspended
        whole = asyncio.run(recover(run.id, store=store, answers={run.waiting[0].id: True}))
        assert whole.status == "completed"
        assert is_alive(process_of(whole.step_records["where"].output["result"]))
        assert not [event for event in whole.events[len(run.events) :] if isinstance(event, ServerStarted)]
    with use_host(Host(servers=Servers())), pytest.raises(SettingsError, match="not configured"):
        run = Workflow.from_yaml(text, tools=[bench()]).run_sync(store=store, suspend=True, approve="auto")
        asyncio.run(recover(run.id, store=store, answers={run.waiting[0].id: True}))
