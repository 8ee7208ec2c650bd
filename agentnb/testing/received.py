"""What a server was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HIDDEN = "…"
SECRET = frozenset({"authorization", "x-api-key"})
MAX_SHOWN = 200
"""Characters of a name, or of problems, that are shown of a request."""


@dataclass
class Received:
    """One request, and how it was answered."""

    wire: str
    """``messages``, ``chat`` or ``responses``."""
    raw: bytes
    headers: Mapping[str, str]
    """By their names in lower case; keys are left out."""
    body: dict[str, Any] = field(default_factory=dict)
    """Empty if what came was no JSON object."""
    answered: int | None = None
    """The HTTP status; None if there was no answer (yet)."""
    problems: tuple[str, ...] = ()
    """Why it was refused by the rules of the wire."""
    hung_up: bool = False
    """Whether the client went away before the end of the reply."""

    def __repr__(self) -> str:
        """On one line, without what was said: a body may hold megabytes."""
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
    """The headers with nothing secret in them."""
    return {name.lower(): HIDDEN if name.lower() in SECRET else value for name, value in headers.items()}
