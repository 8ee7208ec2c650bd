"""``agentnb login``: logs the user in to an MCP server through the browser."""

from __future__ import annotations

from argparse import Namespace
from getpass import getpass

from agentnb.cli.command import Command, argument, text_of
from agentnb.cli.commands.accept import NAME, named_server
from agentnb.cli.terminal.standard_streams import tell
from agentnb.cli.workflow_options import MCP
from agentnb.errors import SettingsError
from agentnb.session.server_login import forget, in_lines, log_in


def login(args: Namespace) -> str:
    """Log in to an MCP server in the browser; the login is kept for later runs."""
    with named_server(args) as (servers, live, asks):
        if args.forget:
            return forget(servers, live) + "\n"
        ask = _ask if asks else None
        scope, client = " ".join(args.scope), args.client or ""
        return log_in(servers, live, lambda *lines: tell(in_lines(*lines)), ask, scope=scope, client=client) + "\n"


def _ask(question: str) -> str:
    """Return the line that the user types, without echoing it. Raises `SettingsError` at the end of input."""
    try:
        return getpass(question)
    except EOFError:
        raise SettingsError("The login was left open", "To log in, type the command again") from None


LOGIN = Command(
    login,
    (
        NAME,
        argument("scope", nargs="*", type=text_of, metavar="SCOPE", help="scopes to request in addition to earlier ones"),
        argument("--client", metavar="ID", type=text_of, help="the id of a registered client"),
        argument("--forget", action="store_true", help="forget the login instead"),
        MCP,
    ),
    "agentnb login docs --mcp servers.json",
)
