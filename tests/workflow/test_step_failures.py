"""Reasons of failed attempts, and the words of ``on`` that retry them."""

from __future__ import annotations

import pytest
from run_builder import RunBuilder

from agentnb import errors
from agentnb.core.log.events import ErrorRaised, RunError, RunFinished
from agentnb.core.step_retry import KNOWN_WORDS
from agentnb.runtime.steps.step_failures import StepFailure, failure_of_logged, of_error, of_run

CLASSES = {
    "ProviderTimedOut": ("timeout", "provider"),
    "RateLimited": ("rate_limit",),
    "ProviderTrouble": ("provider",),
    "BrokenReply": ("broken_reply",),
    "ContextOverflow": ("context_overflow", "refused"),
    "RequestRefused": ("refused",),
    "KeyRefused": ("refused",),
}


def ended(status: str, reason: str, error: str = "") -> StepFailure:
    """Return the failure of a step whose nested run ended so."""
    built = RunBuilder()
    if error:
        built.add(ErrorRaised, error=RunError(error, f"A message of {error}"), where="model")
    return of_run(built.add(RunFinished, status=status, stop_reason=reason).run)


def words(failure: StepFailure) -> set[str]:
    """Return the words of ``on`` that retry this failure."""
    return {word for word in KNOWN_WORDS if failure.is_retried((word,))}


@pytest.mark.req("R4.27", "R4.31")
def test_nested_run_is_retried_by_status_reason_or_error(subtests: pytest.Subtests) -> None:
    cases = {
        ("limited", "max_rounds"): {"limited", "max_rounds"},
        ("limited", "max_seconds"): {"limited", "timeout"},
        ("stopped", "blocked"): {"stopped", "blocked"},
        ("failed", "error", "RateLimited"): {"failed", "error", "rate_limit"},
        ("failed", "error", "ProviderTimedOut"): {"failed", "error", "timeout", "provider"},
        ("failed", "error", "KeyRefused"): {"failed", "error", "refused"},
        ("failed", "error", "ValueError"): {"failed", "error"},
        ("failed", "error", "UnknownTool"): set(),
        ("limited", "budget"): set(),
        ("limited", "session_budget"): set(),
        ("cancelled", "cancelled"): set(),
        ("cancelled", "interrupted"): set(),
    }
    for case, expected in cases.items():
        with subtests.test(case):
            failure = ended(*case)
            assert words(failure) == expected
            assert failure.is_retried(()) is bool(expected)


@pytest.mark.req("R4.27", "R4.31")
def test_errors_are_retried_by_class_except_settings_errors(subtests: pytest.Subtests) -> None:
    for name, own in CLASSES.items():
        with subtests.test(name):
            assert words(of_error(getattr(errors, name)("No."))) == {"failed", "error", *own}
    for error in (errors.ExpressionError("No value"), errors.UnknownTool("No tool")):
        with subtests.test(type(error).__name__):
            assert words(of_error(error)) == set() and not of_error(error).is_retried(())
    late = of_error(TimeoutError(), 5)
    assert words(late) == {"timeout"} and late.is_retried(("/within 5 s/",)) and not late.is_retried(("/^within/",))
    assert words(of_error(TimeoutError("of somebody else"))) == {"failed", "error"}


def test_failure_read_from_a_log_is_retried_identically(subtests: pytest.Subtests) -> None:
    for failure in (of_error(ValueError("no")), of_error(errors.UnknownTool("no")), ended("limited", "max_seconds")):
        with subtests.test(failure.text):
            again = failure_of_logged(failure.text, failure.logged_words)
            assert (again.words, again.is_final, words(again)) == (failure.words, failure.is_final, words(failure))
