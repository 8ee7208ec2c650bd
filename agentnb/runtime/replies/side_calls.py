"""Side calls of a model, outside a conversation: each is a separate operation in the log."""

from __future__ import annotations

from time import perf_counter
from typing import Protocol

from agentnb.core.log.work_events import ModelCalled
from agentnb.core.messages import encodable
from agentnb.core.request import Request
from agentnb.core.usage import NOTHING_USED
from agentnb.errors import ModelError, SettingsError
from agentnb.models.model import Model, Reply
from agentnb.policies.bundle import PolicyBundle
from agentnb.runtime.budget import Budget
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.replies.model_calls import ModelCalls


class Payer(Protocol):
    """The part of a run that pays for model calls: its lifecycle, or its step runner."""

    log: EventLog
    budget: Budget

    def is_cancelled(self, error: BaseException) -> bool:
        """Return whether this error cancels the run."""

    def settle(self) -> None:
        """Update the budget after a call."""


class SideModels:
    """Models for one run's side requests."""

    def __init__(self, model: Model | None, run: Payer) -> None:
        """``model``: the run's model."""
        self.model = model
        self._run = run

    async def ask(self, request: Request, operation: str, model: Model | None = None, **about: str) -> Reply:
        """Return a model's reply, by default from the run's model. ``about``: further fields of its `ModelCalled`.

        Raises `ModelError` if there is no reply.
        """
        chosen = self.model if model is None else model
        if chosen is None:
            raise SettingsError(f"The operation {operation} needs a model, and this run has none", "Run it with model=")
        run = self._run
        calls = ModelCalls(chosen, run.log, PolicyBundle(), run.budget, is_cancelled=run.is_cancelled)
        try:
            return await call_aside(calls, request, operation, run.log, **about)
        finally:
            run.settle()


async def call_aside(calls: ModelCalls, request: Request, operation: str, log: EventLog, **about: str) -> Reply:
    """Return the model's reply, outside the conversation. Raises `ModelError` if there is no reply.

    The call, its usage and any error are logged as this operation. ``about``: further fields of its `ModelCalled`.
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
        log.emit(ModelCalled, operation=operation, model=name, usage=usage, seconds=seconds, error=problem, **about)
    if reply is None:
        raise ModelError(f"{calls.model.name} did not reply to the operation {operation}")
    return reply
