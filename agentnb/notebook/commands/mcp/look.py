"""``%agent mcp``, ``%agent mcp NAME`` and ``stop``: lists the servers, shows one, or stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from IPython.display import display

from agentnb.advice import AddServer
from agentnb.display.lists.server_list import server_list_html, server_list_text
from agentnb.display.lists.server_view import server_html, server_text
from agentnb.display.lists.server_words import MAX_NAME, MAX_TARGET, safe_line
from agentnb.display.markup import Html
from agentnb.errors import SettingsError, suggest_similar
from agentnb.notebook.widget_tools import has_kernel
from agentnb.runtime.host.run_options import folder_of
from agentnb.runtime.servers.servers import ListedServer
from agentnb.session.session import Session
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.connections.server_catalogue import Catalogue, catalogue_of
from agentnb.tools.mcp.mcp_server import PREFIX, ServerTools

NO_SERVERS = "There are no MCP servers yet. To add one: %agent mcp add NAME COMMAND"
HINT = "To see what a server offers: %agent mcp NAME. To use its tools: %%agent -t mcp:NAME"


def list_servers(session: Session, shell: Any) -> None:
    """Show the configured and connected servers, then raise `SettingsError` if ``MCP_SERVERS`` cannot be parsed."""
    rows = session.servers.list_rows(folder_of(None))
    hint = HINT if rows else NO_SERVERS
    _show(shell, server_list_text(rows, hint) if rows else hint, server_list_html(rows, hint) if rows else None)
    session.servers.configuration.check()


def show_server(session: Session, shell: Any, name: str, others: Iterable[str] = ()) -> None:
    """Show what a server offers, starting it if necessary.

    ``others``: words that the person may have meant instead of a name. Raises `SettingsError` or `ServerFailed`.
    """
    row = running(session, name.removeprefix(PREFIX), others)
    catalogue = session.servers.ask(row.live, catalogue_of)
    hints = _hints(row.live, catalogue)
    _show(shell, server_text(row, catalogue, hints), server_html(row, catalogue, hints))


def stop_command(session: Session, shell: Any, rest: str) -> None:
    """NAME: close the connections of a server; the next use starts it again"""
    name = rest.removeprefix(PREFIX)
    if not name:
        raise SettingsError("Which server?", "Name one: %agent mcp stop NAME; %agent mcp lists them")
    if session.servers.stop(name):
        print(f"{name} was stopped. The next use starts it again")
        return
    find_row(session, name)
    print(f"{name} is not running")


def running(session: Session, name: str, others: Iterable[str] = ()) -> ListedServer:
    """Return the server with this name; it connects at its first request. Prints a note if it must be started.

    Raises `SettingsError` for an unknown server.
    """
    row = find_row(session, name, others)
    if row.live.state != "ready":
        server = row.live.server
        verb = "Connecting to" if server.is_remote else "Starting"
        print(f"{verb} {safe_line(name, MAX_NAME)}: {safe_line(server.target, MAX_TARGET)}")
    return row


def find_row(session: Session, name: str, others: Iterable[str] = ()) -> ListedServer:
    """Return the server with this name, preferring a running one. Raises `SettingsError` if it is unknown."""
    rows = session.servers.list_rows(folder_of(None))
    matches = sorted((row for row in rows if row.live.server.name == name), key=lambda row: row.live.state != "ready")
    if not matches:
        candidates = [*others, *dict.fromkeys(row.live.server.name for row in rows)]
        problem = f"There is no MCP server {safe_line(name, MAX_NAME)}"
        raise SettingsError(problem, (*suggest_similar(name, candidates), AddServer("NAME", lead="Add one")))
    live = matches[0].live
    return matches[0]._replace(live=session.servers.live(ServerTools(name, server=live.server), live.work_dir))


def names_of(session: Session) -> list[str]:
    """Return the server names for tab completion."""
    return list(dict.fromkeys(row.live.server.name for row in session.servers.list_rows(folder_of(None))))


def listed_words(session: Session, name: str, words: Callable[[Catalogue], list[str]]) -> list[str]:
    """Return the URIs or names that a running server listed when it started, for tab completion. Queries no server."""
    listed = [word for live in session.servers.used if live.server.name == name for word in words(live.catalogue)]
    return [word for word in dict.fromkeys(listed) if safe_line(word, MAX_TARGET) == word and " " not in word]


def _hints(live: LiveServer, catalogue: Catalogue) -> list[str]:
    name = live.server.name
    hints = [f"To use its tools: %%agent -t {PREFIX}{name}"] if live.tools else []
    if catalogue.has_resources:
        hints.append(f"To read a resource: %agent mcp read {name} URI -o VARIABLE")
    if catalogue.prompts:
        hints.append(f"To get a prompt: %agent mcp prompt {name} PROMPT NAME=VALUE -o VARIABLE")
    return hints


def _show(shell: Any, text: str, html: Html | None) -> None:
    if html is None or not has_kernel(shell):
        print(text)
        return
    display({"text/plain": text, "text/html": html}, raw=True)
