"""``%agent mcp``: the MCP servers of a session. Each sub-command is a row of a table, and a module here does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentnb.errors import SettingsError, near
from agentnb.notebook.commands.mcp.configure import add_command, load_command, remove_command
from agentnb.session.session import Session

SUBCOMMANDS: dict[str, Callable[[Session, Any, str], Any]] = {
    "add": add_command,
    "load": load_command,
    "remove": remove_command,
}
"""What ``%agent mcp WORD`` does: functions of the session, the shell and the rest of the line."""


def mcp_command(session: Session, shell: Any, rest: str) -> Any:
    """Run the sub-command that the line names."""
    word, _, rest = rest.strip().partition(" ")
    if word not in SUBCOMMANDS:
        raise SettingsError(f"%agent mcp has no command {word!r}", near(word, SUBCOMMANDS))
    return SUBCOMMANDS[word](session, shell, rest.strip())


def mcp_words(before: list[str], session: Session) -> list[str]:
    """Return the words to offer behind ``%agent mcp`` and these words."""
    return [] if before else [*SUBCOMMANDS]
