"""MCP servers of a resumed run: those named in its log, as they are configured now.

A log never starts a command by itself: servers are configured by the person, or supplied with the agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentnb.advice import AddServer, Advised
from agentnb.core.redaction import redact
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.call_results import one_line
from agentnb.tools.mcp.logged import servers_of_log
from agentnb.tools.mcp.mcp_server import ServerTools


def changed_servers(run: Run, items: Iterable[ServerTools]) -> Iterator[tuple[str, Advised]]:
    """Yield a warning for each server that differs from the one in the resumed run's log."""
    logged = servers_of_log(run.settings)
    for name, server in {item.name: item.server for item in items}.items():
        if server is not None and name in logged and logged[name].target != redact(server.target):
            change = f"The MCP server {name} is now {one_line(server.target)}; it was {one_line(logged[name].target)}"
            yield f"{change} when the run began", "Earlier grants do not apply: its tools ask again"


def check_configured(servers: Servers, items: Iterable[ServerTools], run: Run) -> None:
    """Raise `SettingsError`, quoting the command or address from the run's log, for a server that is not configured."""
    logged, configured = servers_of_log(run.settings), servers.configuration.known
    for item in items:
        if item.server is None and item.name not in configured and item.name in logged:
            servers.configuration.check()
            server = f"the MCP server {item.name} ({one_line(logged[item.name].target)})"
            why = f"Run {run.id} had {server}, which is not configured here"
            raise SettingsError(
                why, AddServer(name=item.name, lead="Logs cannot start commands. If you trust the server, configure it")
            )
