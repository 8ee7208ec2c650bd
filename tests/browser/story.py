"""A scripted model with a chosen pace, and slow tools."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from agentnb import ToolCall
from agentnb.core.log.events import Delta, TextDelta, ThinkingDelta
from agentnb.core.messages import Message, Text, Thinking
from agentnb.core.usage import Usage
from agentnb.models import Reply

HELD: list[str] = []
"""Names of tools that have ended, for queries from outside."""


class Until(str):
    """In a reply: pause until the test allows this with `Lab.allow`."""

    __slots__ = ()


async def allowed(what: str) -> None:
    """Wait for a file of this name beside the notebook: during a cell, the kernel receives nothing else from the test."""
    while not Path(what).exists():
        await asyncio.sleep(0.01)


class Slow:
    """Streams its replies word by word.

    In a reply, a number is a pause in seconds, an `Until` is a pause that the test ends, and exceptions are raised.
    """

    name = "scripted:slow"

    def __init__(self, replies: Iterable[Any], pause: float = 0.0) -> None:
        self.replies = list(replies)
        self.pause = pause
        self.requests: list[Any] = []

    async def stream(self, request: Any) -> AsyncIterator[Delta | Reply]:
        self.requests.append(request)
        reply = self.replies.pop(0)
        made: list[Any] = []
        for part in reply if isinstance(reply, list) else [reply]:
            if isinstance(part, Exception):
                raise part
            if isinstance(part, float | int):
                await asyncio.sleep(part)
            elif isinstance(part, Until):
                await allowed(part)
            elif isinstance(part, ToolCall):
                made.append(part)
            else:
                words = part.text if isinstance(part, Thinking) else part
                for word in words.split(" "):
                    yield ThinkingDelta(word + " ") if isinstance(part, Thinking) else TextDelta(word + " ")
                    await asyncio.sleep(self.pause)
                made.append(part if isinstance(part, Thinking) else Text(part))
        usage = Usage(input=2_100, output=120, cache_read=1_500, cost=0.0123)
        yield Reply(Message("assistant", tuple(made)), usage=usage, stop_reason="end_turn")


def load_penguins(path: str) -> pd.DataFrame:
    """Load the penguins."""
    return pd.DataFrame({"species": ["Adelie", "Chinstrap", "Gentoo"], "n": [152, 68, 124], "mass": [3701, 3733, 5076]})


def plot(kind: str) -> Any:
    """Draw."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 2.6))
    figure.subplots().bar(["Adelie", "Chinstrap", "Gentoo"], [3701, 3733, 5076])
    return figure


def nap(seconds: float) -> str:
    """Sleep on the main thread."""
    try:
        time.sleep(seconds)
    finally:
        HELD.append("nap")
    return "slept"


async def doze(seconds: float) -> str:
    """Sleep on the event loop."""
    await asyncio.sleep(seconds)
    return "dozed"


async def wait(what: str) -> str:
    """Wait on the event loop until the test allows this."""
    await allowed(what)
    return "waited"


def hold(what: str) -> str:
    """Hold the main thread until the test allows this."""
    while not Path(what).exists():
        time.sleep(0.01)
    return "held"


def essay(length: int) -> str:
    """Much text."""
    return "\n".join(f"line {number}" for number in range(length))


def write(*titles: str) -> ToolCall:
    """The call that writes a todo list."""
    todos = [{"id": n, "title": title, "description": title, "status": "not-started"} for n, title in enumerate(titles, 1)]
    return ToolCall("todo_operations", {"operation": "write", "todoList": todos})


def update(number: int, status: str) -> ToolCall:
    """The call that changes a todo."""
    return ToolCall("todo_operations", {"operation": "update", "todoUpdates": [{"id": number, "status": status}]})
