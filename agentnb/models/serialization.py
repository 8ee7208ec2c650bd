"""Pieces of messages that all wires share: names and ids that any provider accepts, what stands for a picture, half a call."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Image, Message, Text, ToolCall, encodable_data
from agentnb.core.nesting import bounded, bounded_metadata, is_too_deep
from agentnb.core.request import Sent, ToolSpec
from agentnb.models.model import Reply

T = TypeVar("T")

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

SAFE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SAFE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The kinds that all APIs take. With a picture of another kind in it, a conversation would be refused for ever."""
NOT_SENT = "this model is sent no pictures"
OF_NO_KIND = "models take no pictures of this kind"
EMPTY = "there is nothing in it"
MAX_TOKENS = 10**12
"""A count above it is none."""
WITHOUT_RESULT = "(no value)"
"""What stands for a result in which there is nothing."""


def safe_name(name: str) -> str:
    """The name of a tool as all providers accept it: a model may have asked for one with any name."""
    if SAFE_NAME.fullmatch(name):
        return name
    return _UNSAFE.sub("_", name)[:64] or "_"


def safe_id(call_id: str) -> str:
    """The id of a call as all providers accept it. It ends with a sum of the whole, so that no two become the same."""
    if SAFE_ID.fullmatch(call_id):
        return call_id
    return f"{_UNSAFE.sub('_', call_id)[:31]}_{zlib.crc32(call_id.encode()):08x}"


def parameters(tool: ToolSpec) -> dict[str, Any]:
    """The JSON Schema of what a tool takes, with the keys that providers want even where a tool takes nothing."""
    return {"type": "object", "properties": {}, **tool.input_schema}


def words(value: Any) -> str:
    """The text that a stream should have here; TypeError if it is something else."""
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {type(value).__name__}")
    return value


def arguments_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object, which all wires want; what was none is told under ``arguments``."""
    given = call.arguments
    return given if isinstance(given, dict) else {"arguments": given}


def read_arguments(text: str) -> Any:
    """Return the arguments that came as JSON text; the text itself, to be refused, where it is no JSON or nested too deep."""
    if not text.strip():
        return {}
    try:
        found = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return text if is_too_deep(found) else found


def checked(reply: Reply) -> Reply:
    """Return the reply without half characters, which some servers send; the next request, or an estimate, could not hold them.

    ValueError if a server sent something else where a name, a text or a number should be.
    """
    reply = replace(reply, message=bounded(reply.message), metadata=bounded_metadata(reply.metadata))
    plain = msgspec.to_builtins(reply)
    try:
        encode(plain)
    except UnicodeEncodeError:
        plain = encodable_data(plain)
    return msgspec.convert(plain, Reply)


def count(value: Any) -> int | None:
    """The number of tokens; None for what is no count: it would make a good reply, which is paid for, a broken one."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def object_of(value: Any) -> Mapping[str, Any]:
    """The object that a server should have sent here; without any fields if it is something else."""
    return value if isinstance(value, dict) else {}


def data_url(image: Image) -> str:
    """The picture as a ``data:`` URL."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"


def words_for(image: Image, why: str = NOT_SENT) -> str:
    """What a model reads in the place of a picture."""
    return f"[{image.media_type}, {len(image.data):,} bytes: left out, {why}]"


def left_out(image: Image, sees: bool) -> str | None:
    """The words for a picture that is not sent, as the model is sent none or no API takes it; None for one that is sent."""
    if not sees:
        return words_for(image)
    if image.media_type not in PICTURES:
        return words_for(image, OF_NO_KIND)
    return None if image.data else words_for(image, EMPTY)


def in_words(parts: Sequence[Any], sees: bool = False) -> str:
    """The texts of these parts, with words for the pictures that are not sent."""
    told = [left_out(part, sees) if isinstance(part, Image) else part.text for part in parts if isinstance(part, Text | Image)]
    return "\n".join(text for text in told if text)


def without_last_thoughts(items: list[dict[str, Any]], kinds: Collection[str]) -> list[dict[str, Any]]:
    """The pieces of a reply up to the last that is of none of these kinds: providers refuse what ends with thinking."""
    while items and items[-1].get("type") in kinds:
        items.pop()
    return items


def without_half_call(parts: Sequence[AnyPart], *, ended: bool) -> tuple[tuple[AnyPart, ...], dict[str, str]]:
    """The parts of a reply that was cut off by its length, without the call it broke off in; its name is told as metadata.

    Beside whole calls, which run, it stays as it came, to be refused: else the model would not learn that it did not run.
    ``ended``: the server has told the end of the last part. Without that, arguments may have been to come where there are none.
    """
    last = parts[-1] if parts else None
    if not isinstance(last, ToolCall) or (isinstance(last.arguments, dict) and (last.arguments or ended)):
        return tuple(parts), {}
    before = tuple(parts[:-1])
    if any(isinstance(part, ToolCall) for part in before):
        before = (*before, replace(last, arguments=last.arguments or ""))
    return before, {"cut_call": last.name}


def made_of(messages: Sequence[Message], form: Any, make: Callable[[Message], T], stop: int) -> list[T]:
    """What ``make`` makes of the first ``stop`` messages; in a conversation each is made once."""
    if isinstance(messages, Sent):
        return messages.made(form, make, stop)
    return [make(message) for message in messages[:stop]]


def made_once(messages: Sequence[Message], form: Any, of: tuple[Any, ...], make: Callable[[], T]) -> T:
    """What ``make`` makes ``of`` these; in a conversation it is made once, as long as they stay the same."""
    return messages.once(form, of, make) if isinstance(messages, Sent) else make()


def lasting(messages: Sequence[Message]) -> tuple[int, Message]:
    """Where the message stands to which the reply is, and that message without what is said in passing."""
    if isinstance(messages, Sent):
        return len(messages) - 1 - messages.said_since, messages.lasting
    return len(messages) - 1, messages[-1]


def joined(fragments: Sequence[bytes]) -> bytes:
    """The items of a JSON list from their fragments; a message of which nothing is sent has an empty one."""
    return b",".join(filter(None, fragments))
