"""MCP servers as a list and one by one: their text stays text and is bounded."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile import check_is_harmless, visible_text
from mcp.types import Prompt, Resource, ResourceTemplate, Tool
from mcp_runs import PROGRAM, bench, odd
from mcp_test_server import HOSTILE

from agentnb.display.lists.server_list import MAX_SERVERS, server_list_html, server_list_text
from agentnb.display.lists.server_view import MAX_ROWS, sections_of, server_html, server_text
from agentnb.display.lists.server_words import MAX_ARGUMENTS, argument_list
from agentnb.errors import ServerFailed
from agentnb.runtime.servers.servers import IN_CODE, Servers
from agentnb.settings import Key
from agentnb.tools.mcp.connections.server_catalogue import Catalogue, catalogue_of
from agentnb.tools.mcp.mcp_server import MCPServer, ServerTools


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Return a running server, one that failed to start, a configured one, and one from code."""
    held = Servers()
    held.configuration.add(bench("hostile"))
    held.configuration.add(MCPServer("gone", "no-such-program"))
    held.configuration.add(MCPServer("later", "https://tools.example/mcp"))
    held.ask(held.live(ServerTools("bench"), Path("/work")), catalogue_of)
    for item in (ServerTools("gone"), ServerTools("coded", server=MCPServer("coded", "no-such-program"))):
        with pytest.raises(ServerFailed):
            held.ask(held.live(item, Path("/work")), catalogue_of)
    yield held
    held.close()


def plain(text: str) -> str:
    """Return the text without what varies between machines and hours."""
    told = text.replace(sys.executable, "PYTHON").replace(PROGRAM, "PROGRAM")
    return re.sub(r"\d+ tools", "N tools", re.sub(r"since \d\d:\d\d", "since TIME", told))


def test_server_list_is_shown_as_text_and_html(servers: Servers, snapshot: object) -> None:
    rows = servers.list_rows(Path("/work"))
    assert [(row.live.server.name, row.live.state, row.source) for row in rows] == [
        ("bench", "ready", "added"),
        ("gone", "failed", "added"),
        ("later", "configured", "added"),
        ("coded", "failed", IN_CODE),
    ]
    assert plain(server_list_text(rows, "A hint")) == snapshot
    html = server_list_html(rows, "A hint")
    check_is_harmless(html)
    assert plain(visible_text(html)) == snapshot


def test_one_server_is_shown_as_text_and_html(servers: Servers, snapshot: object) -> None:
    row = servers.list_rows(Path("/work"))[0]
    catalogue = servers.ask(row.live, catalogue_of)
    text, html = server_text(row, catalogue, ["A hint"]), server_html(row, catalogue, ["A hint"])
    assert "  add (a: integer, b: integer)  Add two numbers.\n" in text
    assert "  grow (name?: string)  Add a tool with this name, or change it.\n" in text
    assert re.sub(r"(?s)N tools:\n.*(?=\d resources:)", "N tools: ...\n", plain(text)) == snapshot  # tests add tools to it
    check_is_harmless(html)
    for rows in sections_of(row, catalogue).values():
        assert all(" ".join(cell.split()) in visible_text(html) for line in rows for cell in line)


def test_tools_that_cannot_be_used_are_shown_with_the_reason() -> None:
    servers = Servers()
    listed = [{"name": "get", "inputSchema": {"type": "object"}}, {"name": "rows", "inputSchema": {"type": "array"}}]
    live = servers.live(ServerTools("odd", server=odd({"result": {"tools": listed}})), Path("/work"))
    catalogue = servers.ask(live, catalogue_of)
    (row,) = servers.list_rows(Path("/work"))
    html = server_html(row, catalogue, [])
    check_is_harmless(html)
    for text in (server_text(row, catalogue, []), visible_text(html)):
        assert "1 tool" in text and "1 unusable tool" in text
        assert "rows" in text and "its schema does not describe an object" in text
    servers.close()


def test_foreign_names_and_descriptions_are_bounded_and_redacted(servers: Servers) -> None:
    secret = "a-value-that-is-a-secret-0123456789"
    Key("TEST_SETTING", secret, "this test")
    bad = f"{HOSTILE}\n{secret} {'long ' * 1_000}"
    catalogue = Catalogue(
        tuple([Resource(name=bad, uri=bad, mime_type=bad, description=bad) for _ in range(MAX_ROWS + 5)]),
        (ResourceTemplate(name=bad, uri_template=bad),),
        (Prompt(name=bad, description=bad),),
    )
    row = servers.list_rows(Path("/work"))[0]
    for text in (server_text(row, catalogue, []), server_html(row, catalogue, [])):
        check_is_harmless(text) if text.startswith("<") else None
        assert secret not in text
        assert "5 more" in text
        assert len(text) < 600_000
    assert all(
        len(cell) <= 300 and "\n" not in cell for rows in sections_of(row, catalogue).values() for line in rows for cell in line
    )


def test_long_server_list_is_truncated_with_a_count() -> None:
    held = Servers()
    for number in range(MAX_SERVERS + 3):
        held.configuration.add(MCPServer(f"server{number:03}", "program"))
    rows = held.list_rows(Path("/work"))
    for text in (server_list_text(rows, ""), server_list_html(rows, "")):
        assert "103 MCP servers" in text
        assert "3 more" in text
        assert "server102" not in text


def test_arguments_show_name_and_type(subtests: pytest.Subtests) -> None:
    for schema, words in (
        ({"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}, "required": ["a"]}, "a: integer, b?: string"),
        (
            {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "b": {"enum": [1]}}},
            "a?: string, b?: choice",
        ),
        ({"properties": {"a": {"type": ["string", "null"]}, "b": True, "c": {"type": 3}}}, "a?: string, b?, c?"),
        ({"properties": []}, ""),
        ({"properties": {str(number): {} for number in range(MAX_ARGUMENTS + 2)}}, ", 2 more"),
    ):
        with subtests.test(words):
            listed = argument_list(Tool(name="any", input_schema=schema).input_schema)
            assert listed.endswith(words) if words.startswith(",") else listed == words
