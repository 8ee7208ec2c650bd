"""Acceptance of a changed MCP server by the person, who is shown what has changed since it was first seen."""

from __future__ import annotations

from collections.abc import Callable

from agentnb.core.redaction import redact
from agentnb.display.texts.servers.server_changes import CONFIRM, describe_changes
from agentnb.errors import SettingsError
from agentnb.runtime.questions.model_code import check_person
from agentnb.runtime.servers.first_seen import ACCEPTING, accept, compare_tools
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.connections.server_catalogue import tools_of


def accept_as_now(servers: Servers, live: LiveServer, ask: Callable[[str], str] | None) -> str:
    """Show the person the changes to a server and its tools, accept the current state, and return a report.

    Starts a server that is not running. ``ask``: writes a question and returns the line that the person types, or
    None if nobody is present. Raises `ServerFailed`, and `SettingsError` if nobody is present or the person declines.
    """
    check_person(ACCEPTING, is_lasting=True)
    name, tools = live.server.name, compare_tools(live, servers.ask(live, tools_of))
    changes = describe_changes(name, live.server.target, [(tool.spec.name, tool.origin) for tool in tools])
    if changes and ask is None:
        raise SettingsError(f"{redact(changes)}\nNobody can confirm this here", "Accept it in a notebook or a terminal")
    if changes and ask is not None:
        reply = ask(f"{redact(changes)}\n{CONFIRM}")
        if reply.strip().lower() not in ("y", "yes"):
            raise SettingsError("Nothing was accepted", "Its tools ask before each call")
    is_kept = accept(live.server, tools)
    report = (
        f"{name} is accepted in its current form: rules apply to it"
        if changes
        else f"{name} has not changed since it was first seen"
    )
    return report if is_kept else f"{report}. Your own folder is not writable, so this applies to this process only"
