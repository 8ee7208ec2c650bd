"""Models of providers that wait hardly at all before they try again, and one call of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from waiting import wait_until

from agentnb.core.messages import Message, user
from agentnb.core.request import Request
from agentnb.errors import ModelError
from agentnb.models import RemoteModel, Reply, make_model
from agentnb.models.transport.retry import RetryPolicy
from agentnb.testing import LoopbackServer

WIRES = ("anthropic", "openai", "openai-responses", "ollama", "compatible")
"""All providers of language models."""
FORMATS = ("anthropic", "openai", "openai-responses", "compatible")
"""Without the second of those that are called alike."""
QUICK = RetryPolicy(rate_limit_first=0.001, trouble_first=0.001)
NEVER = RetryPolicy(rate_limit_retries=0, trouble_retries=0)
LONG = RetryPolicy(rate_limit_first=100.0, trouble_first=100.0)
"""Waits so long that a test which waits too has failed."""
PATIENCE = 40
"""Seconds after which a test is sure that something was waited for: fewer than the shortest wait of `LONG`."""
REQUEST = Request("", [user("Go.")])


def quick(name: str, retries: RetryPolicy = QUICK) -> RemoteModel:
    """The model of this name, with these retries."""
    model = make_model(name)
    assert isinstance(model, RemoteModel)
    model.retries = retries
    return model


async def items_of(model: RemoteModel, request: Request = REQUEST) -> list[Any]:
    """Chunks of one call."""
    return [item async for item in model.stream(request)]


async def reply_of(model: RemoteModel, *messages: Message) -> Reply:
    """Its reply."""
    sent: Sequence[Message] = messages or REQUEST.messages
    *_, last = await items_of(model, Request("", sent))
    assert isinstance(last, Reply)
    return last


async def items_into(told: list[Any], model: RemoteModel) -> None:
    """Add what one call yields, as it comes: what comes before an error is wanted too."""
    async with aclosing(model.stream(REQUEST)) as items:  # type: ignore[type-var]
        async for item in items:
            told.append(item)  # noqa: PERF401


def ask(server: LoopbackServer, wire: str, retries: RetryPolicy = QUICK, **options: Any) -> list[Any]:
    """Chunks of one call, with its error last."""
    told: list[Any] = []

    async def listen() -> None:
        async with asyncio.timeout(PATIENCE):
            await items_into(told, quick(server.model(wire, **options), retries))

    try:
        asyncio.run(listen())
    except ModelError as error:
        told.append(error)
    return told


def wait_until_hung_up(server: LoopbackServer) -> None:
    """Wait until the client has closed the connection of the first request, and not kept it open behind our back."""
    wait_until(lambda: server.requests[0].hung_up)
