"""Requests for side questions, outside the conversation."""

from __future__ import annotations

from agentnb.core.messages import encodable, user
from agentnb.core.request import Request


def side_question(text: str, system: str = "") -> Request:
    """Return a request with only this question, without the conversation or any tools."""
    return Request(encodable(system), (user(text),))
