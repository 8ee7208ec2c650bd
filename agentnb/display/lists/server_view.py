"""``%agent mcp NAME``: an MCP server with its tools, resources and prompts, as HTML and as text."""

from __future__ import annotations

from typing import TypeAlias

from agentnb.display.css import wrap_output
from agentnb.display.lists.server_list import problem_html, server_head_html, server_head_lines, stderr_html
from agentnb.display.lists.server_words import MAX_NAME, MAX_TARGET, argument_list, safe_line
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag
from agentnb.display.texts.labels import clean, pluralize
from agentnb.runtime.servers.servers import ListedServer
from agentnb.tools.mcp.connections.server_catalogue import Catalogue
from agentnb.tools.mcp.resources import prompt_arguments
from agentnb.tools.mcp.server_tool import tools_of_server

MAX_ROWS = 200
"""Maximum tools, resources or prompts listed; the rest are counted."""
MAX_OPEN = 40
"""Maximum rows of a list that is open initially."""
MAX_LINE = 1_000
"""Maximum characters of one line of the instructions."""
INSTRUCTIONS = "Server instructions, shown only to you: no model reads them"


Row: TypeAlias = tuple[str, str, str]
"""An item of a server: its name or URI, its arguments or kind, and the server's description."""


def sections_of(row: ListedServer, catalogue: Catalogue) -> dict[str, list[Row]]:
    """Return the server's nonempty lists, by the noun for their items."""
    left_out = tools_of_server(row.live, row.live.tools).left_out
    usable = [tool for tool in row.live.tools if tool.name not in left_out]
    sections = {
        "tool": [_row(item.name, argument_list(item.input_schema), item.description) for item in usable],
        "unusable tool": [_row(name, None, why) for name, why in left_out.items()],
        "resource": [_row(item.uri, item.mime_type, item.description or item.title) for item in catalogue.resources],
        "resource template": [
            _row(item.uri_template, item.mime_type, item.description or item.title) for item in catalogue.templates
        ],
        "prompt": [_row(item.name, prompt_arguments(item), item.description) for item in catalogue.prompts],
    }
    return {noun: rows for noun, rows in sections.items() if rows}


def _row(name: str, kind: str | None, description: str | None) -> Row:
    first = (description or "").strip().partition("\n")[0]
    return safe_line(name, MAX_TARGET), safe_line(kind or "", MAX_TARGET), safe_line(first)


def facts_words(row: ListedServer) -> str:
    """Return the name that the server gives itself, the protocol, and its roots."""
    if row.live.facts is None:
        return ""
    facts = row.live.facts
    roots = [f"root {safe_line(root, MAX_TARGET)}" for root in row.live.server.roots] or ["no roots"]
    return ", ".join(
        filter(None, (safe_line(facts.software, MAX_NAME), f"protocol {safe_line(facts.protocol, MAX_NAME)}", *roots))
    )


def instructions_of(row: ListedServer) -> str:
    """Return the server's instructions, or ""."""
    return "" if row.live.facts is None else row.live.facts.instructions


def server_html(row: ListedServer, catalogue: Catalogue, hints: list[str]) -> Html:
    """Return the server with folds for its lists. ``hints``: the next commands."""
    facts = facts_words(row)
    parts = (
        tag("div", "server-row server-first-row", server_head_html(row), problem_html(row), tag("div", "quiet", facts)),
        *[_section_html(noun, rows) for noun, rows in sections_of(row, catalogue).items()],
        _instructions_html(instructions_of(row)),
        tag("div", "server-row", stderr) if (stderr := stderr_html(row)) else NOTHING,
        tag("div", "server-hint", *[tag("div", "", hint) for hint in hints]) if hints else NOTHING,
    )
    return wrap_output(tag("div", "history", *parts))


def _section_html(noun: str, rows: list[Row]) -> Html:
    shown = [_row_html(*cells) for cells in rows[:MAX_ROWS]]
    omitted = len(rows) - len(shown)
    items = tag("div", "server-items", *shown, tag("div", "quiet", f"{omitted:,} more") if omitted else NOTHING)
    title, is_open = pluralize(len(rows), noun), len(shown) <= MAX_OPEN
    return fold_tag("server-row", "server-section-title", title, items, open=is_open)


def _row_html(name: str, kind: str, description: str) -> Html:
    arguments = join_html(" ", tag("span", "server-item-kind", f"({kind})")) if kind else NOTHING
    first = tag("div", "server-item-first", tag("code", "server-item-name", name), arguments)
    return tag("div", "server-item", first, tag("div", "server-item-about", description))


def _instructions_html(text: str) -> Html:
    if not text:
        return NOTHING
    return fold_tag("server-row", "server-section-title", INSTRUCTIONS, tag("div", "server-instructions", _plain(text)))


def _plain(text: str) -> str:
    """Return the text with line breaks kept and known keys redacted."""
    return "\n".join(safe_line(line, MAX_LINE) for line in text.splitlines()[:MAX_ROWS])


# As text


def server_text(row: ListedServer, catalogue: Catalogue, hints: list[str]) -> str:
    """Return the server as lines of text."""
    lines = [*server_head_lines(row), *filter(None, [facts_words(row)])]
    for noun, rows in sections_of(row, catalogue).items():
        lines += [f"{pluralize(len(rows), noun)}:", *[_line(*cells) for cells in rows[:MAX_ROWS]]]
        lines += [f"  {omitted:,} more"] if (omitted := len(rows) - MAX_ROWS) > 0 else []
    text = instructions_of(row)
    lines += [f"{INSTRUCTIONS}:", *[f"  {line}" for line in _plain(text).splitlines()]] if text else []
    return clean("\n".join([*lines, *hints]))


def _line(name: str, kind: str, description: str) -> str:
    return f"  {name}{f' ({kind})' if kind else ''}{f'  {description}' if description else ''}"
