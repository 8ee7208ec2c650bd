"""A scripted model that is a language model: asked for a summary, it gives one; and the runs that compact with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from streamed_replies import Streaming

from agentnb.core.compaction_records import Compacted
from agentnb.core.log.events import ContextCompacted
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.guidance.prompts import prompt
from agentnb.models.capabilities import Capabilities
from agentnb.models.model import Reply, StreamItem

SUMMARY = prompt("compaction")
"""The system prompt of whoever is asked for a summary."""


class Summarising:
    """Gives the replies of its script, and for each request for a summary the next of ``summaries``, the last again and again.

    ``requests`` are those of the rounds, ``asked`` those for summaries.
    """

    def __init__(
        self,
        replies: Iterable[Any],
        summaries: Iterable[Any] = ("What was done.",),
        window: int | None = None,
        priced: bool = True,
    ) -> None:
        self.name = "scripted:summarising"
        self.asked: list[Request] = []
        self._script = Streaming(replies)
        self._summaries = list(summaries)
        self._capabilities = Capabilities(language_model=True, context_window=window, has_price=priced)

    @property
    def requests(self) -> list[Request]:
        return self._script.requests

    def capabilities(self) -> Capabilities:
        return self._capabilities

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        if request.system != SUMMARY:
            async for item in self._script.stream(request):
                yield item
            return
        self.asked.append(request)
        summary = self._summaries[0] if len(self._summaries) == 1 else self._summaries.pop(0)
        async for item in Streaming([summary]).stream(request):
            yield item


class Summing(Streaming):
    """A scripted model that is asked for summaries too: they stand in its script."""

    def capabilities(self) -> Capabilities:
        return Capabilities(language_model=True, context_window=None, has_price=True)


def priced(*parts: Any, cost: float | None = 0.0, tokens: tuple[int, int] | None = None) -> Reply:
    """A reply that says what it cost and used."""
    message = Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))
    used = Usage(cost=cost) if tokens is None else Usage(input=tokens[0], output=tokens[1], cost=cost)
    return Reply(message, usage=used, stop_reason="tool_use" if message.calls else "end_turn")


def compactions(run: Run) -> list[ContextCompacted]:
    return [event for event in run.events if isinstance(event, ContextCompacted)]


def last_compaction(run: Run) -> Compacted:
    return compactions(run)[-1].compacted
