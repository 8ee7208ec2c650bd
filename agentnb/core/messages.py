"""Messages and their parts: frozen, comparable, the same for every provider.

Shapes and names follow the messages APIs: an assistant's message may hold text and several tool calls;
the results of all of them are together in the one ``tool`` message that follows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Literal, TypeAlias

import msgspec

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Part(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """One piece of a message. ``provider_metadata`` is opaque: what a provider sent is echoed back unchanged."""


class Text(Part, tag="text", frozen=True, gc=False):
    """A piece of text."""

    text: str
    provider_metadata: dict[str, Any] | None = None


class Thinking(Part, tag="thinking", frozen=True, gc=False):
    """The model's thinking before its text, with the signature that some providers want back."""

    text: str
    provider_metadata: dict[str, Any] | None = None


class Image(Part, tag="image", frozen=True, gc=False):
    """An image. ``data`` holds the bytes of the file (base64 in JSON)."""

    media_type: str
    data: bytes


class ToolCall(Part, tag="tool_call", frozen=True, gc=False):
    """A tool call of the model. The loop sets ``id`` if it is missing or repeated."""

    name: str
    arguments: Any = {}
    """An object. Anything else that a model sends is kept as it came, and refused when the call is run."""
    id: str = ""
    provider_metadata: dict[str, Any] | None = None


class ToolResult(Part, tag="tool_result", frozen=True, gc=False):
    """The one result of a tool call."""

    call_id: str
    name: str
    parts: tuple[Text | Image, ...] = ()
    is_error: bool = False
    error_code: str | None = None
    """``unknown_tool``, ``invalid_arguments``, ``tool_error``, ``timeout``, ``cancelled``, ``time_limit`` or a tool's own."""

    @property
    def text(self) -> str:
        """The text of the result."""
        return "\n".join([part.text for part in self.parts if type(part) is Text])


AnyPart: TypeAlias = Text | Thinking | Image | ToolCall | ToolResult


class Message(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One message of the conversation."""

    role: Role
    parts: tuple[AnyPart, ...] = ()
    author: str = ""
    """Who wrote it, where several agents share a conversation; never sent to a model."""
    is_placeholder: bool = False
    """True for the message in place of a prompt that a trace lacks."""

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
        """The tool calls in it, in order."""
        calls = []
        for part in self.parts:  # a plain loop: this is read twice in every round
            if type(part) is ToolCall:
                calls.append(part)  # noqa: PERF401
        return tuple(calls)


def user(text: str) -> Message:
    """Return a user message with this text."""
    return Message("user", (Text(encodable(text)),))


def joined(parts: Iterable[Text | Thinking]) -> tuple[Text | Thinking, ...]:
    """Return the parts of a reply that came in pieces: consecutive pieces of a kind are one part."""
    return tuple([kind("".join([part.text for part in pieces])) for kind, pieces in groupby(parts, type)])


def encodable(text: str) -> str:
    """Return the text without lone surrogates (half characters), which no JSON, file or API can carry."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNSEEN = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160), *_DIRECTIONS, *range(0xE0000, 0xE0080)))
"""Control characters, those that turn the direction of text, and the tags of Unicode, which a model reads as letters."""


def visible(text: str) -> str:
    """Return the text of a stranger, `encodable` and without characters that a person never sees."""
    return encodable(text).translate(_UNSEEN)


def encodable_data(value: Any) -> Any:
    """Return the plain data without lone surrogates in its texts and keys."""
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list | tuple):
        return [encodable_data(item) for item in value]
    if isinstance(value, dict):
        return {encodable_data(key): encodable_data(item) for key, item in value.items()}
    return value
