"""Retries of failed steps, and the words for failures in ``retry: {on: [...]}``.

| word | failures |
|---|---|
| ``timeout`` | the step's own timeout; a provider that is silent too long, 408, 504; a run that reached ``max_seconds`` |
| ``rate_limit`` | 429, after the model call's own retries |
| ``provider`` | no connection, 5xx, 529 |
| ``broken_reply``, ``context_overflow``, ``refused`` | the errors of these names |
| a stop reason; ``limited``, ``stopped``, ``failed`` | a run that ended this way |
| ``tool_error``, ``invalid_arguments``, ``declined`` ... | a tool step, by the code of its error |
| ``/regex/`` | the text of the error |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ERRORS = ("timeout", "rate_limit", "provider", "broken_reply", "context_overflow", "refused")
STOP_REASONS = (
    "max_rounds",
    "max_tool_calls",
    "max_tool_calls_per_turn",
    "max_tokens",
    "todo_intervention_exhausted",
    "workflow_mode_exhausted",
    "blocked",
    "loop_detected",
    "refusal",
    "reply_cut",
    "error",
)
STATUSES = ("limited", "stopped", "failed")
TOOL_ERRORS = ("tool_error", "invalid_arguments", "unknown_tool", "declined", "nobody_to_ask", "denied")
KNOWN_WORDS = (*ERRORS, *STOP_REASONS, *STATUSES, *TOOL_ERRORS)
"""Words allowed in ``on``, besides ``/regex/``."""
NEVER_RETRIED = ("cancelled", "interrupted", "budget", "session_budget")
"""Stop reasons that are never retried, regardless of ``on``."""


def is_pattern(word: str) -> bool:
    """True if a word in ``on`` is a pattern for the error's text: ``/regex/``."""
    return len(word) > 2 and word.startswith("/") and word.endswith("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The retry policy of a step."""

    max_attempts: int = 0
    """Attempts after the first."""
    backoff: Literal["fixed", "exponential"] = "fixed"
    """Growth of the waiting time: none, or by `multiplier`."""
    initial_delay_seconds: float = 1.0
    max_delay_seconds: float | None = None
    multiplier: float = 2.0
    """Growth factor of an exponential backoff."""
    on: tuple[str, ...] = ()
    """The failures to retry, as named in `agentnb.runtime.steps.step_failures`; by default, all that can be retried."""

    def wait_before(self, attempt: int) -> float:
        """Return the seconds to wait after the attempt with this number, from 1."""
        factor = self.multiplier ** (attempt - 1) if self.backoff == "exponential" else 1.0
        wait = self.initial_delay_seconds * factor
        return wait if self.max_delay_seconds is None else min(wait, self.max_delay_seconds)


ONCE = Retry()
"""No retries."""


def format_retries(count: int) -> str:
    """Format the number of retries (attempts after the first), such as ``2 retries``."""
    return "1 retry" if count == 1 else f"{count:,} retries"
