"""``%agent mcp``: the MCP servers of a session. Sub-commands are rows of a table, and this package implements them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentnb.notebook.commands.mcp.accept import accept_command
from agentnb.notebook.commands.mcp.configure import ADD_OPTIONS, add_command, load_command, remove_command
from agentnb.notebook.commands.mcp.login import login_command
from agentnb.notebook.commands.mcp.look import list_servers, listed_words, names_of, show_server, stop_command
from agentnb.notebook.commands.mcp.read import prompt_command, read_command
from agentnb.session.session import Session
from agentnb.tools.mcp.connections.server_catalogue import Catalogue

SUBCOMMANDS: dict[str, Callable[[Session, Any, str], Any]] = {
    "add": add_command,
    "load": load_command,
    "remove": remove_command,
    "stop": stop_command,
    "accept": accept_command,
    "login": login_command,
    "read": read_command,
    "prompt": prompt_command,
}
"""Functions for ``%agent mcp WORD``. They take the session, the shell and the rest of the line."""


NAMES_FIRST = ("remove", "stop", "accept", "login", "read", "prompt")
"""Sub-commands whose first argument is the name of a server."""
LISTED: dict[str, Callable[[Catalogue], list[str]]] = {
    "read": lambda catalogue: [resource.uri for resource in catalogue.resources],
    "prompt": lambda catalogue: [prompt.name for prompt in catalogue.prompts],
}
"""Completions for the second argument of a sub-command, taken from the lists of a running server."""


def mcp_command(session: Session, shell: Any, rest: str) -> Any:
    """[NAME | add NAME COMMAND | load FILE | remove, stop, accept, login NAME | read NAME URI | prompt NAME PROMPT]: servers

    List the servers, show the one that the line names, or run its sub-command.
    """
    word, _, arguments = rest.strip().partition(" ")
    if word in SUBCOMMANDS:
        return SUBCOMMANDS[word](session, shell, arguments.strip())
    return show_server(session, shell, word, SUBCOMMANDS) if word else list_servers(session, shell)


def mcp_words(before: list[str], session: Session) -> list[str]:
    """Return completions for what follows ``%agent mcp`` and these words."""
    if not before:
        return [*SUBCOMMANDS, *names_of(session)]
    if before[0] == "add":
        return [*ADD_OPTIONS]
    if len(before) == 1 and before[0] in NAMES_FIRST:
        return names_of(session)
    listed = LISTED.get(before[0])
    return listed_words(session, before[1], listed) if listed and len(before) == 2 else []
