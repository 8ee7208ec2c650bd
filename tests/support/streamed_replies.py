"""Scripts of replies that are streamed item by item, and may break off, tell that they have begun, or never end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any

from agentnb.core.log.events import TextDelta
from agentnb.core.request import Request
from agentnb.models.model import StreamItem
from agentnb.models.scripted import ScriptedModel

FOREVER = object()
"""An item of `Streamed` that never comes."""


class Streamed:
    """A reply of these items: a word is a delta, an exception is raised, an event set. Without a `Reply`, it breaks off."""

    def __init__(self, *items: Any) -> None:
        self._items = items

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        for item in self._items:
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, threading.Event):
                item.set()
            elif item is FOREVER:
                await asyncio.Event().wait()
            else:
                yield TextDelta(item) if isinstance(item, str) else item


class Streaming(ScriptedModel):
    """A scripted model whose script may have `Streamed` replies."""

    def __init__(self, replies: Iterable[Any], **how: Any) -> None:
        self._script = list(replies)
        super().__init__(self._script, **how)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        line = self._script[len(self.requests)] if len(self.requests) < len(self._script) else None
        source: Any = line if isinstance(line, Streamed) else super()
        if source is line:
            self.requests.append(request)
        async for item in source.stream(request):
            yield item
