"""Calls of a model beside a conversation: each is an operation of its own in the log."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

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


class SideModels:
    """The models that one run may ask beside its conversation."""

    def __init__(
        self,
        model: Model | None,
        log: EventLog,
        budget: Budget,
        is_cancelled: Callable[[BaseException], bool],
        settle: Callable[[], None],
    ) -> None:
        """``model``: that of the run; ``is_cancelled`` as for `ModelCalls`; ``settle``: updates the budget after a call."""
        self.model = model
        self._log = log
        self._budget = budget
        self._is_cancelled = is_cancelled
        self._settle = settle

    async def ask(self, request: Request, operation: str, model: Model | None = None, **about: str) -> Reply:
        """Return what a model replies, by default that of the run. ``about``: further fields of its `ModelCalled`.

        Raises `ModelError` if no reply comes.
        """
        chosen = self.model if model is None else model
        if chosen is None:
            raise SettingsError(f"The operation {operation} needs a model, and this run has none", "Run it with model=")
        calls = ModelCalls(chosen, self._log, PolicyBundle(), self._budget, is_cancelled=self._is_cancelled)
        try:
            return await call_beside(calls, request, operation, self._log, **about)
        finally:
            self._settle()


async def call_beside(calls: ModelCalls, request: Request, operation: str, log: EventLog, **about: str) -> Reply:
    """Return what the model replies, outside the conversation. Raises `ModelError` if no reply comes.

    The call, its usage and its error are logged as this operation, with ``about``: further fields of `ModelCalled`.
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
        raise ModelError(f"{calls.model.name} gave no answer to the operation {operation}")
    return reply
