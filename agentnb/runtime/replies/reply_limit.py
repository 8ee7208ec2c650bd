"""Length limit of a streaming reply: its length is counted as it arrives, and an endless reply is cut off."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.advice import TryAgain
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.errors import BrokenReply
from agentnb.models.capabilities import used_until_cut
from agentnb.models.estimate import CHARACTERS_A_TOKEN
from agentnb.models.model import Model
from agentnb.policies import Policy
from agentnb.policies.run_limits import MaxTokens
from agentnb.runtime.budget import Budget
from agentnb.runtime.defaults import MARGIN, MAX_REPLY, SPARE, SPARE_OF_AN_END

SAMPLE = 100_000
"""Number of tokens whose cost is computed to determine the price of one token."""


class OverLimit(Exception):
    """The reply continues far beyond what remains of a limit. Never leaves `agentnb.runtime`."""


class ReplyLimit:
    """Counts the characters of one reply while it streams, and raises an exception once it is too long.

    The exception is raised at the first piece after the limit was passed, so a reply in one piece is never cut off.
    """

    def __init__(
        self,
        model: Model,
        request: Request,
        run: Run,
        budget: Budget,
        policies: Iterable[Policy],
        *,
        comes_after_limit: bool,
    ) -> None:
        """``budget`` and ``policies``: the limits; ``comes_after_limit``: whether a limit may have been reached
        before this reply.
        """
        self._model = model
        self._request = request
        self._run = run
        self._budget = budget
        self._max_tokens = min((policy.limit for policy in policies if isinstance(policy, MaxTokens)), default=None)
        self._spare = SPARE_OF_AN_END if comes_after_limit else SPARE
        self._count = 0
        self._next = self._first = self._spare * CHARACTERS_A_TOKEN
        """Character count at which the limits are checked again."""

    def count(self, characters: int) -> None:
        """Count a piece. Raises `OverLimit` if earlier pieces exceed a limit, `BrokenReply` if they exceed the
        maximum size of any reply.
        """
        if self._count >= self._next:
            self._look()
        self._count += characters

    def restart(self) -> None:
        """Reset the count, since the reply starts over."""
        self._count, self._next = 0, self._first

    def _look(self) -> None:
        most = MAX_REPLY * CHARACTERS_A_TOKEN
        if self._count >= most:
            problem = f"{self._model.name}: the reply was endless: it was cut off after {self._count:,} characters"
            raise BrokenReply(problem, TryAgain(lead="Try again", rest="; or try another model"), run=self._run)
        remaining = self._tokens_left()
        if remaining is not None:
            most = min(most, (MARGIN * max(0.0, remaining) + self._spare) * CHARACTERS_A_TOKEN)
            if self._count >= most:
                raise OverLimit
        self._next = min(most, self._count * 2)

    def _tokens_left(self) -> float | None:
        """Return the number of tokens left by `max_tokens` and by the budget."""
        amounts: list[float] = []
        if self._max_tokens is not None:
            used = self._run.own_usage
            amounts.append(self._max_tokens - (used.input or 0) - (used.output or 0))
        dollars = self._budget.left()
        if dollars is not None and (cost := self._cost_of_a_token()):
            amounts.append(dollars / cost)
        return min(amounts, default=None)

    def _cost_of_a_token(self) -> float | None:
        """Return the price of one token of the reply in dollars, or None if unknown."""
        sample = Message("assistant", (Text("." * round(SAMPLE * CHARACTERS_A_TOKEN)),))
        messages = Message("assistant", ()), sample
        without, with_it = (used_until_cut(self._model, self._request, message).cost for message in messages)
        return None if without is None or with_it is None else (with_it - without) / SAMPLE
