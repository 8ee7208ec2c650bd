"""``%agent mcp``: the MCP servers with state, tools and recent standard error, as HTML and as text."""

from __future__ import annotations

from agentnb.display.css import wrap_output
from agentnb.display.lists.server_words import (
    MAX_NAME,
    MAX_PROBLEM,
    MAX_TARGET,
    figures_of,
    problem_words,
    safe_line,
    server_count,
    state_of,
)
from agentnb.display.markup import NOTHING, Html, fold_tag, tag
from agentnb.display.parts.head import MARKS, marked_html
from agentnb.display.texts.labels import clean, pluralize
from agentnb.runtime.servers.servers import ListedServer

MAX_SERVERS = 100
"""Maximum servers listed; the rest are counted."""
MAX_TEXT_LINES = 3
"""Maximum lines of standard error in text. HTML has all lines that were kept, folded."""


def server_list_html(rows: list[ListedServer], hint: str) -> Html:
    """Return the list. ``hint``: the next command."""
    shown = [tag("div", "server-row", server_head_html(row), problem_html(row), stderr_html(row)) for row in rows[:MAX_SERVERS]]
    omitted = len(rows) - len(shown)
    more = tag("div", "server-row", f"{omitted:,} more") if omitted > 0 else NOTHING
    foot = tag("div", "server-hint", hint)
    return wrap_output(tag("div", "history", tag("div", "history-title", server_count(rows)), *shown, more, foot))


def server_head_html(row: ListedServer) -> Html:
    """Return the first line about a server: state, name, command or address, and figures."""
    target = safe_line(row.live.server.target, MAX_TARGET)
    first = tag(
        "span",
        "history-first",
        marked_html(*state_of(row), look="history-status", element="b"),
        " ",
        tag("b", "server-name", safe_line(row.live.server.name, MAX_NAME)),
        " ",
        tag("code", "server-target", target, title=target),
    )
    return tag("div", "server-line", first, " ", tag("span", "server-figures", " · ".join(figures_of(row))))


def stderr_html(row: ListedServer) -> Html:
    """Return the last lines of standard error, if any, in a fold."""
    lines = stderr_lines(row)
    if not lines:
        return NOTHING
    title = f"{pluralize(len(lines), 'line')} of standard error"
    return fold_tag("server-fold", "server-fold-title", title, tag("pre", "server-stderr", "\n".join(lines)))


def problem_html(row: ListedServer) -> Html:
    """Return why starting the server failed."""
    problem = problem_words(row)
    return tag("div", "server-problem", problem) if problem else NOTHING


# As text


def server_list_text(rows: list[ListedServer], hint: str) -> str:
    """Return a line for each server, followed by its failure and its recent standard error."""
    lines = [server_count(rows)]
    width = max((len(row.live.server.name) for row in rows[:MAX_SERVERS]), default=0)
    for row in rows[:MAX_SERVERS]:
        lines += server_head_lines(row, min(width, MAX_NAME))
    omitted = len(rows) - MAX_SERVERS
    return clean("\n".join([*lines, *([f"{omitted:,} more"] if omitted > 0 else []), *([hint] if hint else [])]))


def server_head_lines(row: ListedServer, width: int = 0) -> list[str]:
    """Return the lines about a server: its facts, its failure and its recent standard error."""
    tone, state = state_of(row)
    name = safe_line(row.live.server.name, MAX_NAME).ljust(width)
    figures = ", ".join(figures_of(row))
    problem = [f"    {problem_words(row)}"] if row.live.problem else []
    stderr = [f"    stderr: {line}" for line in stderr_lines(row)[-MAX_TEXT_LINES:]]
    return [f"{MARKS[tone]} {state:<15} {name}  {figures}  {safe_line(row.live.server.target, MAX_TARGET)}", *problem, *stderr]


def stderr_lines(row: ListedServer) -> list[str]:
    """Return the last lines of the server's standard error."""
    return [safe_line(line, MAX_PROBLEM) for line in row.live.stderr]
