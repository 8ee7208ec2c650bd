"""Traits of a server: deviations of its API, derived from its name, the options, and its refusals."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from agentnb import settings


@dataclass(frozen=True, slots=True)
class Traits:
    """Deviations of a Chat Completions server; the defaults suit most servers."""

    alternating: bool = False
    """True if a user message may follow only an assistant message, never tool results."""
    short_ids: bool = False
    """True if call ids must have nine letters and digits."""
    system: str = "anywhere"
    """Position of the system prompt: ``anywhere``, ``first``, or in the first message of the ``user``."""
    returns: str = ""
    """Field of a reply that the server expects back with calls; empty if there is none."""
    returned: str = "calls"
    """Which replies have their fields sent back to the server: ``always`` (all), ``calls`` (those with calls), or ``never``."""
    tools: bool = True
    """True if the template of its models accepts tools."""
    tool_choice_none: bool = False
    """True if it supports the tool choice ``none``."""
    parallel: bool = False
    """True if it supports ``parallel_tool_calls``."""
    stream_options: bool = True
    """True if it supports ``stream_options``."""
    usage: str = "alone"
    """Position of the usage in a stream: a separate chunk (``alone``), the ``last`` one with a choice, the ``choice`` itself,
    or ``x_groq``.
    """
    length_limit: str = "max_tokens"
    """Name of the limit on a reply's tokens."""
    text_content: bool = False
    """True if a message's content must always be text, even with calls; otherwise it is null when empty."""
    think_tags: bool = False
    """True if thinking is enclosed in tags at the start of the text."""


PLACES_OF_SYSTEM = ("anywhere", "first", "user")
LIMITS = ("max_tokens", "max_completion_tokens")
_learned: dict[str, dict[str, Any]] = {}
"""Traits learned from refusals in this process, by server and model."""
tried_in_run: ContextVar[set[str] | None] = ContextVar("tried_in_run", default=None)
"""Traits whose alternative form was tried in this run, or None outside a run."""


def learned_of(server: str) -> dict[str, Any] | None:
    """Return the traits learned from refusals of this server and model."""
    return _learned.get(server)


def learn(server: str, trait: str, value: Any) -> None:
    """Store a trait for the rest of the process."""
    _learned[server] = {**_learned.get(server, {}), trait: value}


def named_in(refusal: str, but: Collection[str] = ()) -> tuple[str, Any] | None:
    """Return the trait named in the text of a refusal, and its value, or None if no trait is named except those in ``but``."""
    rows = (row for row in settings.REFUSALS if row["trait"] not in but and re.search(row["words"], refusal, re.IGNORECASE))
    return next(((row["trait"], row["value"]) for row in rows), None)
