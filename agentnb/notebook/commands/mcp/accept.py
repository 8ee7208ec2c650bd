"""``%agent mcp accept``: accepts a changed server in its current state, so that rules apply to it again."""

from __future__ import annotations

from typing import Any

from agentnb.display.texts.labels import clean
from agentnb.errors import SettingsError
from agentnb.notebook.commands.mcp.look import running
from agentnb.notebook.frontend import asker
from agentnb.session.server_acceptance import accept_as_now
from agentnb.session.session import Session
from agentnb.tools.mcp.mcp_server import PREFIX


def accept_command(session: Session, shell: Any, rest: str) -> None:
    """NAME: accept a server and its tools as they are now, after showing the changes and asking"""
    name = rest.removeprefix(PREFIX)
    if not name:
        raise SettingsError("Which server?", "Name one: %agent mcp accept NAME; %agent mcp lists them")
    print(clean(accept_as_now(session.servers, running(session, name).live, asker(shell))))
