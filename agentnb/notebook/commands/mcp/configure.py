"""``%agent mcp add``, ``load`` and ``remove``: the servers that the session knows."""

from __future__ import annotations

from typing import Any

from agentnb.session.session import Session


def add_command(session: Session, shell: Any, rest: str) -> None:
    """NAME COMMAND... | URL: configure a server, replacing one of its name"""
    raise NotImplementedError


def load_command(session: Session, shell: Any, rest: str) -> None:
    """FILE: configure the servers of an mcpServers file, after it was shown and confirmed"""
    raise NotImplementedError


def remove_command(session: Session, shell: Any, rest: str) -> None:
    """NAME: forget a server that was added or loaded, and end its connection"""
    raise NotImplementedError
