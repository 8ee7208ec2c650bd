"""Calls of a model beside a conversation: each is an operation of its own in the log."""

from __future__ import annotations

from time import perf_counter

from agentnb.core.log.work_events import ModelCalled
from agentnb.core.messages import encodable
from agentnb.core.request import Request
from agentnb.core.usage import NOTHING_USED
from agentnb.errors import ModelError
from agentnb.models.model import Reply
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.replies.model_calls import ModelCalls


async def call_beside(calls: ModelCalls, request: Request, operation: str, log: EventLog) -> Reply:
    """Return what the model replies, outside the conversation. Raises `ModelError` if no reply comes.

    The call, its usage and its error are logged as this operation.
    """
    started, usage, problem = perf_counter(), NOTHING_USED, ""
    reply: Reply | None = None
    try:
        async for item in calls.side_request(request):
            if isinstance(item, Reply):
                reply, usage = item, item.usage
    except BaseException as error:
        problem = encodable(f"{type(error).__name__}: {error}")
        raise
    finally:
        name, seconds = calls.model.name, perf_counter() - started
        log.emit(ModelCalled, operation=operation, model=name, usage=usage, seconds=seconds, error=problem)
    if reply is None:
        raise ModelError(f"{calls.model.name} gave no answer to the operation {operation}")
    return reply
