"""Server tools in a request, and the quality of tool search."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from mcp import types as t
from mcp_test_server import generated_tools
from property_settings import examples
from tool_searches import GENERATED, REAL, real_tools, tool_of

from agentnb.tools.defaults import MAX_OFFERED
from agentnb.tools.mcp.server_tool import MCPTool
from agentnb.tools.mcp.tool_search import MAX_QUERY_CHARACTERS, Offer, ToolFinder, next_offer, rank_tools
from agentnb.tools.mcp.wire_names import FIND_TOOLS, wire_name
from agentnb.tools.tool import ToolContext, ToolOutcome


def described(name: str, about: str, **properties: Any) -> t.Tool:
    """Return a tool as a server lists it."""
    return t.Tool(name=name, description=about, input_schema={"type": "object", "properties": properties})


MANY = [tool_of("bench", described(name, about)) for name, about in generated_tools(200).items()]


def words(*counts: int) -> list[str]:
    """Return names of tools: the first so many, or a range."""
    return [f"t{number}" for number in range(*counts)]


def test_tools_beyond_the_limit_are_hidden_behind_search(subtests: pytest.Subtests) -> None:
    all_known = tuple(words(60))
    cases: dict[str, tuple[Offer, Offer]] = {
        "none": (next_offer(5, []), Offer(())),
        "as many as fit": (next_offer(10, words(30)), Offer(tuple(words(30)))),
        "one too many": (next_offer(11, words(30)), Offer((FIND_TOOLS,), tuple(words(30)))),
        "all named by the person": (next_offer(0, words(60), (), words(60)), Offer(all_known)),
        "named ones": (next_offer(0, words(60), (), ["t3", "other"]), Offer((FIND_TOOLS, "t3"), (*words(3), *words(4, 60)))),
        "found ones": (
            next_offer(0, words(60), [FIND_TOOLS, "t9"], ["t2", "t9"]),
            Offer((FIND_TOOLS, "t9", "t2"), tuple([name for name in words(60) if name not in ("t9", "t2")])),
        ),
        "more came, and what was offered stays": (
            next_offer(3, words(45), words(37)),
            Offer((*words(37), FIND_TOOLS), tuple(words(37, 45))),
        ),
        "some went, and all fit again": (
            next_offer(3, words(20), [FIND_TOOLS, "t50", "t2"]),
            Offer((FIND_TOOLS, *ordered("t2"))),
        ),
        "the search stays when all is found": (
            next_offer(0, words(41), [FIND_TOOLS, *words(41)]),
            Offer((FIND_TOOLS, *words(41))),
        ),
    }
    for case, (offer, expected) in cases.items():
        with subtests.test(case):
            assert offer == expected


def ordered(first: str) -> list[str]:
    """Return the names of twenty tools, this one first."""
    return [first, *[name for name in words(20) if name != first]]


NAMES = st.lists(st.integers(0, 70).map("t{}".format), unique=True, max_size=70)


@examples(300)
@given(st.integers(0, 50), st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=6))
def test_new_offers_keep_the_order_and_lose_no_tool(own: int, turns: list[tuple[list[str], list[str]]]) -> None:
    shown: tuple[str, ...] = ()
    wanted: list[str] = []
    for servers, more in turns:
        wanted += more
        offer = next_offer(own, servers, shown, wanted)
        kept = [name for name in shown if name in servers or name == FIND_TOOLS]
        assert list(offer.shown[: len(kept)]) == kept
        assert len({*offer.shown, *offer.hidden}) == len(offer.shown) + len(offer.hidden)
        assert {*offer.shown, *offer.hidden} - {FIND_TOOLS} == {*servers}
        assert not {*wanted} & {*offer.hidden}
        assert not offer.hidden or (FIND_TOOLS in offer.shown and own + len(servers) > MAX_OFFERED)
        shown = offer.shown


def place_of(query: str, tools: Sequence[MCPTool], *wanted: str) -> int:
    """Return the rank of the first of these tools in the result of a query, counted from 1."""
    return next((place for place, tool in enumerate(rank_tools(query, tools), 1) if tool.spec.name in wanted), 1_000)


def test_search_finds_real_tools_among_many_similar_ones() -> None:
    real = real_tools()
    wanted = {query: wire_name(*name.split("/")) for query, name in REAL.items()}
    alone = [place_of(query, real, name) for query, name in wanted.items()]
    among_all = [place_of(query, [*real, *MANY], name) for query, name in [*wanted.items()][::3]]
    alike = {query: [wire_name("bench", name), wire_name("bench", f"{name}_v2")] for query, name in GENERATED.items()}
    of_many = [place_of(query, MANY, *names) for query, names in alike.items()]
    assert len(REAL) == 45 and sum(place <= 5 for place in alone) >= 43 and sum(place == 1 for place in alone) >= 35, alone
    assert len(among_all) == 15 and sum(place <= 5 for place in among_all) >= 14, among_all
    assert len(GENERATED) == 15 and all(place <= 5 for place in of_many), of_many


def test_empty_searches_find_nothing_and_long_ones_are_truncated() -> None:
    assert (
        rank_tools("", MANY) == rank_tools("the of with", MANY) == rank_tools("zzqqy", MANY) == rank_tools("delete", []) == []
    )
    assert rank_tools("löschen 削除", MANY) == []
    long = rank_tools("delete vessel " + "count crew " * 100_000, MANY)
    assert long[0].spec.name in ("mcp_bench_delete_vessel", "mcp_bench_count_crew")
    assert rank_tools(f"{'zzqqy ' * MAX_QUERY_CHARACTERS} vessel", MANY) == [], "only its beginning counts"
    odd = tool_of("odd", described("x", "", a=True, b={"description": ["no text"]}))
    assert rank_tools("vessel", [odd]) == []


def test_search_tells_the_model_which_tools_it_added(snapshot: Snapshot) -> None:
    offered: list[str] = []

    def offer(names: Sequence[str]) -> list[str]:
        new = [name for name in names if name not in offered]
        offered.extend(new)
        return new

    def search(arguments: Any) -> str:
        outcome: ToolOutcome = asyncio.run(finder.run(arguments, ToolContext("r", "c", Path(), None)))  # type: ignore[arg-type]
        return " ".join(getattr(part, "text", "") for part in outcome.parts)

    finder = ToolFinder(lambda: MANY, offer, {"bench": 200, "clock": 2})
    many = ToolFinder(lambda: MANY, offer, {f"server{number}": 10 for number in range(30)})
    bare = [tool_of("a", described("vessel", "Vessels.\nMore lines.")), tool_of("a", described("go", "", vessel={}))]
    texts = {
        "its description": finder.spec.description,
        "with many servers": many.spec.description,
        "first": search({"query": "delete a vessel", "limit": 2}),
        "again": search({"query": "delete vessel", "limit": 3}),
        "all known": search({"query": "delete vessel", "limit": 3}),
        "nothing": search({"query": "zzqqy"}),
        "no query": search({}),
        "broken arguments": search('{"query"'),
        "a limit that is none": search({"query": "vessel", "limit": True}),
    }
    finder = ToolFinder(lambda: bare, offer, {"a": 2})
    texts["descriptions"] = search({"query": "vessel"})
    assert [f"{case}: {text}" for case, text in texts.items()] == snapshot
