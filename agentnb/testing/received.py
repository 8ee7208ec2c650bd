"""Requests that a server received."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HIDDEN = "…"
SECRET = frozenset({"authorization", "x-api-key"})
MAX_SHOWN = 200
"""Maximum number of characters shown of a name or of the problems."""


@dataclass
class Received:
    """A request and the answer to it."""

    wire: str
    """``messages``, ``chat`` or ``responses``."""
    raw: bytes
    headers: Mapping[str, str]
    """Headers by lower-case name, with keys hidden."""
    body: dict[str, Any] = field(default_factory=dict)
    """Empty if the request was not a JSON object."""
    answered: int | None = None
    """HTTP status, or None if there is no answer (yet)."""
    problems: tuple[str, ...] = ()
    """The API rules that the request violates."""
    hung_up: bool = False
    """True if the client disconnected before the end of the reply."""

    def __repr__(self) -> str:
        """Return one line that omits the content, since a body may be megabytes long."""
        messages = self.body.get("messages", self.body.get("input", ()))
        count = len(messages) if isinstance(messages, list) else 1 if messages else 0
        status = "no answer" if self.answered is None else f"answered {self.answered}"
        details = [f"{self.wire} to {_short(self.body.get('model', '?'))}", f"{count} message{'s' * (count != 1)}", status]
        details += [f"problems: {_short('; '.join(self.problems))}"] if self.problems else []
        return f"<Received {', '.join(details)}{', hung up' if self.hung_up else ''}>"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + HIDDEN


def without_keys(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with secrets removed."""
    return {name.lower(): HIDDEN if name.lower() in SECRET else value for name, value in headers.items()}
