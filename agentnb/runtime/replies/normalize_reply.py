"""Normalizes a provider's reply for the log: each call has a unique id, and all of it can be encoded as JSON.

A reply is converted to JSON and back before anything reads it, so that the live run and the run loaded from its log
are the same even if the model was careless: tuples, numbers that JSON lacks, lone surrogates.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import Message, Text, ToolCall, encodable_data
from agentnb.core.redaction import redact
from agentnb.core.schema.nesting import bound_message, bound_metadata
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.models.model import Reply
from agentnb.settings import known_secrets


class _Kept(msgspec.Struct):
    """The logged part of a reply."""

    message: Message
    usage: Usage
    stop_reason: str
    metadata: dict[str, Any]


_PLAIN = frozenset({int, bool, type(None)})
_decode = msgspec.json.Decoder(_Kept).decode
_encode = msgspec.json.Encoder().encode


def normalize_reply(reply: Reply, run: Run) -> Reply:
    """Return the reply as the log can hold it, redacted.

    A call without an id, or with one that the conversation has used or may use for an inner call, gets a new
    ``toolu_…`` id.
    """
    if not _is_plain(reply):
        message, metadata = bound_message(reply.message), bound_metadata(reply.metadata)
        kept = _through_json(_Kept(message, reply.usage, reply.stop_reason, metadata))
        reply = Reply(kept.message, kept.usage, kept.stop_reason, kept.metadata, reply.raw, reply.seconds)
    keys = known_secrets()
    # Ids last: redaction may make two of them equal.
    message = _with_ids(redact(reply.message, keys) if keys else reply.message, run)
    return reply if message is reply.message else replace(reply, message=message)


def _is_plain(reply: Reply) -> bool:
    """Return whether JSON would leave the reply unchanged, because it holds only ASCII text and plain values."""
    cost = reply.usage.cost
    if reply.metadata or not reply.stop_reason.isascii() or not (cost is None or math.isfinite(cost)):
        return False
    for part in reply.message.parts:  # spelled out for speed: runs in every round
        if type(part) is ToolCall:
            if not _is_plain_call(part):
                return False
        elif type(part) is not Text or part.provider_metadata is not None or not part.text.isascii():
            return False
    return True


def _is_plain_call(call: ToolCall) -> bool:
    arguments = call.arguments
    if call.provider_metadata is not None or not (call.name.isascii() and call.id.isascii()) or type(arguments) is not dict:
        return False
    for name, value in arguments.items():
        if type(name) is not str or not name.isascii():
            return False
        kind = type(value)
        if kind not in _PLAIN and not (kind is str and value.isascii()):
            return False
    return True


def _through_json(kept: _Kept) -> _Kept:
    try:
        return _decode(_encode(kept))
    except UnicodeEncodeError:
        return _decode(_encode(encodable_data(msgspec.to_builtins(kept))))


def _with_ids(message: Message, run: Run) -> Message:
    used: set[str] = set()
    parts = message.parts
    for index, part in enumerate(parts):
        if type(part) is ToolCall:
            call_id = part.id
            is_taken = not call_id or call_id in used or run.has_call_id(call_id)
            # The tool of another call in the reply may make a call with this id.
            if is_taken or ("." in call_id and any(call_id.startswith(f"{call.id}.") for call in message.calls if call.id)):
                call_id = _fresh_id(run, used)
                parts = (*parts[:index], replace(part, id=call_id), *parts[index + 1 :])
            used.add(call_id)
    return message if parts is message.parts else replace(message, parts=parts)


def _fresh_id(run: Run, used: set[str]) -> str:
    # Derived, not random: a replayed run has the same ids. The run's own id separates conversations.
    stem = f"toolu_{run.id[-11:]}_{len(run.rounds)}_"
    number = len(used)
    while (fresh := f"{stem}{number}") in used or run.has_call_id(fresh):
        number += 1
    return fresh
