"""Search for MCP tools that are too many for each request: found tools are offered from then on."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asserted_sentences import Snapshot
from mcp_runs import bench, calls, played, results, texts
from run_builder import opening

from agentnb.agent.agent import Agent
from agentnb.core.log.work_events import ServerStarted, ToolsChanged
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.errors import InvalidTool
from agentnb.models.estimate import tokens_of_request
from agentnb.models.scripted import ScriptedModel
from agentnb.rerun.fork import fork_sync
from agentnb.rerun.reproduce import reproduce_sync
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.defaults import MAX_OFFERED
from agentnb.tools.function import tool
from agentnb.tools.mcp import tool_search
from agentnb.tools.mcp.mcp_server import MCPServer, ServerTools
from agentnb.tools.mcp.server_tool import MCPTool
from agentnb.tools.mcp.wire_names import FIND_TOOLS, wire_name
from agentnb.tools.toolbox import Toolbox


def mine(word: str) -> str:
    """Return the word."""
    return word


def own(name: str) -> Any:
    """Return a user's tool with this name."""

    def function(word: str) -> str:
        return word

    return tool(name=name)(function)


def find(query: str, limit: int = 2) -> list[ToolCall]:
    """Return a reply that finds tools."""
    return [ToolCall(FIND_TOOLS, {"query": query, "limit": limit})]


def names(run: Run) -> list[str]:
    """Return the names of the tools that a run offers, without the prefix of the server for tests."""
    return [tool.name.removeprefix("mcp_bench_") for tool in run.tools]


# With a server of 200 tools


MANY = bench("many", "200")


def test_few_tools_are_all_offered_and_many_are_searchable(servers: Servers) -> None:
    few = bench()
    run = played([find("add")], [mine, few], servers)
    assert len(names(run)) < MAX_OFFERED and FIND_TOOLS not in names(run)
    assert results(run)[0].error_code == "unknown_tool"

    run = played([find("delete a vessel"), find("merge the tide tables", 1)], [mine, "files", MANY], servers)
    place = names(run).index(FIND_TOOLS)
    assert names(run)[0] == "mine"
    assert "read_file" in names(run)[:place]
    assert names(run)[place + 1 :] == ["delete_vessel", "delete_vessel_v2", "merge_tide_table"]
    assert "mcp_bench_delete_vessel: Delete a vessel" in texts(run)[0]


def test_found_tools_join_the_next_request_in_stable_order(servers: Servers) -> None:
    script = [find("count crew"), calls(("grow", {"name": "list_berth"})), find("list berth", 3), find("berth", 6), "Done."]
    model = ScriptedModel(script)
    with use_host(Host(servers=servers)):
        Agent(model, tools=[mine, MANY], todos=False).run_sync("Go.", approve="auto")
    offers = [[spec.name for spec in request.tools] for request in model.requests]
    assert [len(offer) for offer in offers] == sorted({len(offer) for offer in offers}), "each finds some"
    for earlier, later in pairwise(offers):
        assert later[: len(earlier)] == earlier
    described = [{spec.name: spec.description for spec in request.tools} for request in model.requests]
    assert len({each[FIND_TOOLS] for each in described}) == 1, "its text stays, whatever the servers list"
    assert described[-1]["mcp_bench_list_berth"].startswith("A tool that came later")


def test_tool_search_shrinks_a_200_tool_request_to_a_fifth(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = []
    for most in (MAX_OFFERED, 10_000):
        monkeypatch.setattr(tool_search, "MAX_OFFERED", most)
        model = ScriptedModel(["Done."])
        with use_host(Host(servers=servers)):
            Agent(model, tools=[MANY]).run_sync("Which vessels are in the harbour?")
        tokens.append(tokens_of_request(model.requests[0]))
    assert tokens[0] <= tokens[1] / 5, tokens


def test_selected_tool_is_offered_and_hidden_one_once_called(servers: Servers) -> None:
    named = ServerTools("bench", "export_cargo", MANY)
    run = played([calls(("rename_permit", {"key": "p"}), ("renam_permit", {})), [ToolCall("zzqqy")]], [named, MANY], servers)
    assert names(run) == [FIND_TOOLS, "export_cargo", "rename_permit"]
    assert [result.error_code for result in results(run)] == [None, "unknown_tool", "unknown_tool"]
    assert "mcp_bench_rename_permit" in texts(run)[1]
    assert FIND_TOOLS in texts(run)[2]
    assert "mcp_bench_archive" not in texts(run)[2], "a name like none lists no hidden tools"


def test_hidden_tools_need_approval_but_the_search_does_not(servers: Servers) -> None:
    asked: list[str] = []

    def approve(call: ToolCall, run: Run) -> bool:
        asked.append(call.name)
        return "delete" not in call.name

    script = [find("delete a vessel", 1), calls(("delete_crew", {"key": "c"}), ("count_crew", {"key": "c"}))]
    run = played(script, [MANY], servers, approve=approve)
    assert asked == ["mcp_bench_delete_crew", "mcp_bench_count_crew"]
    assert [result.error_code for result in results(run)] == [None, None], "a denied call has no result of a tool"
    assert names(run) == [FIND_TOOLS, "delete_vessel", "count_crew"], "what was denied is not offered"


def test_invalid_and_empty_searches_give_advice(servers: Servers) -> None:
    replies = [[ToolCall(FIND_TOOLS, arguments)] for arguments in ({}, {"query": "x", "limit": 0}, {"query": "zzqqy"})]
    run = played(replies, [MANY], servers)
    assert [result.error_code for result in results(run)] == ["invalid_arguments", "invalid_arguments", "nothing_found"]


def test_found_tools_stay_in_the_conversation_and_in_a_fork(servers: Servers) -> None:
    model = ScriptedModel([find("delete a vessel", 1), "Done.", "Done again."])
    with use_host(Host(servers=servers)):
        agent = Agent(model, tools=[mine, MANY], todos=False)
        first = agent.run_sync("Go.", approve="auto")
        second = agent.run_sync("Again.", approve="auto", continue_from=first)
        assert names(first) == names(second) == ["mine", FIND_TOOLS, "delete_vessel"]
        assert [spec.name for spec in model.requests[-1].tools] == [spec.name for spec in first.tools]
        other = ScriptedModel([find("count crew", 1), "Done."])
        forked = fork_sync(first, 2, model=other, tools=[mine, MANY], approve="auto")
    assert names(forked) == ["mine", FIND_TOOLS, "delete_vessel", "count_crew"]


def test_recorded_run_with_found_tools_replays_without_a_server(servers: Servers) -> None:
    changing = [calls(("delete_vessel", {"key": "v"}), ("count_crew", {"key": "c"})), calls(("grow", {"name": "count_crew"}))]
    script = [find("delete a vessel", 1), *changing, find("zzqqy")]
    for todos in (False, True):
        with use_host(Host(servers=servers)):
            model = ScriptedModel([*script, "Done."])
            run = Agent(model, tools=[mine, MANY], todos=todos).run_sync("Go.", approve="auto")
        again = reproduce_sync(run)
        assert (texts(again), names(again)) == (texts(run), names(run))
        assert not [event for event in again.events if isinstance(event, ServerStarted)]


def test_each_agent_has_its_own_tool_search(servers: Servers) -> None:
    inner = Agent(ScriptedModel([find("delete a vessel", 1), "Inner."]), tools=[MANY], todos=False, name="inner")
    run = played([[ToolCall("inner", {"prompt": "Go."})], find("count crew")], [tool(inner), bench()], servers)
    assert FIND_TOOLS not in names(run)
    assert [result.error_code for result in results(run)] == [None, "unknown_tool"]


def test_tool_names_clashing_during_a_run_get_digests(servers: Servers) -> None:
    script = [calls(("grow", {"name": "a.b"})), calls(("grow", {"name": "a_b"})), calls(("where", {}))]
    run = played(script, [bench("grows")], servers)
    assert [result.is_error for result in results(run)] == [False, False, False]
    assert "a_b" not in names(run) and len([name for name in names(run) if name.startswith("a_b_")]) == 2
    assert all(any(f"'{name}'" in warning.message for warning in run.warned) for name in ("a.b", "a_b"))


def test_conflicting_tool_change_keeps_earlier_tools_with_a_warning(servers: Servers) -> None:
    @tool(name="mcp_bench_c_d")
    def own() -> str:
        """Return a word."""
        return "mine"

    run = played([calls(("grow", {"name": "c.d"})), calls(("where", {}))], [bench("stays"), own], servers)
    assert [result.is_error for result in results(run)] == [False, False]
    (warned,) = run.warned
    assert "'c.d'" in warned.message and "keeps the earlier ones" in warned.message


# Without a server


def of_server(*tools: str, about: str = "Does it.", server: str = "bench") -> list[Any]:
    """Return tools as a server lists them."""
    from mcp import types as t

    live: Any = SimpleNamespace(server=MCPServer(server, "program"), work_dir=Path())
    schema = {"type": "object"}
    listed = [t.Tool(name=name, description=about, input_schema=schema) for name in tools]
    return [MCPTool(live, one, wire_name(server, one.name)) for one in listed]


def run_tools(own: Iterable[Any] = (mine,), log: EventLog | None = None) -> tuple[RunTools, EventLog]:
    """Return the tools of a run and its log."""
    toolbox = Toolbox(own)
    if log is None:
        log = EventLog("r-1")
        log.append(opening(tools=toolbox.specs))
    return RunTools(log, toolbox), log


def numbered(*counts: int) -> list[str]:
    """Return numbered tool names."""
    return [f"t{number}" for number in range(*counts)]


def offered(tools: RunTools) -> list[str]:
    """Return the names of the tools that the next request offers."""
    return [tool.spec.name.removeprefix("mcp_bench_") for tool in tools.offered_tools()]


def test_server_tools_may_change_during_a_run() -> None:
    tools, log = run_tools()
    tools.take_server_tools(of_server(*numbered(37)))
    assert offered(tools) == ["mine", *numbered(37)]

    tools.take_server_tools(of_server(*numbered(45)))  # offered tools stay, the others can be found
    assert offered(tools) == ["mine", *numbered(37), FIND_TOOLS]
    assert tools.get("mcp_bench_t44") is not None
    search = tools.offered_tools()[-1].spec
    assert "45 tools" in search.description

    assert tools.offer(["mcp_bench_t44", "mcp_bench_t3", "mcp_bench_unknown"]) == ["mcp_bench_t44"]
    tools.take_server_tools([*of_server(*numbered(3, 45)), *of_server("t1", about="Does more.")])
    assert offered(tools) == ["mine", "t1", *numbered(3, 37), FIND_TOOLS, "t44"], "gone, and changed in its place"
    assert log.run.tools[1].description == "Does more."
    assert search in log.run.tools, "the count of the first request stays: another text would lose caches of prompts"

    events = len(log.run.events)
    tools.take_server_tools([*of_server(*numbered(3, 45)), *of_server("t1", about="Does more.")])
    assert len(log.run.events) == events, "nothing has changed"

    resumed, _ = run_tools(log=log)  # in another process
    resumed.take_server_tools(of_server(*numbered(45)))
    assert offered(resumed) == ["mine", "t1", *numbered(3, 37), FIND_TOOLS, "t44"]

    tools.take_server_tools(of_server("t44", "t3"))
    assert offered(tools) == ["mine", "t3", FIND_TOOLS, "t44"], "the search stays where it was"
    assert not tools.hidden


def test_tool_search_threshold_counts_all_tools_of_the_run() -> None:
    many_own = [own(f"own{number}") for number in range(30)]
    for count, servers, is_found in ((30, 10, False), (30, 11, True), (1, 39, False), (1, 40, True)):
        tools, log = run_tools(many_own[:count])
        tools.take_server_tools(of_server(*numbered(servers)))
        assert (FIND_TOOLS in offered(tools)) == is_found
        assert len(tools.hidden) == (servers if is_found else 0)
        assert [event.reason for event in log.run.events if isinstance(event, ToolsChanged)] == ["mcp_servers"]


def test_name_clash_error_names_both_tools(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    cases: dict[str, tuple[Any, list[Any]]] = {
        "of a tool of the person": (own("mcp_bench_t1"), of_server("t1")),
        "of one that is hidden": (own("mcp_bench_t50"), of_server(*numbered(60))),
        "of an agent": (tool(Agent(ScriptedModel([])), name="mcp_bench_t1"), of_server("t1")),
        "of the search": (own(FIND_TOOLS), of_server(*numbered(60))),
    }
    for case, (taken, listed) in cases.items():
        with subtests.test(case):
            tools, log = run_tools([taken])
            with pytest.raises(InvalidTool) as raised:
                tools.take_server_tools(listed)
            assert str(raised.value) == snapshot(case)
            assert len(log.run.events) == 1 and len(offered(tools)) == 1, "nothing is changed"
    tools, _ = run_tools([own(FIND_TOOLS)])
    tools.take_server_tools(of_server(*numbered(39)))
    assert offered(tools) == [FIND_TOOLS, *numbered(39)], "with few tools the name is free"
