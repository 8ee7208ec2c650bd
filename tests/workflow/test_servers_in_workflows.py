"""MCP servers in workflows and task files: connected before the first step, shared by nested runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp_runs import bench, is_alive, odd, process_of

from agentnb import tool
from agentnb.agent.agent import Agent
from agentnb.agent.extension import Extension
from agentnb.core.log.work_events import ServerStarted, StepStarted
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, InvalidTool, SettingsError, WorkflowError, WorkflowProblems
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.store.store import Store
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.tool import ToolContext
from agentnb.workflow.workflow import Workflow

WHERE = ToolCall("mcp_bench_where", {})
STEPS = """
agents:
  looker: {{tools: [{of_agent}], instruction: Look.}}
workflow:
  - {{id: first, type: tool, name: {of_step}, args: {{a: 1, b: 2}}}}
  - {{id: look, type: agent, name: looker, prompt: Look.}}
  - id: several
    type: map
    over: [1, 2, 3]
    step: {{id: each, type: agent, name: looker, prompt: Look.}}
"""
TASKS = """
stage:
  sum: {{action: "{action}", input: {{a: 1, b: 2}}}}
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Connections shared by the tests of this module, with the server configured."""
    held = Servers()
    held.configuration.add(bench())
    yield held
    held.close()


def texts_of(run: Run, store: Store) -> list[str]:
    """Return the texts of the agents' calls in the nested runs of a workflow."""
    nested = [store.load(event.nested) for event in run.events if isinstance(event, StepStarted) and event.nested]
    return [part.text for one in nested for each in one.rounds for result in each.results for part in result.parts]


def looked(request: Request) -> Any:
    """Reply with a call, or with the end after its result: items of a map run in parallel and share the script."""
    has_result = any(isinstance(part, ToolResult) for message in request.messages for part in message.parts)
    return "Done." if has_result else [WHERE]


def replies() -> dict[str, list[Any]]:
    return {"looker": [looked] * 8}


def test_steps_and_agents_of_a_file_use_one_process(servers: Servers, tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[str, str, list[Any], Servers | None]] = {
        "configured, named by the file": ("mcp:bench", "mcp:bench/add", [], servers),
        "given, and named by the names for models": ("mcp_bench_where", "mcp_bench_add", [bench()], None),
        "given, and the file's own word": ("mcp:bench/where", "mcp:bench/add", [bench()], None),
    }
    for name, (of_agent, of_step, tools, held) in cases.items():
        with subtests.test(name), use_host(Host(servers=held)):
            store = Store(tmp_path / name.replace(" ", "-"))
            workflow = Workflow.from_yaml(STEPS.format(of_agent=of_agent, of_step=of_step), tools=tools)
            run = workflow.run_sync(replies=replies(), approve="auto", store=store)
            assert run.step_records["first"].output == {"result": 3} or "3" in str(run.step_records["first"].output)
            result = texts_of(run, store)
            assert len(result) == 4
            assert len(set(result)) == 1
            logs = [run, *[store.load(run_id) for run_id in store.ids() if run_id != run.id]]
            starts = [event for one in logs for event in one.events if isinstance(event, ServerStarted)]
            assert len(starts) <= 1
            assert is_alive(process_of(result[0])) == (held is not None)
            assert run.settings["mcp_servers"]["bench"]["command_or_url"] == bench().command_or_url


def test_step_can_call_a_tool_named_with_a_digest(tmp_path: Path) -> None:
    text = "workflow:\n  - {id: first, type: tool, name: 'mcp:odd/get.it'}\n"
    alike = [{"name": name, "inputSchema": {"type": "object"}} for name in ("get.it", "get_it")]
    for source in (text, TASKS.format(action="mcp:odd/get.it").replace("{a: 1, b: 2}", "{}")):
        run = Workflow.from_yaml(source, tools=[odd({"result": {"tools": alike}}, {"content": "three"})]).run_sync(
            approve="auto"
        )
        assert run.status == "completed", run.error


def test_missing_server_tool_is_reported_before_the_first_step(
    servers: Servers, subtests: pytest.Subtests, snapshot: Any
) -> None:
    steps = "workflow:\n  - {{type: human, ask: Go on?, confirm: true}}\n  - {{type: tool, name: {name}}}\n"
    cases: dict[str, tuple[str, list[Any]]] = {
        "by its word": (steps.format(name="mcp:bench/adds"), []),
        "by its name for models": (steps.format(name="mcp_bench_adds"), ["mcp:bench"]),
        "an action": (TASKS.format(action="mcp:bench/adds"), []),
        "an action, by its name": (TASKS.format(action="mcp_bench_adds"), ["mcp:bench"]),
    }
    for name, (text, tools) in cases.items():
        with subtests.test(name), use_host(Host(servers=servers)):
            with pytest.raises(WorkflowError) as caught:
                Workflow.from_yaml(text, tools=tools).run_sync(approve="auto")
            assert str(caught.value) == snapshot(name)
            assert isinstance(caught.value.run, Run)
            assert not caught.value.run.step_records


def test_misspelt_names_are_found_before_anything_starts(subtests: pytest.Subtests, snapshot: Any) -> None:
    step = "workflow: [{{type: tool, name: {name}}}]\n"
    agent = "agents: {{a: {{tools: [{name}]}}}}\nworkflow: [{{type: agent, name: a}}]\n"
    cases: dict[str, tuple[str, list[Any]]] = {
        "step names no tool of the server": (step.format(name="mcp:bench"), []),
        "step of a server that nobody named": (step.format(name="mcp_bench_add"), []),
        "agent of a server that nobody named": (agent.format(name="mcp_bench_add"), []),
        "no name of a server": (agent.format(name='"mcp:-"'), []),
        "two servers of one name": (agent.format(name="mcp:bench"), [MCPServer("bench", "here"), MCPServer("bench", "there")]),
        "not configured": (step.format(name="mcp:bench/add"), []),
        "not configured, for an action": (TASKS.format(action="mcp:bench/add"), []),
        "approval of a tool of no server": (
            TASKS.format(action="mcp:bench/add") + "approval: {mode: deny, allow: [mcp_bank_add]}\n",
            ["mcp:bench"],
        ),
    }
    for name, (text, tools) in cases.items():
        with subtests.test(name), pytest.raises((SettingsError, InvalidTool)) as caught:
            Workflow.from_yaml(text, tools=tools).run_sync(replies={})
        assert str(caught.value) == snapshot(name)


def test_actions_and_approvals_in_task_files_accept_server_tools(servers: Servers, subtests: pytest.Subtests) -> None:
    allows = "approval: {{mode: deny, allow: [{0}]}}\n"
    cases: dict[str, tuple[str, list[Any]]] = {
        "by its word": (TASKS.format(action="mcp:bench/add"), []),
        "by its name for models": (TASKS.format(action="mcp_bench_add"), ["mcp:bench"]),
        "allowed by its word": (TASKS.format(action="mcp:bench/add") + allows.format("mcp:bench/add"), []),
        "allowed by its name": (TASKS.format(action="mcp:bench/add") + allows.format("mcp_bench_add"), []),
    }
    for name, (text, tools) in cases.items():
        with subtests.test(name), use_host(Host(servers=servers)):
            run = Workflow.from_yaml(text, tools=tools, checks_actions=True).run_sync(approve="auto")
            assert "3" in str(run.step_records["sum"].output)
    blocked = TASKS.format(action="mcp:bench/add") + "approval: {block: [mcp:bench/add]}\n"
    with use_host(Host(servers=servers)), pytest.raises(AgentnbError, match="not allow"):
        Workflow.from_yaml(blocked).run_sync(approve="auto")


def test_files_may_use_tools_of_the_servers_they_name(subtests: pytest.Subtests) -> None:
    two = "agents: {a: {tools: [mcp:bench]}}\nworkflow:\n  - {type: agent, name: a}\n  - {type: tool, name: mcp_bench_add}\n"
    assert Workflow.from_yaml(two, tools=[], checks_actions=True).tool_names == ("mcp_bench_add", "mcp:bench")
    with pytest.raises(WorkflowProblems):
        Workflow.from_yaml(two.replace("mcp_bench_add", "mcp_bank_add"), tools=[], checks_actions=True)


def test_nested_runs_share_the_process_of_the_parent_run(tmp_path: Path) -> None:
    inner = Agent(ScriptedModel([[WHERE], "Done."]), tools=[bench()], todos=False, name="inner")

    @tool
    async def start(context: ToolContext) -> str:
        """Begin a run."""
        run = await context.start_run(replaced(), "Go.")
        return str(run.rounds[0].results[0].parts[0].text)

    def replaced() -> Agent:
        return Agent(ScriptedModel([[WHERE], "Done."]), tools=[bench()], todos=False, name="started")

    @tool
    def plain() -> str:
        """Start a run in a plain function."""
        return str(replaced().run_sync("Go.", approve="auto").rounds[0].results[0].parts[0].text)

    store = Store(tmp_path)
    script = [[ToolCall("inner", {"prompt": "Go."})], [ToolCall("start", {})], [ToolCall("plain", {})], [WHERE], "Done."]
    outer = Agent(
        ScriptedModel(script),
        tools=[inner, start, plain],
        extensions=[Extension(name="clock", tools=[bench()])],
        todos=False,
    )
    run = outer.run_sync("Go.", approve="auto", store=store)
    logs = [store.load(run_id) for run_id in store.ids()]
    assert len(logs) == 4
    processes = {
        process_of(part.text)
        for log in logs
        for each in log.rounds
        for result in each.results
        for part in result.parts
        if part.text.rpartition(" ")[2].isdecimal()
    }
    assert len(processes) == 1
    assert not is_alive(processes.pop())
    assert sum(isinstance(event, ServerStarted) for log in logs for event in log.events) == 1
    assert run.own_tools == ["inner", "start", "plain"]
    assert run.tool_words == ["inner", "start", "plain"], "the extension brings its server"


def test_server_of_a_nested_run_ends_with_the_parent_run(tmp_path: Path) -> None:
    inner = Agent(ScriptedModel([[WHERE], "Done.", [WHERE], "Done."]), tools=[bench()], todos=False, name="inner")
    ask = [ToolCall("inner", {"prompt": "Go."})]
    outcome: list[str] = []
    outer = Agent(ScriptedModel([ask, ask, "Done."]), tools=[inner], todos=False)
    store = Store(tmp_path)
    outer.run_sync("Go.", approve="auto", store=store)
    for one in store.ids():
        outcome += [part.text for each in store.load(one).rounds for result in each.results for part in result.parts]
    processes = {process_of(text) for text in outcome if text.rpartition(" ")[2].isdecimal()}
    assert len(processes) == 1
    assert not is_alive(processes.pop())


def test_planner_can_call_server_tools(servers: Servers) -> None:
    reply = '{"steps": [{"type": "tool", "name": "mcp_bench_add", "args": {"a": 1, "b": 2}}]}'
    model = ScriptedModel([reply, "3"])
    with use_host(Host(servers=servers)):
        options = {"model": model, "approve": "auto", "inputs": {"tools": ["mcp:bench"]}, "show": False}
        run = Workflow.planner([bench()]).run_sync("What is 1 + 2?", **options)
    assert (run.text, run.variables["results"][0]["result"]) == ("3", {"result": 3}), run.error
    assert "mcp_bench_add" in [tool.name for tool in model.requests[0].tools]
