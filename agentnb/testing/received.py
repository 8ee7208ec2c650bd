"""What a server was sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

HIDDEN = "…"
SECRET = frozenset({"authorization", "x-api-key"})


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


def without_keys(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with nothing secret in them."""
    return {name.lower(): HIDDEN if name.lower() in SECRET else value for name, value in headers.items()}
