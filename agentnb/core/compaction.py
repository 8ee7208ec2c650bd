"""What stands in a request in the place of messages that are too many to be sent."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from agentnb.core.usage import NOTHING_USED, Usage

WhyCompacted: TypeAlias = Literal["share", "messages", "overflow"]
"""Why a conversation was compacted: it filled its share of the context window, it had too many messages, or the provider
refused it as too long.
"""


class Compacted(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How a conversation is sent that was compacted: its first messages, then ``text``, then all from ``kept`` on.

    It changes what is sent, never what is stored: places are those of the whole conversation.
    """

    first: int
    """So many messages at the start are sent as they are."""
    kept: int
    """The place of the first message after the summary."""
    count: int
    """How many messages the text stands for, those of earlier summaries included."""
    text: str = ""
    """The summary, as it is sent. Without one, the todos that were open; empty if there were none."""


class Compaction(msgspec.Struct, frozen=True, gc=False):
    """One time that a conversation was compacted."""

    why: WhyCompacted
    compacted: Compacted | None = None
    """None while the summary is being written."""
    usage: Usage = NOTHING_USED
    """Of the call that wrote it."""
    seconds: float = 0.0
    problem: str = ""
    """Why there is no summary, if there is none."""
