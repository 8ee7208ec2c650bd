"""Guidance: ephemeral text for a model, and whether the model followed it."""

from __future__ import annotations

import msgspec

from agentnb.core.schema.counts import Count


class Guidance(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Ephemeral guidance for the next request: it is sent, logged and judged, and never part of the conversation."""

    set: str
    """The name of its guidance set."""
    cell: str
    """A cell of the matrix, ``intervention`` and so on (`agentnb.detect.rules`), or a name of one's own."""
    text: str
    level: Count = 1
    """Strength, 1 to 3."""
    trigger: str = ""
    """What caused it."""
    version: str = ""
    """The content hash of the set."""
    asks: tuple[str, ...] = ()
    """Facts of a round (fields of `RoundFacts`), any of which means that it was followed; empty: by the cell's own rule."""
    forbids: tuple[str, ...] = ()
    """Facts that mean that it was not followed."""
    about: tuple[str, ...] = ()
    """The tools that it is about, if it is about some."""


class GuidanceTexts(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A guidance set as a log has it: its name, the hash of its content, and its texts by part."""

    set: str = ""
    version: str = ""
    texts: dict[str, str] = msgspec.field(default_factory=dict)
    """Without the parts that say nothing."""

    def text(self, part: str) -> str:
        """Return the text of a part; empty for a part that says nothing."""
        return self.texts.get(part, "")


class Followed(msgspec.Struct, frozen=True, gc=False):
    """Whether the reply followed the guidance; None where that cannot be known."""

    followed: bool | None
    why: str
