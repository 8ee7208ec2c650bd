"""Traits of a server: where its wire differs from that of others. They come from its name, options, and its refusals."""

from __future__ import annotations

import re
from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from agentnb import settings


@dataclass(frozen=True, slots=True)
class Traits:
    """How a server of the Chat Completions API differs from others; the defaults are what nearly all take."""

    alternating: bool = False
    """Whether a message of the user may follow only one of the assistant, never results of tools."""
    short_ids: bool = False
    """Whether ids of calls have nine letters and digits."""
    system: str = "anywhere"
    """Place of the system prompt: ``anywhere``, ``first``, or in the first message of the ``user``."""
    returns: str = ""
    """The field of a reply that the server wants back beside calls; empty if it wants none."""
    returned: str = "calls"
    """Replies whose fields go back to their server: ``always``, those with ``calls``, ``never``."""
    tools: bool = True
    """Whether the template of its models takes tools."""
    tool_choice_none: bool = False
    """Whether it knows the choice ``none`` of tools."""
    parallel: bool = False
    """Whether it knows ``parallel_tool_calls``."""
    stream_options: bool = True
    """Whether it knows ``stream_options``."""
    usage: str = "alone"
    """Place of the usage in a stream: a chunk of its own (``alone``), the ``last`` one with a choice, the ``choice``,
    ``x_groq``."""
    length_limit: str = "max_tokens"
    """Name of the limit of a reply's tokens."""
    text_content: bool = False
    """Whether the content of a message is always a text, also beside calls; else null where there is none."""
    think_tags: bool = False
    """Whether thinking comes in tags at the start of the text."""


PLACES_OF_SYSTEM = ("anywhere", "first", "user")
LIMITS = ("max_tokens", "max_completion_tokens")
_learned: dict[str, dict[str, Any]] = {}
"""Traits that refusals have named in this process, by server and model."""
tried_in_run: ContextVar[set[str] | None] = ContextVar("tried_in_run", default=None)
"""Traits whose other form a request of this run was sent in; None outside a run."""


def learned_of(server: str) -> dict[str, Any] | None:
    """Return the traits that refusals of this server and model have named."""
    return _learned.get(server)


def learn(server: str, trait: str, value: Any) -> None:
    """Keep a trait for the rest of the process."""
    _learned[server] = {**_learned.get(server, {}), trait: value}


def named_in(refusal: str, but: Collection[str] = ()) -> tuple[str, Any] | None:
    """Return the trait that the words of a refusal name, and its value; None if they name none besides these."""
    rows = (row for row in settings.REFUSALS if row["trait"] not in but and re.search(row["words"], refusal, re.IGNORECASE))
    return next(((row["trait"], row["value"]) for row in rows), None)
