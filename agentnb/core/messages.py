"""Messages and their parts: frozen, comparable, and independent of the provider.

Shapes and names follow the messages APIs: an assistant's message may contain text and several tool calls; all their results are
in the single ``tool`` message that follows.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Literal, TypeAlias

import msgspec

JsonObject: TypeAlias = dict[str, Any]
"""An object in JSON, such as a schema or a request."""
Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Part(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """A part of a message. ``provider_metadata`` is opaque, and echoed back to the provider unchanged."""


class Text(Part, tag="text", frozen=True, gc=False):
    """A text part."""

    text: str
    provider_metadata: JsonObject | None = None


class Thinking(Part, tag="thinking", frozen=True, gc=False):
    """The model's thinking before its text, with the signature that some providers require back."""

    text: str
    provider_metadata: JsonObject | None = None


class Image(Part, tag="image", frozen=True, gc=False):
    """An image. ``data`` holds the bytes of the file (base64 in JSON)."""

    media_type: str
    data: bytes


class ToolCall(Part, tag="tool_call", frozen=True, gc=False):
    """A tool call by the model. The loop sets ``id`` if it is missing or repeated."""

    name: str
    arguments: Any = {}
    """An object. Any other value from a model is stored unchanged, and refused when the call is run."""
    id: str = ""
    provider_metadata: JsonObject | None = None


ResultParts: TypeAlias = tuple[Text | Image, ...]


class ToolResult(Part, tag="tool_result", frozen=True, gc=False):
    """The result of a tool call."""

    call_id: str
    name: str
    parts: ResultParts = ()
    is_error: bool = False
    error_code: str | None = None
    """``unknown_tool``, ``invalid_arguments``, ``tool_error``, ``timeout``, ``cancelled``, ``time_limit`` or a tool's own
    code.
    """

    @property
    def text(self) -> str:
        """The text of the result."""
        return "\n".join([part.text for part in self.parts if type(part) is Text])


AnyPart: TypeAlias = Text | Thinking | Image | ToolCall | ToolResult


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message in the conversation."""

    role: Role
    parts: tuple[AnyPart, ...] = ()
    author: str = ""
    """The author if several agents share the conversation; never sent to a model."""
    is_placeholder: bool = False
    """True if the message stands in for a prompt missing from a trace."""

    @property
    def text(self) -> str:
        """The text of the message, without thinking and tool results."""
        text = ""
        for part in self.parts:  # a plain loop, as in `calls`
            if type(part) is Text:
                text += part.text
        return text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the message, in order."""
        calls = []
        for part in self.parts:  # a plain loop: used twice in every round
            if type(part) is ToolCall:
                calls.append(part)  # noqa: PERF401
        return tuple(calls)


def user(text: str) -> Message:
    """Return a user message with this text."""
    return Message("user", (Text(encodable(text)),))


def join_parts(parts: Iterable[Text | Thinking]) -> tuple[Text | Thinking, ...]:
    """Merge consecutive parts of the same kind in a streamed reply."""
    return tuple([kind("".join([part.text for part in pieces])) for kind, pieces in groupby(parts, type)])


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON, files and APIs cannot represent."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_BLANK_LETTERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters, marks and signs that are invisible when drawn."""
_SELECTORS = (range(0x180B, 0x1810), range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
"""Variation selectors, which are invisible when drawn."""


def is_invisible(char: str) -> bool:
    """True for a character that a person cannot see, including a space."""
    is_selector = any(ord(char) in selectors for selectors in _SELECTORS)
    return is_selector or char in _BLANK_LETTERS or unicodedata.category(char) in _INVISIBLE


_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNSEEN = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160), *_DIRECTIONS, *range(0xE0000, 0xE0080)))
"""Control characters, text direction marks, and Unicode tags, which a model reads as letters."""


def visible(text: str) -> str:
    """Make untrusted text `encodable`, and remove characters that a person cannot see."""
    return encodable(text).translate(_UNSEEN)


def pluralize(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``3 rounds`` or ``1 round``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def as_shown(text: str) -> str:
    """Return the text as a terminal shows it: only the final version of a line that is rewritten with carriage returns,
    such as a progress bar.
    """
    if "\r" not in text:
        return text
    *lines, last = text.split("\n")
    # The last line may continue: text after its final carriage return replaces it.
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    kept = last.rstrip("\r")
    return "\n".join([*shown, kept.rpartition("\r")[2] + last[len(kept) :]])


def encodable_data(value: Any) -> Any:
    """Replace lone surrogates in the strings and keys of plain data."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list | tuple):
        return [encodable_data(item) for item in value]
    if isinstance(value, dict):
        return {encodable_data(key): encodable_data(item) for key, item in value.items()}
    return value
