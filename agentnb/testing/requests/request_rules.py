"""The server's checks of a request: the rules of each API, and the key."""

from __future__ import annotations

from typing import Any

from agentnb.testing.memory import Memory
from agentnb.testing.replies.reply_format import Like, Wire
from agentnb.testing.requests import rules_chat, rules_messages, rules_responses


def problems(wire: Wire, body: dict[str, Any], headers: dict[str, str], memory: Memory, like: Like) -> list[str]:
    """Return the problems of the request under this API's rules; empty if it is valid."""
    try:
        if wire.name == "messages":
            return rules_messages.problems(body, memory, headers.get("anthropic-version"))
        if wire.name == "responses":
            return rules_responses.problems(body, memory)
        return rules_chat.problems(body, like.minimal, like.traits, memory)
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        # A value of an unexpected type, where no rule checks for it.
        return [f"Invalid type in the request: {error}"]


def key_problem(wire: Wire, headers: dict[str, str], key: str | None, needs_key: bool) -> str | None:
    """Return the problem with the key, or None. A small server requires a key only if it was configured with one."""
    kind, _, sent_key = headers.get("authorization", "").partition(" ")
    if not needs_key and key is None:
        return None
    if wire.name == "messages" and "x-api-key" in headers:
        kind, sent_key = "bearer", headers["x-api-key"]
    if kind.lower() == "bearer" and sent_key.strip() and key in (None, sent_key.strip()):
        return None
    if wire.name == "messages":
        return "invalid bearer token" if sent_key else "authorization header is required"
    return "Incorrect API key provided." if sent_key else "You didn't provide an API key."
