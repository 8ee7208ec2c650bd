"""Models of providers that wait hardly at all before they try again, and one call of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentnb.core.messages import Message, user
from agentnb.core.request import Request
from agentnb.models import RemoteModel, Reply, make_model
from agentnb.models.retry import RetryPolicy

WIRES = ("anthropic", "openai", "openai-responses", "ollama", "compatible")
"""All providers of language models."""
FORMATS = ("anthropic", "openai", "openai-responses", "compatible")
"""Without the second of those that are called alike."""
QUICK = RetryPolicy(rate_limit_first=0.001, trouble_first=0.001)
NEVER = RetryPolicy(rate_limit_retries=0, trouble_retries=0)
LONG = RetryPolicy(rate_limit_first=100.0, trouble_first=100.0)
"""Waits so long that a test which waits too has failed."""
PATIENCE = 20
"""Seconds after which a test is sure that something was waited for."""
REQUEST = Request("", [user("Go.")])


def quick(name: str, retries: RetryPolicy = QUICK) -> RemoteModel:
    """The model of this name, with these retries."""
    model = make_model(name)
    assert isinstance(model, RemoteModel)
    model.retries = retries
    return model


async def items_of(model: RemoteModel, request: Request = REQUEST) -> list[Any]:
    """What one call of it yields."""
    return [item async for item in model.stream(request)]


async def reply_of(model: RemoteModel, *messages: Message) -> Reply:
    """Its reply."""
    sent: Sequence[Message] = messages or REQUEST.messages
    *_, last = await items_of(model, Request("", sent))
    assert isinstance(last, Reply)
    return last
