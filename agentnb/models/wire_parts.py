"""Pieces of messages that all wires share: names and ids that any provider accepts, and what stands for a picture."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from agentnb.core.messages import Image, Message, Text, ToolCall
from agentnb.core.request import Sent

T = TypeVar("T")

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

SAFE = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
WITHOUT_RESULT = "(no value)"
"""What stands for a result in which there is nothing."""


def safe(name: str) -> str:
    """The name of a tool, or the id of a call, as all providers accept it: a model may have asked for a tool with any name."""
    if SAFE.fullmatch(name):
        return name
    return _UNSAFE.sub("_", name)[:64] or "_"


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object, which all wires want; what was none is told under ``arguments``."""
    given = call.arguments
    return given if isinstance(given, dict) else {"arguments": given}


def read_arguments(text: str) -> Any:
    """The arguments that came as JSON text; the text itself where it is none, so that the model can be told what is wrong."""
    if not text.strip():
        return {}
    try:
        return _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def data_url(image: Image) -> str:
    """The picture as a ``data:`` URL."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"


def words_for(image: Image) -> str:
    """What a model reads that is sent no pictures."""
    return f"[{image.media_type}, {len(image.data):,} bytes: left out, this model is sent no pictures]"


def in_words(parts: Sequence[Any]) -> str:
    """The texts of these parts, with words for pictures."""
    told = [words_for(part) if isinstance(part, Image) else part.text for part in parts if isinstance(part, Text | Image)]
    return "\n".join(text for text in told if text)


def kept(message: Message, provider: str) -> list[dict[str, Any]]:
    """What this provider wants back as it was."""
    found = [getattr(part, "provider_metadata", None) for part in message.parts]
    return [metadata[provider] for metadata in found if metadata and provider in metadata]


def made_of(messages: Sequence[Message], form: Any, make: Callable[[Message], T], stop: int) -> list[T]:
    """What ``make`` makes of the first ``stop`` messages; in a conversation each is made once."""
    if isinstance(messages, Sent):
        return messages.made(form, make, stop)
    return [make(message) for message in messages[:stop]]


def lasting(messages: Sequence[Message]) -> Message:
    """The last message without what is said in passing."""
    return messages.lasting if isinstance(messages, Sent) else messages[-1]


def joined(fragments: Sequence[bytes]) -> bytes:
    """The items of a JSON list from their fragments; a message of which nothing is sent has an empty one."""
    return b",".join([fragment for fragment in fragments if fragment])
