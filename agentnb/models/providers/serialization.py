"""Serialization shared by all providers: accepted names and ids, replacement text for pictures, and calls that were cut off."""

from __future__ import annotations

import ast
import base64
import json
import re
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Image, JsonObject, Message, Text, ToolCall, encodable_data
from agentnb.core.request import Request, Sent, ToolSpec
from agentnb.core.schema.accepted_schema import accepted_schema
from agentnb.core.schema.nesting import bound_message, bound_metadata, is_too_deep
from agentnb.models.model import Reply
from agentnb.models.options import Options

T = TypeVar("T")

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

SAFE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
SAFE_ID = re.compile(r"[a-zA-Z0-9_-]{1,40}")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types that all APIs accept. With a picture of another type, every further request of the conversation would fail."""
NOT_SENT = "this model does not accept pictures"
OF_NO_KIND = "models do not accept this type of picture"
EMPTY = "it is empty"
MAX_TOKENS = 10**12
"""Larger token counts are ignored as server errors."""
DIGITS = re.compile("[0-9]{1,13}")
ARGUMENTS_MENDED = "arguments_mended"
"""Metadata key for repaired arguments: the call's name and the repairs."""
MAX_MENDED = 100_000
"""Maximum number of characters in arguments to be repaired."""
MAX_MENDS = 4
"""Maximum number of nested repairs of one call's arguments."""
WITHOUT_RESULT = "(no value)"
"""Text sent for an empty tool result."""


def safe_name(name: str) -> str:
    """Return the tool's name in a form that all providers accept: a model may call a tool by any name."""
    if SAFE_NAME.fullmatch(name):
        return name
    return _UNSAFE.sub("_", name)[:64] or "_"


def safe_id(call_id: str) -> str:
    """Return the call's id in a form that all providers accept. A checksum at its end keeps ids distinct."""
    if SAFE_ID.fullmatch(call_id):
        return call_id
    return f"{_UNSAFE.sub('_', call_id)[:31]}_{zlib.crc32(call_id.encode()):08x}"


def parameters(tool: ToolSpec) -> JsonObject:
    """Return the JSON Schema of a tool's arguments in a form that all providers accept."""
    return accepted_schema(tool.input_schema)


def words(value: Any) -> str:
    """Return the value, which must be text at this point in a stream. Raises TypeError otherwise."""
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {type(value).__name__}")
    return value


def arguments_of(call: ToolCall) -> JsonObject:
    """Return the arguments as an object, which all APIs require; any other value is put under the key ``arguments``."""
    arguments = call.arguments
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def read_arguments(text: str) -> Any:
    """Parse arguments from JSON text. Invalid JSON, or JSON nested too deeply, is returned as text and refused later."""
    if not text.strip():
        return {}
    try:
        arguments = _decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
    return text if is_too_deep(arguments) else arguments


def call_of(name: str, given: Any, call_id: str, mended: list[str], own: JsonObject | None = None) -> ToolCall:
    """Return the call with its arguments, and add their repairs to ``mended``."""
    arguments, odd = repair_arguments(given)
    if odd:
        mended.append(f"{name}: {odd}")
    return ToolCall(name, arguments, call_id, own)


def repair_arguments(given: Any) -> tuple[Any, str]:
    """Repair arguments that are not a JSON object, if the repair is unambiguous, and return them with a description of it.

    Unreadable or ambiguous arguments are returned unchanged and refused later.
    """
    original = read_arguments(given) if isinstance(given, str) else given
    if isinstance(original, dict):
        return original, ""
    current, repairs = original, []
    while (step := _repair_once(current)) is not None:
        current, odd = step
        repairs.append(odd)
        if isinstance(current, dict):
            return (original, "") if is_too_deep(current) else (current, ", ".join(repairs))
        if len(repairs) == MAX_MENDS:
            break
    return original, ""


def _repair_once(found: Any) -> tuple[Any, str] | None:
    """Apply one repair to arguments that are not an object, and return its description, or None if none applies."""
    if found in (None, "", []):
        return {}, "nothing"
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], dict):
        return found[0], "a list of one"
    for odd, read in _MENDS if isinstance(found, str) and len(found) <= MAX_MENDED else ():
        try:
            return read(found), odd
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return None


def _within(text: str) -> Any:
    """Return the JSON in a code block, or between leading words and template tokens; raise ValueError if there is none.

    No text may follow the JSON, since it might retract it.
    """
    if not (match := _AROUND.fullmatch(text)) or match[1] == text:
        raise ValueError
    return read_arguments(match[1])


def _in_a_row(text: str) -> Any:
    """Return the single object among consecutive ones that are otherwise empty or equal; raise ValueError if several differ."""
    objects: list[Any] = []
    remaining = whole = text.strip()
    while remaining.startswith("{") and len(objects) < 2:
        value, end = _decoder.raw_decode(remaining)
        objects += [value] if value and value not in objects else []
        remaining = remaining[end:].lstrip()
    if remaining == whole or len(objects) > 1 or remaining.strip("}] \n"):
        raise ValueError
    return objects[0] if objects else {}


def _literal(text: str) -> Any:
    """Return the dictionary in a Python or JavaScript literal that has only JSON values; raise ValueError otherwise."""
    value = ast.literal_eval(_TOKEN.sub(_in_python, text.strip()))
    if value is not None and not (isinstance(value, dict) and all(isinstance(key, str) for key in value)):
        raise ValueError
    return _decode(json.dumps(value, allow_nan=False))


def _in_python(token: re.Match[str]) -> str:
    """Return a string, key name or constant in Python's notation."""
    if token[0].startswith('"'):
        return repr(_decoder.decode(token[0]))
    return repr(token[0]) if token["key"] else {"true": "True", "false": "False", "null": "None"}.get(token[0], token[0])


def _refuse(name: str) -> Any:
    raise ValueError(name)


_decoder = json.JSONDecoder(strict=False, parse_constant=_refuse)
_AROUND = re.compile(r"[^{}\[\]\"]*([{\[\"].*[}\]\"])[\s;)`~\0]*(?:</?[a-z_|]{1,40}>\s*)*", re.DOTALL | re.IGNORECASE)
"""JSON after text or the start of a code block, and before the end of the block or the tokens of a chat template."""
_TOKEN = re.compile(r""""(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|(?P<key>[A-Za-z_$][\w$]*(?=\s*:))|[A-Za-z_]\w*""", re.DOTALL)
"""Strings, unquoted key names, and constants, in JSON and in literals of Python and JavaScript.

An unterminated string is one token too: otherwise the search would restart at each of its quotes.
"""
_MENDS: tuple[tuple[str, Callable[[str], Any]], ...] = (
    ("JSON within JSON", _decode),
    ("more than one object", _in_a_row),
    ("a literal of another language", _literal),
    ("text around it", _within),
)


def sanitize_reply(reply: Reply) -> Reply:
    """Return the reply without lone surrogates, which some servers send, but neither requests nor estimates can encode.

    Raises ValueError if a server sent a name, text or number of the wrong type.
    """
    reply = replace(reply, message=bound_message(reply.message), metadata=bound_metadata(reply.metadata))
    plain = msgspec.to_builtins(reply)
    try:
        encode(plain)
    except UnicodeEncodeError:
        plain = encodable_data(plain)
    return msgspec.convert(plain, Reply)


def count(value: Any) -> int | None:
    """Return the token count, or None if it is invalid: an invalid count must not discard a good reply that was paid for."""
    if (type(value) is float and value.is_integer()) or (type(value) is str and DIGITS.fullmatch(value)):
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None


def object_of(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, as the server should send, or else an empty object."""
    return value if isinstance(value, dict) else {}


def data_url(image: Image) -> str:
    """Return the picture as a ``data:`` URL."""
    return f"data:{image.media_type};base64,{base64.b64encode(image.data).decode()}"


def words_for(image: Image, why: str = NOT_SENT) -> str:
    """Return the replacement text for a picture."""
    return f"[{image.media_type}, {len(image.data):,} bytes, left out: {why}]"


def replacement_text(image: Image, sees: bool) -> str | None:
    """Return the replacement text for a picture that the model or every API refuses, or None if the picture is sent."""
    if not sees:
        return words_for(image)
    if image.media_type not in PICTURES:
        return words_for(image, OF_NO_KIND)
    return None if image.data else words_for(image, EMPTY)


def in_words(parts: Sequence[Any], sees: bool = False) -> str:
    """Return the joined text of these parts, with replacement text for pictures that are not sent."""
    texts = [
        replacement_text(part, sees) if isinstance(part, Image) else part.text
        for part in parts
        if isinstance(part, Text | Image)
    ]
    return "\n".join(text for text in texts if text)


def without_last_thoughts(items: list[JsonObject], kinds: Collection[str]) -> list[JsonObject]:
    """Remove items of these kinds from the end, and return the list: providers refuse a reply that ends with thinking."""
    while items and items[-1].get("type") in kinds:
        items.pop()
    return items


def without_half_call(parts: Sequence[AnyPart], *, ended: bool) -> tuple[tuple[AnyPart, ...], dict[str, str]]:
    """Return the parts of a truncated reply without its incomplete call, and that call's name as metadata.

    After complete calls, which are run, the incomplete call is kept and refused later: otherwise the model would not learn that
    it did not run. ``ended``: the server reported the end of the last part; otherwise, empty arguments count as incomplete.
    """
    last = parts[-1] if parts else None
    if not isinstance(last, ToolCall) or (isinstance(last.arguments, dict) and (last.arguments or ended)):
        return tuple(parts), {}
    before = tuple(parts[:-1])
    if any(isinstance(part, ToolCall) for part in before):
        before = (*before, replace(last, arguments=last.arguments or ""))
    return before, {"cut_call": last.name}


def encode_messages(messages: Sequence[Message], form: Any, make: Callable[[Message], T], stop: int) -> list[T]:
    """Apply ``make`` to each of the first ``stop`` messages and return the results, which are cached in a conversation."""
    if isinstance(messages, Sent):
        return messages.map_messages(form, make, stop)
    return [make(message) for message in messages[:stop]]


def encode_all_messages(messages: Sequence[Message], form: Any, make: Callable[[Message], T]) -> list[T]:
    """Apply ``make`` to each message and return the results; in a conversation, all but the last are cached."""
    last = len(messages) - 1
    return [*encode_messages(messages, form, make, last), make(messages[last])]


def fields_before(name: str, make: Callable[..., bytes], model: str, request: Request, options: Options, *more: Any) -> bytes:
    """Return the beginning of a request, up to its messages: ``make`` returns the fields before them, as a JSON object.

    In a conversation, it is cached as long as the arguments of ``make`` stay the same. ``name``: name of the provider.
    """
    head, sent = partial(make, model, request, options, *more), request.messages
    of = (model, options, request.system, request.tools, request.settings, *more)
    return (sent.once((name, "head"), of, head) if isinstance(sent, Sent) else head())[:-1]


def lasting(messages: Sequence[Message]) -> tuple[int, Message]:
    """Return the index of the last input message, and that message without its ephemeral text."""
    if isinstance(messages, Sent):
        return len(messages) - 1 - messages.said_since, messages.lasting
    return len(messages) - 1, messages[-1]


def join_fragments(fragments: Sequence[bytes]) -> bytes:
    """Join the fragments of a JSON list; messages that are not sent have empty fragments."""
    return b",".join(filter(None, fragments))


def known_fields(fields: Any) -> JsonObject:
    """Return the non-null fields of an object; an empty mapping for any other value."""
    return {key: value for key, value in object_of(fields).items() if value is not None}
