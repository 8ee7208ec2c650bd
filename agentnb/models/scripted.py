"""A model that plays back a script: for tests, demonstrations and teaching."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from agentnb.core.log.events import TextDelta
from agentnb.core.messages import AnyPart, Message, Text, Thinking, ToolCall
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import ScriptEnded
from agentnb.models.capabilities import NO_LANGUAGE_MODEL, Capabilities
from agentnb.models.model import Reply, StreamItem

Line: TypeAlias = "str | AnyPart | Sequence[str | AnyPart] | Reply | BaseException | Callable[[Request], Line]"
"""An entry of a script, for one reply: text, a tool call, a list of both, a complete `Reply`, an exception to raise, or a
function of the request that returns any of these."""


class ScriptedModel:
    """A model that returns the replies of a script, one per call, and an error when they run out.

    ``requests`` holds each `Request` as it was sent. With ``stream=False``, replies are not streamed. ``repeat``: start over
    after the last reply, so that a cell can be run again. ``used``: number of replies already used by a process that died.
    """

    def __init__(
        self,
        replies: Iterable[Line],
        *,
        name: str = "scripted:script",
        stream: bool = True,
        repeat: bool = False,
        used: int = 0,
    ) -> None:
        self.name = name
        self.used = used
        self.requests: list[Request] = []
        self._replies = list(replies)
        self._stream = stream
        self._repeat = repeat

    def capabilities(self) -> Capabilities:
        """Report no language model (it writes no summaries) and a known price."""
        return NO_LANGUAGE_MODEL

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yield the next reply of the script; raise `ScriptEnded` after the last."""
        self.requests.append(request)
        count = self.used + len(self.requests)
        if count > len(self._replies) and not (self._repeat and self._replies):
            raise self._end_error(count)
        reply = _as_reply(self._replies[(count - 1) % len(self._replies)], request)
        if self._stream:
            for word in re.findall(r"\S+\s*|\s+", reply.message.text):
                yield TextDelta(word)
        yield reply

    def _end_error(self, count: int) -> ScriptEnded:
        """Return the error raised after the last reply; it states whether earlier conversations used any replies."""
        begun = [index for index, request in enumerate(self.requests) if len(request.messages) == 1]
        if self._replies and begun and begun[-1]:
            before = min(self.used + begun[-1], len(self._replies))
            problem = (
                f"The script of {self.name} has {_reply_count(len(self._replies))}, and earlier runs used {before} of them"
            )
            hint = "Create the model again, or repeat its script: ScriptedModel(..., repeat=True)"
            return ScriptEnded(problem, hint)
        return ScriptEnded(
            f"The script of {self.name} has {_reply_count(len(self._replies))} but reply {count} was requested",
            "Add a reply, or use fewer tool calls: each reply with calls leads to another request",
        )


def _reply_count(count: int) -> str:
    return "1 reply" if count == 1 else f"{count} replies"


def _as_reply(line: Line, request: Request) -> Reply:
    if isinstance(line, BaseException):
        raise line.with_traceback(None)  # without the frames of an earlier reply
    if isinstance(line, Reply):
        return line
    if callable(line):
        return _as_reply(line(request), request)
    if isinstance(line, str | Text | Thinking | ToolCall):
        return _reply([line])
    if isinstance(line, Sequence):
        return _reply(line)
    raise TypeError(f"A script contains strings, ToolCalls, lists of these, exceptions and functions, not {line!r}")


def _reply(items: Sequence[str | AnyPart]) -> Reply:
    parts = tuple(_as_part(item) for item in items)
    message = Message("assistant", parts)
    return Reply(message, usage=Usage(cost=0.0), stop_reason="tool_use" if message.calls else "end_turn")


def _as_part(item: str | AnyPart) -> AnyPart:
    if isinstance(item, str):
        return Text(item)
    if isinstance(item, ToolCall):
        # Through JSON and back, like a provider's call: data that cannot be sent cannot be scripted.
        return msgspec.json.decode(msgspec.json.encode(item), type=ToolCall)
    return item
