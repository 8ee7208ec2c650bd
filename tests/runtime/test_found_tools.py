"""Tools of MCP servers that are too many for each request: found by words, offered from then on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from mcp_runs import bench, calls, played, results, texts

from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.finding import FIND_TOOLS, MAX_OFFERED
from agentnb.tools.mcp.server import ServerTools


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Connections of all tests of this module."""
    held = Servers()
    yield held
    held.close()


def mine(word: str) -> str:
    """Return the word."""
    return word


def find(query: str, limit: int = 2) -> list[ToolCall]:
    """Return a reply that finds tools."""
    return [ToolCall(FIND_TOOLS, {"query": query, "limit": limit})]


def names(run: Run) -> list[str]:
    """Return the names of the tools that a run offers, without those of the server for tests."""
    return [tool.name.removeprefix("mcp_bench_") for tool in run.tools]


def test_few_tools_are_all_offered_and_many_are_found(servers: Servers) -> None:
    few, many = bench(), bench("many", "200")
    assert len(names(played([], [mine, few], servers))) < MAX_OFFERED
    assert FIND_TOOLS not in names(played([], [mine, few], servers))

    run = played([find("delete a vessel"), find("merge the tide tables", 1)], [mine, "files", many], servers)
    place = names(run).index(FIND_TOOLS)
    assert names(run)[0] == "mine"
    assert "read_file" in names(run)[:place]
    assert names(run)[place + 1 :] == ["delete_vessel", "delete_vessel_v2", "merge_tide_table"]
    assert "mcp_bench_delete_vessel: Delete a vessel" in texts(run)[0]


def test_what_was_offered_stays_in_its_place(servers: Servers) -> None:
    many = bench("many", "200")
    run = played([find("count crew"), calls(("grow", {"name": "list_berth"})), find("berth")], [mine, many], servers)
    offers = [[tool.name for tool in event.tools] for event in run.events if type(event).__name__ == "ToolsChanged"]
    for earlier, later in pairwise(offers):
        assert later[: len(earlier)] == earlier


def test_named_tool_is_offered_and_a_hidden_one_from_its_first_call_on(servers: Servers) -> None:
    many = bench("many", "200")
    named = ServerTools("bench", "export_cargo", many)
    run = played([calls(("rename_permit", {"key": "p"}), ("renam_permit", {}))], [named, many], servers)
    assert names(run) == [FIND_TOOLS, "export_cargo", "rename_permit"]
    assert [result.error_code for result in results(run)] == [None, "unknown_tool"]
    assert "mcp_bench_rename_permit" in texts(run)[1]
    assert FIND_TOOLS in texts(run)[1]


def test_bad_and_empty_searches_say_what_to_do(servers: Servers) -> None:
    many = bench("many", "200")
    replies = [[ToolCall(FIND_TOOLS, arguments)] for arguments in ({}, {"query": "x", "limit": 0}, {"query": "zzqqy"})]
    run = played(replies, [many], servers)
    assert [result.error_code for result in results(run)] == ["invalid_arguments", "invalid_arguments", "nothing_found"]
