"""Names of the tools of MCP servers as models see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.tools.mcp.mcp_server import NAME
from agentnb.tools.mcp.wire_names import MAX_CHARACTERS, may_be_of, may_mean, wire_name, wire_names
from agentnb.tools.tool import WIRE_NAME

SERVERS = st.from_regex(NAME, fullmatch=True)
TOOLS = st.one_of(st.text(max_size=200), st.text("ab_.:/ -", max_size=90), st.text(st.characters(categories=["Cs", "Lo"])))


@pytest.mark.req("K1.6", "R2.25")
def test_tool_names_are_made_valid_for_every_provider(subtests: pytest.Subtests) -> None:
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
def test_every_tool_name_suits_all_providers_and_contains_its_server(server: str, tool: str) -> None:
    name = wire_name(server, tool)
    assert WIRE_NAME.fullmatch(name)
    assert len(name) <= MAX_CHARACTERS
    assert may_be_of(server, name)
    assert wire_name(server, tool) == name


@examples(200)
@given(st.lists(st.tuples(st.sampled_from(["a", "a_b", "a.b", "b"]), TOOLS), max_size=20))
def test_names_are_unique(tools: list[tuple[str, str]]) -> None:
    names = wire_names(tools)
    assert len(set(names.values())) == len(names) == len(set(tools))


@pytest.mark.req("K1.6")
def test_colliding_tool_names_all_get_a_digest() -> None:
    alike = [("web", "page.fetch"), ("web", "page/fetch"), ("web", "page_fetch"), ("web_page", "fetch")]
    names = wire_names([*alike, ("web", "list"), ("web", "a.b"), ("web", "a/b")])
    assert names["web", "a.b"] != names["web", "a/b"]
    assert names["web", "list"] == "mcp_web_list"
    result = [names[tool] for tool in alike]
    assert len(set(result)) == 4 and "mcp_web_page_fetch" not in result
    assert all(WIRE_NAME.fullmatch(names[server, tool]) and may_be_of(server, names[server, tool]) for server, tool in alike)


def test_rule_matches_a_tool_in_every_spelling(subtests: pytest.Subtests) -> None:
    name = wire_name("my.web", "page.fetch", with_digest=True)
    cases: dict[str, bool] = {
        name: True,
        "mcp_my_web_page_fetch": True,
        "mcp_my.web_page.fetch": True,
        "mcp__my.web__page.fetch": True,
        "mcp__my_web__page_fetch": True,
        "mcp__my.web": True,
        "MCP__my.web__Page.Fetch": True,
        "mcp:my.web/page.fetch": True,
        "mcp:my.web/page_fetch": True,
        "my.web/page.fetch": True,
        "mcp__my_web__*": True,
        "mcp_my_web_page_*": True,
        "mcp:my.web/page/fetch": False,
        "mcp:my/web_page.fetch": False,
        "my_web_page_fetch": False,
        "mcp_my_web_page": False,
        "page.fetch": False,
    }
    for word, expected in cases.items():
        with subtests.test(word):
            assert may_mean(word, name, "my.web", "page.fetch") == expected
    assert may_mean("mcp:web/add", "mcp_web_add", "web", ""), "a recorded tool with only a name"
    assert not may_mean("mcp:web/ad", "mcp_web_add", "web", "")
