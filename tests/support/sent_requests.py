"""Requests to a model, and the same requests rebuilt from the log alone."""

from __future__ import annotations

import msgspec

from agentnb.context.request_history import sent_requests
from agentnb.core.request import Request
from agentnb.detect.run import Run


def as_bytes(request: Request) -> bytes:
    return msgspec.json.encode((request.system, list(request.messages), request.tools, request.settings))


def made_again(run: Run) -> list[bytes]:
    """Return the request of each round, rebuilt from the log alone."""
    return [as_bytes(seen.request) for _, seen in sent_requests(run)]


def assert_made_again(run: Run, sent: list[Request]) -> None:
    assert made_again(run) == [as_bytes(request) for request in sent]
    assert Run.from_events(run.events) == run
