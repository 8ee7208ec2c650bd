"""The blocks of a report, which a page and a Markdown file write each in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from agentnb.core.key_shapes import mask_keys

T = TypeVar("T")


class Heading(NamedTuple):
    """The heading of a section."""

    text: str
    is_inner: bool = False
    """Whether it is of a part of a section."""


class Paragraph(NamedTuple):
    """Sentences."""

    text: str


class Bullets(NamedTuple):
    """A list of sentences."""

    items: Sequence[str]


class Facts(NamedTuple):
    """Facts: of each its name, its value, and what that says."""

    rows: Sequence[tuple[str, str, str]]


class Grid(NamedTuple):
    """A table."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    """Columns that hold numbers."""


class Picture(NamedTuple):
    """A figure."""

    name: str
    """Of its file, without an ending."""
    png: bytes
    width: int
    """Pixels on a page."""
    description: str


class Code(NamedTuple):
    """Code to paste."""

    text: str
    language: str


class File(NamedTuple):
    """A file beside the report."""

    path: str
    """Relative to the report."""
    content: str
    """What it holds, in words."""


Block: TypeAlias = Heading | Paragraph | Bullets | Facts | Grid | Picture | Code | File


def mask_document(part: T) -> T:
    """Return the document, or a part of it, with keys and texts that look like keys masked."""
    if isinstance(part, str):
        return mask_keys(part)  # type: ignore[return-value]  # a text
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(mask_document, part))
    return [*map(mask_document, part)] if isinstance(part, list | tuple) else part  # type: ignore[return-value]  # likewise


class Document(NamedTuple):
    """A report."""

    title: str
    blocks: Sequence[Block]
