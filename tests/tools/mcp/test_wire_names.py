"""Names of the tools of MCP servers as models see them."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.errors import InvalidTool
from agentnb.tools.mcp.server import NAME
from agentnb.tools.mcp.wire_names import MAX_CHARACTERS, WireNames, may_be_of, wire_name, wire_names
from agentnb.tools.tool import WIRE_NAME

SERVERS = st.from_regex(NAME, fullmatch=True)
TOOLS = st.one_of(st.text(max_size=200), st.text("ab_.:/ -", max_size=90), st.text(st.characters(categories=["Cs", "Lo"])))


@pytest.mark.req("K1.6", "R2.25")
def test_names_of_tools(subtests: pytest.Subtests) -> None:
    long = "a" * 80
    cases = {
        ("clock", "get_current_time"): "mcp_clock_get_current_time",
        ("my.server-2", "web.fetch"): "mcp_my_server-2_web_fetch",
        ("git", "repo/log: all"): "mcp_git_repo_log__all",
        ("clock", ""): "mcp_clock_",
        ("clock", "今日"): "mcp_clock____f67b95e1",
        ("clock", "明日"): "mcp_clock____34072755",
        ("clock", "größe"): "mcp_clock_gr__e_",
        ("clock", long): f"mcp_clock_{'a' * 45}_",
        (long[:64], "b"): f"mcp_{'a' * 51}_",
    }
    for (server, tool), name in cases.items():
        with subtests.test(f"{server} {tool}"):
            assert wire_name(server, tool).startswith(name)


@examples(300)
@given(SERVERS, TOOLS)
def test_every_name_fits_all_providers_and_tells_its_server(server: str, tool: str) -> None:
    name = wire_name(server, tool)
    assert WIRE_NAME.fullmatch(name)
    assert len(name) <= MAX_CHARACTERS
    assert may_be_of(server, name)
    assert wire_name(server, tool) == name


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(["a", "a_b", "a.b", "b"]), TOOLS), max_size=20))
def test_names_are_of_one_tool_or_refused(tools: list[tuple[str, str]]) -> None:
    names, known = WireNames(), dict[str, tuple[str, str]]()
    for server, tool in tools:
        name = wire_name(server, tool)
        if known.setdefault(name, (server, tool)) == (server, tool):
            assert names.add(server, tool, name) == name
        else:
            with pytest.raises(InvalidTool):
                names.add(server, tool, name)
            assert names.free(server, tool) == ""


@pytest.mark.req("K1.6")
def test_two_tools_of_one_name_are_an_error_that_names_both(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    cases = {
        "servers and tools that join alike": [("a", "b_c"), ("a_b", "c")],
        "characters that become one": [("web", "page.fetch"), ("web", "page/fetch")],
    }
    for case, both in cases.items():
        with subtests.test(case):
            names = WireNames()
            names.add(*both[0], wire_name(*both[0]))
            with pytest.raises(InvalidTool) as raised:
                names.add(*both[1], wire_name(*both[1]))
            assert str(raised.value) == snapshot(case)


def test_tools_of_a_server_whose_names_become_one_all_get_a_digest() -> None:
    names = wire_names("web", ["page.fetch", "page/fetch", "page_fetch", "list"])
    assert names["list"] == "mcp_web_list"
    alike = [name for tool, name in names.items() if tool != "list"]
    assert len(set(alike)) == 3 and "mcp_web_page_fetch" not in alike
    assert all(WIRE_NAME.fullmatch(name) and may_be_of("web", name) for name in alike)
