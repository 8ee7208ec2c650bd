"""Counting the free slots of a limiter."""

from __future__ import annotations

import asyncio
from typing import Any

from waiting import turns

from agentnb.models.defaults import MAX_AT_ONCE
from agentnb.models.transport.limiter import Limiter


async def free_places(limiter: Limiter) -> int:
    """Return the number of slots that can be taken now; all are released again."""
    entered: list[Any] = []
    while len(entered) <= MAX_AT_ONCE:
        place = limiter.place()
        coming = asyncio.ensure_future(place.__aenter__())
        await turns()
        if not coming.done():
            coming.cancel()
            await asyncio.wait([coming])
            break
        entered.append(place)
    for place in entered:
        await place.__aexit__(None, None, None)
    return len(entered)
