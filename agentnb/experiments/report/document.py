"""The blocks of a report, which a page and a Markdown file render."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from agentnb.core.key_shapes import mask_keys

T = TypeVar("T")


class Heading(NamedTuple):
    """The heading of a section."""

    text: str
    is_inner: bool = False
    """True for a subsection."""


class Paragraph(NamedTuple):
    """A paragraph of sentences."""

    text: str


class Bullets(NamedTuple):
    """A list of sentences."""

    items: Sequence[str]


class Facts(NamedTuple):
    """A list of facts, each with name, value and explanation."""

    rows: Sequence[tuple[str, str, str]]


class Grid(NamedTuple):
    """A table."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int] = ()
    """Indexes of the columns with numbers."""


class Picture(NamedTuple):
    """A figure."""

    name: str
    """File name, without suffix."""
    png: bytes
    width: int
    """Width on a page, in pixels."""
    description: str


class Code(NamedTuple):
    """Code to paste."""

    text: str
    language: str


class File(NamedTuple):
    """A file that accompanies the report."""

    path: str
    """Path relative to the report."""
    content: str
    """A description of the content."""


Block: TypeAlias = Heading | Paragraph | Bullets | Facts | Grid | Picture | Code | File


def mask_document(part: T) -> T:
    """Mask keys, and text that looks like a key, in the document or a part of it."""
    if isinstance(part, str):
        return mask_keys(part)  # type: ignore[return-value]  # a text
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*map(mask_document, part))
    return [*map(mask_document, part)] if isinstance(part, list | tuple) else part  # type: ignore[return-value]  # likewise


class Document(NamedTuple):
    """A report."""

    title: str
    blocks: Sequence[Block]
