"""Guidance: ephemeral text for a model, and the model's compliance with it."""

from __future__ import annotations

import msgspec

from agentnb.core.schema.counts import Count


class Guidance(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Ephemeral guidance for the next request: sent, logged and judged, but never part of the conversation."""

    set: str
    """Name of the guidance set that the text comes from."""
    cell: str
    """A cell of the matrix, ``intervention`` and so on (`agentnb.detect.guidance_rules`), or a custom name."""
    text: str
    level: Count = 1
    """Strength, 1 to 3."""
    trigger: str = ""
    """The cause of the guidance."""
    version: str = ""
    """Content hash of the set."""
    asks: tuple[str, ...] = ()
    """Facts of a round (fields of `RoundFacts`), any of which counts as compliance; if empty, the cell's own rule applies."""
    forbids: tuple[str, ...] = ()
    """Facts that count as noncompliance."""
    about: tuple[str, ...] = ()
    """The tools that the guidance concerns, if any."""


class GuidanceTexts(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A guidance set as logged: its name, content hash, and text by part."""

    set: str = ""
    version: str = ""
    texts: dict[str, str] = msgspec.field(default_factory=dict)
    """Text by part; empty parts are omitted."""

    def text(self, part: str) -> str:
        """Return the text of a part, or an empty string."""
        return self.texts.get(part, "")


class Followed(msgspec.Struct, frozen=True, gc=False):
    """A reply's compliance with the guidance; ``followed`` is None if that cannot be determined."""

    followed: bool | None
    why: str
