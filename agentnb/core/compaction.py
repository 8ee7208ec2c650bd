"""Compaction: what a request sends in place of messages that are too many."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from agentnb.core.schema.counts import Count
from agentnb.core.usage import NOTHING_USED, Usage

WhyCompacted: TypeAlias = Literal["share", "messages", "overflow", "recorded"]
"""Why a conversation was compacted: it filled its share of the context window, it had too many messages, or the provider
refused it as too long; ``recorded``: another product did so, and its trace was read.
"""


class Compacted(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How a compacted conversation is sent: its first messages, then ``text``, then everything from ``kept`` on.

    It changes what is sent, never what is stored: indexes are those of the whole conversation.
    """

    first: Count
    """Number of messages at the start that are sent unchanged."""
    kept: Count
    """Index of the first message after the summary."""
    count: Count
    """Number of messages that the text replaces, including those of earlier summaries."""
    text: str = ""
    """The summary as it is sent. If there is no summary, the todos that were open; empty if there were none."""


class Compaction(msgspec.Struct, frozen=True, gc=False):
    """One compaction of a conversation."""

    why: WhyCompacted
    compacted: Compacted | None = None
    """None while the summary is being written."""
    usage: Usage = NOTHING_USED
    """Usage of the model call that wrote the summary."""
    seconds: float | None = 0.0
    problem: str = ""
    """Why there is no summary, if there is none."""
