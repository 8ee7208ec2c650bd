"""``%agent mcp login``: the person logs in to a server in the browser."""

from __future__ import annotations

from functools import partial
from typing import Any

from agentnb.display.texts.labels import clean
from agentnb.errors import SettingsError
from agentnb.notebook.commands.mcp.look import find_row
from agentnb.notebook.frontend import asker, masked
from agentnb.runtime.host.run_options import folder_of
from agentnb.session.server_login import log_in
from agentnb.session.session import Session
from agentnb.tools.mcp.server import PREFIX, ServerTools


def login_command(session: Session, shell: Any, rest: str) -> None:
    """NAME [SCOPE...]: log in to a server in the browser; SCOPE: rights to ask for besides those of before"""
    name, _, scope = rest.removeprefix(PREFIX).partition(" ")
    if not name:
        raise SettingsError("Which server?", "Name one: %agent mcp login NAME; %agent mcp lists them")
    row = find_row(session, name)
    live = row.live or session.servers.live(ServerTools(name, server=row.server), folder_of(None))
    ask = partial(masked, what="the address") if asker(shell) else None
    done = log_in(session.servers, live, scope.strip(), print, ask)
    print(clean(f"{done}. Next: %%agent -t {PREFIX}{name}"))
