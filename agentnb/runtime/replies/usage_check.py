"""Keeps limits on tokens and money in force for models that do not report all their usage."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from agentnb.core.request import Request
from agentnb.core.run.rounds import TOKENS_ESTIMATED
from agentnb.core.usage import checked
from agentnb.models.estimate import with_estimates
from agentnb.models.model import Reply
from agentnb.policies import Policy
from agentnb.policies.limits import MaxTokens
from agentnb.runtime.budget import Budget
from agentnb.runtime.event_log import EventLog


class UsageCheck:
    """Completes the reported usage that a limit depends on, and warns about it once per run."""

    def __init__(self, log: EventLog, budget: Budget, policies: Iterable[Policy]) -> None:
        """``budget`` and ``policies``: hold the limits on money and on tokens, if there are any."""
        self._log = log
        self._budget = budget
        self._counts_tokens = any(isinstance(policy, MaxTokens) for policy in policies)
        self.is_needed = self._counts_tokens or budget.may_run_out()
        """Whether any limit depends on usage."""

    def complete(self, request: Request, reply: Reply) -> Reply:
        """Return the reply with an estimate for each count the model did not report, if tokens are limited."""
        if not self._counts_tokens or (_is_count(reply.usage.input) and _is_count(reply.usage.output)):
            return reply
        usage = with_estimates(checked(reply.usage), request, reply.message)
        if usage.estimated:
            return replace(reply, usage=usage, metadata={**reply.metadata, TOKENS_ESTIMATED: True})
        return replace(reply, usage=usage)

    def warn(self, reply: Reply) -> None:
        """Warn, once per run, that a limit depends on estimates, or that a budget cannot count the call."""
        cost, is_estimated = reply.usage.cost, TOKENS_ESTIMATED in reply.metadata
        if cost is not None and not is_estimated:
            return
        has_budget, run = self._budget.has_limit(), self._log.run
        if is_estimated and (self._counts_tokens or (has_budget and cost)):
            self._log.warn_once(
                f"{run.model} does not report all the tokens it uses. agentnb estimates what is missing, so limits on tokens "
                "and money may be off by a fifth",
                "Leave room for that in what you set",
            )
        if has_budget and cost is None and not run.settings.get("unpriced"):
            self._log.warn_once(
                f"{run.model} does not report what its calls cost, so the budget does not count all of them",
                "Name a price (provider:NAME?price=3/15), let a model object report Usage(cost=...), or set max_tokens or "
                "max_rounds too",
            )


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0
