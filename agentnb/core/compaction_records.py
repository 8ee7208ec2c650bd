"""Compaction: replacing messages in a request whose conversation is too long."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from agentnb.core.schema.counts import Count
from agentnb.core.usage import NOTHING_USED, Usage

WhyCompacted: TypeAlias = Literal["share", "messages", "overflow", "recorded"]
"""The reason for a compaction: the conversation filled its share of the context window, had too many messages, or was rejected
by the provider as too long; ``recorded``: another product compacted it, according to its trace."""


class Compacted(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The compacted form of a conversation: its first messages, then ``text``, then everything from ``kept`` on.

    Affects only requests, never the stored conversation; indexes refer to the full conversation.
    """

    first: Count
    """Number of initial messages that are sent unchanged."""
    kept: Count
    """Index of the first message after the summary."""
    count: Count
    """Number of messages replaced by the text, including those of earlier summaries."""
    text: str = ""
    """The summary as sent; if there is none, the open todos, if any."""


class Compaction(msgspec.Struct, frozen=True, gc=False):
    """A compaction of a conversation."""

    why: WhyCompacted
    compacted: Compacted | None = None
    """The result, or None while the summary is being written."""
    usage: Usage = NOTHING_USED
    """Usage of the model call for the summary."""
    seconds: float | None = 0.0
    problem: str = ""
    """The reason why there is no summary."""
