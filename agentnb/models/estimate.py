"""Token counts where nobody has counted."""

from __future__ import annotations

import msgspec

from agentnb.core.messages import Image, Message
from agentnb.core.request import Request
from agentnb.core.tool_spec import ToolSpec

CHARACTERS_A_TOKEN = 3.5
"""A rule of thumb for English and JSON; good to about a fifth."""
TOKENS_AN_IMAGE = 1_000

_encode = msgspec.json.Encoder().encode


def tokens_of_text(text: str) -> int:
    """About how many tokens the text is."""
    return round(len(text) / CHARACTERS_A_TOKEN)


def tokens_of_message(message: Message) -> int:
    """About how many tokens the message is when sent."""
    images = sum(isinstance(part, Image) for part in message.parts)
    words = [part for part in message.parts if not isinstance(part, Image)]
    return round(len(_encode(words)) / CHARACTERS_A_TOKEN) + images * TOKENS_AN_IMAGE


def tokens_of_tools(tools: tuple[ToolSpec, ...]) -> int:
    """About how many tokens the descriptions of the tools are."""
    return round(len(_encode(tools)) / CHARACTERS_A_TOKEN) if tools else 0


def tokens_of_request(request: Request) -> int:
    """About how many tokens the whole request is."""
    messages = sum(tokens_of_message(message) for message in request.messages)
    return tokens_of_text(request.system) + tokens_of_tools(request.tools) + messages
