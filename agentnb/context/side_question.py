"""The request of a question beside the conversation."""

from __future__ import annotations

from agentnb.core.messages import encodable, user
from agentnb.core.request import Request


def side_question(text: str, system: str = "") -> Request:
    """Return the request that asks a model this, without the conversation and without tools."""
    return Request(encodable(system), (user(text),))
