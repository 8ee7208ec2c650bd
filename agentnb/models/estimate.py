"""Estimates of token counts that the provider does not report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Image, Message, Thinking, ToolResult, encodable_data
from agentnb.core.request import Request, Sent, ToolSpec
from agentnb.core.usage import Usage

CHARACTERS_A_TOKEN = 3.5
"""A rule of thumb for English and JSON, accurate to about a fifth."""
TOKENS_AN_IMAGE = 1_000

_encode = msgspec.json.Encoder().encode


def tokens_of_text(text: str) -> int:
    """Estimate the tokens of the text."""
    return round(len(text) / CHARACTERS_A_TOKEN)


def tokens_of_message(message: Message) -> int:
    """Estimate the tokens of a message as it is sent."""
    images, words = _images(message.parts), message.parts
    if images:
        words = tuple([_without_images(part) for part in message.parts if not isinstance(part, Image)])
    try:
        length = len(_encode(words))
    except UnicodeEncodeError:  # a lone surrogate, e.g. of a stream that broke off
        length = len(_encode(encodable_data(msgspec.to_builtins(words))))
    return round(length / CHARACTERS_A_TOKEN) + images * TOKENS_AN_IMAGE


def _images(parts: Iterable[object]) -> int:
    images = 0
    for part in parts:
        if isinstance(part, Image):
            images += 1
        elif isinstance(part, ToolResult):
            images += _images(part.parts)
    return images


def _without_images(part: AnyPart) -> AnyPart:
    if not isinstance(part, ToolResult) or not any(isinstance(item, Image) for item in part.parts):
        return part
    return replace(part, parts=tuple([item for item in part.parts if not isinstance(item, Image)]))


def tokens_of_tools(tools: tuple[ToolSpec, ...]) -> int:
    """Estimate the tokens of the tools' descriptions."""
    bare = [replace(tool, effects=(), role=None) if tool.effects or tool.role else tool for tool in tools]  # not sent
    return round(len(_encode(bare)) / CHARACTERS_A_TOKEN) if bare else 0


def about(request: Request, message: Message) -> Usage:
    """Estimate the usage of a call with this reply."""
    return Usage(tokens_of_request(request), tokens_of_message(message), estimated=True)


def with_estimates(usage: Usage, request: Request, message: Message) -> Usage:
    """Return the usage with an estimate for input or output tokens that are missing; the same object if both were counted.

    A count of 0 is treated as missing, because neither a request nor a reply with content is ever empty. If cached or reasoning
    tokens exceed their total, as some servers report them, they were counted separately and are added.
    """
    sent, received = usage.input, usage.output
    cached, reasoning = (usage.cache_read or 0) + (usage.cache_write or 0), usage.reasoning or 0
    if not sent:
        sent = max(tokens_of_request(request), cached)
    elif sent < cached:
        sent += cached
    if received is None or (not received and message.parts):
        shown = tuple([part for part in message.parts if not (reasoning and isinstance(part, Thinking))])
        received = tokens_of_message(Message(message.role, shown)) + reasoning
    elif received < reasoning:
        received += reasoning
    if (sent, received) == (usage.input, usage.output):
        return usage
    return replace(usage, input=sent, output=received, estimated=True)


class RunningEstimate:
    """A token estimate for a growing list of messages: each message is counted once, except the last."""

    def __init__(self, system: str, tools: tuple[ToolSpec, ...]) -> None:
        """``system`` and ``tools``: the parts of the request before the messages."""
        self._before = system, tools
        self._sums: list[int] = []
        """Cumulative tokens before each message; empty until the first estimate, which most runs never need."""

    def keep(self, count: int) -> None:
        """Keep only the counts of the first ``count`` messages; the others have changed."""
        del self._sums[count + 1 :]

    def of(self, messages: Sequence[Message]) -> int:
        """Estimate the tokens of a request with these messages, which must start with those of the previous call."""
        sums = self._sums
        if not sums:
            system, tools = self._before
            sums.append(tokens_of_text(system) + tokens_of_tools(tools))
        while len(sums) < len(messages):
            sums.append(sums[-1] + tokens_of_message(messages[len(sums) - 1]))
        return sums[max(0, len(messages) - 1)] + (tokens_of_message(messages[-1]) if messages else 0)


def tokens_of_request(request: Request) -> int:
    """Estimate the tokens of the entire request. In a conversation each message is encoded once."""
    messages = request.messages
    last = len(messages) - 1
    if isinstance(messages, Sent) and last >= 0:
        counts = sum(messages.map_messages("tokens", tokens_of_message, last)) + tokens_of_message(messages[last])
    else:
        counts = sum(map(tokens_of_message, messages))
    return tokens_of_text(request.system) + tokens_of_tools(request.tools) + counts
