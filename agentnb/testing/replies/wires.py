"""The three APIs, by endpoint path."""

from __future__ import annotations

from agentnb.testing.replies import write_chat, write_messages, write_responses
from agentnb.testing.replies.reply_format import Wire

MESSAGES = Wire(
    "messages",
    "/v1/messages",
    write_messages.events,
    write_messages.whole,
    write_messages.error,
    write_messages.error_event,
    write_messages.with_unknown,
    write_messages.unknown_whole,
    "prompt is too long: 210000 tokens > 200000 maximum",
    "invalid_request_error",
)
CHAT = Wire(
    "chat",
    "/v1/chat/completions",
    write_chat.events,
    write_chat.whole,
    write_chat.error,
    write_chat.error_event,
    write_chat.with_unknown,
    write_chat.unknown_whole,
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens. "
    "Please reduce the length of the messages.",
    "context_length_exceeded",
)
RESPONSES = Wire(
    "responses",
    "/v1/responses",
    write_responses.events,
    write_responses.whole,
    write_chat.error,
    write_responses.error_event,
    write_responses.with_unknown,
    write_responses.unknown_whole,
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "context_length_exceeded",
)
WIRES = {wire.path: wire for wire in (MESSAGES, CHAT, RESPONSES)}
