"""Failures of steps, in the terms of `agentnb.core.step_retry`, and whether they are retried.

Cancellations and interrupts by the person, an exhausted budget, and settings that cannot work are never retried.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from agentnb import errors
from agentnb.advice import AnyAdvice, Plain, StartAgain, TryAgain, as_advice
from agentnb.core.messages import encodable
from agentnb.core.schema.json_schema import matches
from agentnb.core.step_retry import NEVER_RETRIED, is_pattern
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError, StepFailed

WORDS_OF_ERRORS: dict[str, tuple[type[AgentnbError], ...]] = {
    "timeout": (errors.ProviderTimedOut,),
    "rate_limit": (errors.RateLimited,),
    "provider": (errors.ProviderTrouble,),
    "broken_reply": (errors.BrokenReply,),
    "context_overflow": (errors.ContextOverflow,),
    "refused": (errors.RequestRefused, errors.KeyRefused),
}
"""Classes of model errors, by retry word."""


FINAL = "final"
"""Word logged for a failure that must not be retried."""


@dataclass(frozen=True, slots=True)
class StepFailure:
    """The failure of an attempt at a step."""

    text: str
    words: frozenset[str] = frozenset()
    advice: tuple[AnyAdvice, ...] = ()
    is_final: bool = False
    """True if another attempt cannot succeed or is not wanted."""
    step: str = ""
    """Path of the failed step, if a step within a block failed."""

    @property
    def logged_words(self) -> tuple[str, ...]:
        """The words for the log, so that a process that recovers the run decides the same way."""
        return (*sorted(self.words), *((FINAL,) if self.is_final else ()))

    def is_retried(self, on: tuple[str, ...]) -> bool:
        """Return whether these words call for another attempt. Without any words, every failure that is not final is
        retried.
        """
        return not self.is_final and (not on or any(self._has(word) for word in on))

    def _has(self, word: str) -> bool:
        if is_pattern(word):
            return matches(word[1:-1], self.text)
        return word in self.words


class StepEndedBadly(Exception):
    """An attempt at a step failed without an exception: a run did not complete, or a tool returned an error."""

    def __init__(self, failure: StepFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def of_run(run: Run) -> StepFailure:
    """Return the failure of a step whose nested run did not complete."""
    reason, error = str(run.stop_reason), run.error
    kind = getattr(errors, error.type, object) if error is not None else object
    kind = kind if isinstance(kind, type) else object
    words = {reason, run.status, *(("timeout",) if reason == "max_seconds" else ()), *_words_of(kind)}
    message = error.message if error else f"its run ended as {run.status}: {reason}"
    is_final = reason in NEVER_RETRIED or issubclass(kind, SettingsError)
    return StepFailure(encodable(message), frozenset(words), _advice_for_step(error.advice if error else ()), is_final)


def of_error(error: BaseException, timeout: float | None = None) -> StepFailure:
    """Return the failure for an exception. ``timeout``: the step's own time limit, if that has expired."""
    if isinstance(error, StepEndedBadly):
        return error.failure
    if timeout is not None:
        advice = as_advice("Raise its timeout, or reduce its work")
        return StepFailure(f"it did not finish within {timeout:g} s", frozenset({"timeout"}), advice)
    text = encodable(error.what if isinstance(error, AgentnbError) else f"{type(error).__name__}: {error}")
    advice = _advice_for_step(error.advice) if isinstance(error, AgentnbError) else ()
    return StepFailure(text, frozenset({"failed", "error", *_words_of(type(error))}), advice, isinstance(error, SettingsError))


def failure_of_logged(text: str, words: tuple[str, ...]) -> StepFailure:
    """Return the failure of a step that failed in a process that has since died."""
    return StepFailure(text, frozenset(words) - {FINAL}, is_final=FINAL in words)


def error_for(word: str) -> AgentnbError:
    """Return an error for this word, for use in scripted failures."""
    kinds = WORDS_OF_ERRORS.get(word)
    if kinds is None:
        hint = errors.suggest_names(word, WORDS_OF_ERRORS)
        raise SettingsError(f"There is no scripted failure {word!r}", hint)
    return kinds[0](f"Scripted failure: {word}")


def _advice_for_step(advice: Iterable[AnyAdvice]) -> tuple[AnyAdvice, ...]:
    """Turn the advice of an agent's error into advice for its step: a workflow has no conversation to continue."""
    return tuple([Plain(f"{item.lead}{item.rest}") if isinstance(item, TryAgain | StartAgain) else item for item in advice])


def _words_of(kind: type) -> Iterable[str]:
    return [word for word, kinds in WORDS_OF_ERRORS.items() if issubclass(kind, kinds)]


class FailedStep(StepFailed):
    """A step has failed and cannot continue. A block fails with the failure of the step inside it."""

    def __init__(self, path: str, failure: StepFailure) -> None:
        self.failure = failure if failure.step else replace(failure, step=path)
        super().__init__(f"step {self.failure.step}: {failure.text}", failure.advice)
