"""Resources and prompts of MCP servers as tools; models do not read the server instructions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from mcp_runs import bench, calls, odd, played, results, texts
from mcp_test_server import INSTRUCTIONS

from agentnb.agent.agent import Agent
from agentnb.core.messages import Image
from agentnb.errors import ServerFailed, SettingsError, UnknownTool
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.questions.model_code import ModelCode
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.connections.server_catalogue import catalogue_of
from agentnb.tools.mcp.mcp_server import MCPServer, ServerTools
from agentnb.tools.mcp.resources import resource_tools
from agentnb.tools.mcp.wire_names import wire_name

OURS = ["list_resources", "read_resource", "list_prompts", "get_prompt"]


def test_model_lists_and_reads_resources_and_prompts(servers: Servers, subtests: pytest.Subtests) -> None:
    greeting = "memo://greeting (text/plain): A greeting."
    cases = [
        ("list_resources", {"filter": "Greet MEMO"}, greeting),
        ("list_resources", {"filter": "nothing"}, "(none of the 5 resources contains these words)"),
        ("read_resource", {"uri": "memo://greeting"}, "Hello from a resource"),
        ("read_resource", {"uri": "memo://of/Ada"}, "About Ada"),
        ("read_resource", {"uri": "memo://square"}, "(picture)"),
        ("read_resource", {"uri": "memo://bytes"}, "(the resource memo://bytes, application/octet-stream)"),
        ("list_prompts", {}, "review(subject): Ask for a review."),
        ("get_prompt", {"name": "review", "arguments": {"subject": "this"}}, "Review this, please."),
    ]
    run = played([calls((name, arguments)) for name, arguments, _ in cases], [bench()], servers)
    for (name, arguments, expected), text in zip(cases, texts(run), strict=True):
        with subtests.test(f"{name} {arguments}"):
            assert text == expected
    assert not any(result.is_error for result in results(run))
    assert isinstance(results(run)[4].parts[0], Image)


def test_invalid_resource_calls_fail_with_the_reason(servers: Servers) -> None:
    wrong = [
        ("read_resource", {"uri": "memo://none"}),
        ("read_resource", {"url": "memo://greeting"}),
        ("get_prompt", {"name": "review"}),
        ("get_prompt", {"name": "review", "arguments": "this"}),
    ]
    run = played([calls(one) for one in wrong], [bench()], servers)
    codes = ["tool_error", "invalid_arguments", "invalid_arguments", "invalid_arguments"]
    assert [result.error_code for result in results(run)] == codes
    assert "subject" in texts(run)[2]


def test_long_resource_is_logged_in_full(servers: Servers) -> None:
    run = played([calls(("read_resource", {"uri": "memo://long"}))], [bench()], servers)
    assert len(texts(run)[0]) == 150_000


def test_resource_tools_appear_only_for_servers_with_resources(servers: Servers) -> None:
    clock = odd({"result": {"tools": [{"name": "get_time", "inputSchema": {"type": "object"}}]}}, name="clock")
    run = played([], [clock], servers)
    assert [tool.name for tool in run.tools] == ["mcp_clock_get_time"]
    named = played([], [ServerTools("bench", "read_resource", bench())], servers)
    assert [tool.name for tool in named.tools] == ["mcp_bench_read_resource"]
    with pytest.raises(UnknownTool):
        played([], [ServerTools("clock", "read_resource", clock)], servers)


def test_resource_tool_is_renamed_when_a_server_tool_clashes(servers: Servers) -> None:
    calls_of_both = calls(("list_resources", {}), ("list_mcp_resources", {"filter": "greeting"}))
    run = played([calls_of_both], [bench("hostile")], servers)
    assert texts(run) == ["Hello from a resource", "memo://greeting (text/plain): A greeting."]
    described = {tool.name: tool.description for tool in run.tools}
    assert "a name like ours" in described["mcp_bench_list_resources"]

    live = next(live for live in servers.used if live.server == bench())
    others = (("bench_list", "resources"), ("bench_read", "resource"), ("bench_read", "mcp_resource"))
    free = [tool.spec.name for tool in resource_tools(live, {wire_name(*other) for other in others})]
    assert free == ["mcp_bench_list_mcp_resources", "mcp_bench_list_prompts", "mcp_bench_get_prompt"]


def test_reading_a_resource_needs_approval_like_any_server_tool(servers: Servers) -> None:
    reading = calls(*[(name, {"uri": "memo://greeting", "name": "review"}) for name in OURS])
    run = played([reading], [bench()], servers, approve=None, answer=lambda question: "reject")
    assert [asked.question.kind for asked in run.questions] == ["approval"] * len(OURS)
    assert all(result.is_error for result in results(run))


def test_server_instructions_are_never_sent_to_a_model(servers: Servers) -> None:
    model = ScriptedModel([calls(("add", {"a": 1, "b": 2}), ("list_resources", {}), ("list_prompts", {})), "Done."])
    with use_host(Host(servers=servers)):
        run = Agent(model, tools=[bench()]).run_sync("Go.", approve="auto")
    (live,) = [live for live in servers.used if live.server == bench()]
    assert live.facts is not None
    assert live.facts.instructions == INSTRUCTIONS
    for told in (repr(model.requests), repr(run.events)):
        assert "Add two numbers." in told
        assert INSTRUCTIONS not in told


def test_persons_server_request_obeys_its_time_limit(servers: Servers, tmp_path: Path) -> None:
    live = servers.live(ServerTools("bench", server=bench(timeout=0.01)), tmp_path)
    assert live.facts is None
    with pytest.raises(ServerFailed, match="did not answer in time"):
        servers.ask(live, lambda client: client.call_tool("wait", {"path": str(tmp_path / "waits")}))
    assert live.state == "ready"
    servers.stop("bench")
    gone = servers.live(ServerTools("gone", server=MCPServer("gone", "no-such-program")), tmp_path)
    with pytest.raises(ServerFailed):
        servers.ask(gone, catalogue_of)
    assert gone.state == "failed"


def test_model_code_cannot_query_or_stop_a_server(servers: Servers, tmp_path: Path) -> None:
    live = servers.live(ServerTools("bench", server=bench()), tmp_path)
    acts: list[Callable[[], object]] = [lambda: servers.ask(live, catalogue_of), lambda: servers.stop("bench")]
    for act in acts:
        with ModelCode(None).running(), pytest.raises(SettingsError, match="reserved for the person"):
            act()
    assert live.state == "configured"
