"""Blocks of a report, rendered by a page and a Markdown file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from agentnb.core.key_shapes import mask_keys

T = TypeVar("T")


class Heading(NamedTuple):
    """Heading of a section."""

    text: str
    is_inner: bool = False
    """True for a subsection."""


class Paragraph(NamedTuple):
    """Sentences."""

    text: str


class Bullets(NamedTuple):
    """A list of sentences."""

    items: Sequence[str]


class Facts(NamedTuple):
    """Facts: name, value, and explanation of each."""

    rows: Sequence[tuple[str, str, str]]


class Grid(NamedTuple):
    """A table."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    """Indexes of numeric columns."""


class Picture(NamedTuple):
    """A figure."""

    name: str
    """File name, without suffix."""
    png: bytes
    width: int
    """Width in pixels on a page."""
    description: str


class Code(NamedTuple):
    """Code to paste."""

    text: str
    language: str


class File(NamedTuple):
    """File beside the report."""

    path: str
    """Path relative to the report."""
    content: str
    """Description of its content."""


Block: TypeAlias = Heading | Paragraph | Bullets | Facts | Grid | Picture | Code | File


def mask_document(part: T) -> T:
    """Mask keys, and texts that look like keys, in the document or a part of it."""
    if isinstance(part, str):
        return mask_keys(part)  # type: ignore[return-value]  # a text
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(mask_document, part))
    return [*map(mask_document, part)] if isinstance(part, list | tuple) else part  # type: ignore[return-value]  # likewise


class Document(NamedTuple):
    """A report."""

    title: str
    blocks: Sequence[Block]
