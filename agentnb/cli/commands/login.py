"""``agentnb login``: the person logs in to an MCP server in the browser."""

from __future__ import annotations

from argparse import Namespace
from getpass import getpass

from agentnb.cli.command import Command, argument, text_of
from agentnb.cli.commands.accept import NAME, named_server
from agentnb.cli.terminal.streams import tell
from agentnb.cli.workflow_options import MCP
from agentnb.session.server_login import log_in


def login(given: Namespace) -> str:
    """Log in to an MCP server in the browser; the login is kept for later runs."""
    with named_server(given) as (servers, live, asks):
        return log_in(servers, live, " ".join(given.scope), tell, getpass if asks else None) + "\n"


LOGIN = Command(
    login,
    (
        NAME,
        argument("scope", nargs="*", type=text_of, metavar="SCOPE", help="rights to ask for besides those of before"),
        MCP,
    ),
    "agentnb login docs --mcp servers.json",
)
