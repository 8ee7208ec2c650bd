"""``agentnb accept``: accepts an MCP server that has changed, so that rules apply to it again."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from agentnb.cli.command import Command, argument, text_of
from agentnb.cli.mcp_files import servers_of
from agentnb.cli.terminal.terminal_questions import ask, is_at_terminal
from agentnb.cli.workflow_options import MCP
from agentnb.runtime.host.host import host_here
from agentnb.runtime.host.run_options import folder_of
from agentnb.runtime.servers.servers import Servers
from agentnb.session.server_acceptance import accept_as_now
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.mcp_server import PREFIX, ServerTools

NAME = argument("name", metavar="NAME", type=text_of, help="the name of the server in the file, or in MCP_SERVERS")


@contextmanager
def named_server(args: Namespace) -> Iterator[tuple[Servers, LiveServer, bool]]:
    """Yield the servers from a command's files, the named server, and whether the user can be asked."""
    asks = is_at_terminal()
    with servers_of(args.mcp, asks=asks):
        servers = host_here().servers
        assert servers is not None, "the block gives them"
        yield servers, servers.live(ServerTools(args.name.removeprefix(PREFIX)), folder_of(None)), asks


def accept(args: Namespace) -> str:
    """Accept an MCP server and its tools in their current state, after showing what has changed."""
    with named_server(args) as (servers, live, asks):
        return accept_as_now(servers, live, ask if asks else None) + "\n"


ACCEPT = Command(accept, (NAME, MCP), "agentnb accept clock --mcp servers.json")
