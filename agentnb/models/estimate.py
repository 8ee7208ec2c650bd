"""Token counts where nobody has counted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Image, Message, ToolResult
from agentnb.core.request import Request
from agentnb.core.tool_spec import ToolSpec
from agentnb.core.usage import Usage

CHARACTERS_A_TOKEN = 3.5
"""A rule of thumb for English and JSON; good to about a fifth."""
TOKENS_AN_IMAGE = 1_000

_encode = msgspec.json.Encoder().encode


def tokens_of_text(text: str) -> int:
    """About how many tokens the text is."""
    return round(len(text) / CHARACTERS_A_TOKEN)


def tokens_of_message(message: Message) -> int:
    """About how many tokens the message is when sent."""
    parts = [part for one in message.parts for part in (one.parts if isinstance(one, ToolResult) else (one,))]
    images = sum(isinstance(part, Image) for part in parts)
    words = [_without_images(part) for part in message.parts if not isinstance(part, Image)]
    return round(len(_encode(words)) / CHARACTERS_A_TOKEN) + images * TOKENS_AN_IMAGE


def _without_images(part: AnyPart) -> AnyPart:
    if not isinstance(part, ToolResult) or not any(isinstance(one, Image) for one in part.parts):
        return part
    return replace(part, parts=tuple([one for one in part.parts if not isinstance(one, Image)]))


def tokens_of_tools(tools: tuple[ToolSpec, ...]) -> int:
    """About how many tokens the descriptions of the tools are."""
    told = [replace(tool, effects=()) if tool.effects else tool for tool in tools]  # no model is sent those
    return round(len(_encode(told)) / CHARACTERS_A_TOKEN) if told else 0


def about(request: Request, message: Message) -> Usage:
    """About what a call with this reply uses."""
    return Usage(tokens_of_request(request), tokens_of_message(message), estimated=True)


class RunningEstimate:
    """About how many tokens a request is whose messages grow in number: those behind which another stands are counted once."""

    def __init__(self, system: str, tools: tuple[ToolSpec, ...]) -> None:
        """``system`` and ``tools``: what stands before the messages."""
        self._before = system, tools
        self._sums: list[int] = []
        """Of what stands before each message; nothing until somebody asks, which most runs never do."""

    def keep(self, count: int) -> None:
        """Only so many messages at the start are still the same."""
        del self._sums[count + 1 :]

    def of(self, messages: Sequence[Message]) -> int:
        """The request with these messages, which begin as those of the last time did."""
        sums = self._sums
        if not sums:
            system, tools = self._before
            sums.append(tokens_of_text(system) + tokens_of_tools(tools))
        while len(sums) < len(messages):
            sums.append(sums[-1] + tokens_of_message(messages[len(sums) - 1]))
        return sums[max(0, len(messages) - 1)] + (tokens_of_message(messages[-1]) if messages else 0)


def tokens_of_request(request: Request) -> int:
    """About how many tokens the whole request is."""
    messages = sum(tokens_of_message(message) for message in request.messages)
    return tokens_of_text(request.system) + tokens_of_tools(request.tools) + messages
