"""The MCP servers of ``--mcp FILE``, available to the run of one command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agentnb.cli.terminal.standard_streams import complain
from agentnb.cli.terminal.terminal_questions import ask
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.session.confirmed_servers import load_server_file


@contextmanager
def servers_of(files: Sequence[str], *, asks: bool) -> Iterator[None]:
    """Make the servers of these files available to the run started in this block, and close their connections afterwards.

    ``asks``: True if the user can be asked about a file. Raises `SettingsError` if a file is unreadable or unconfirmed.
    """
    servers = Servers()
    try:
        for file in files:
            for note in load_server_file(servers, file, ask if asks else None).notes:
                complain(note)
        with use_host(Host(servers=servers)):
            yield
    finally:
        servers.close()
