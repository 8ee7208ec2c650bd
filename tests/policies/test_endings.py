"""Endings of extensions: verdicts before a completed end, and news for the model."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentnb.policies.verdict import Continue, Interlude, Stop, before_end, news_of


async def nothing(inside: Any, ask: Any) -> None:
    """The work of an interlude."""


FURTHER, NEWS, LATER = Continue("look"), Continue("told", "It ran", is_news=True), Continue("later", is_news=True)
ASKS = Interlude("plan-1", nothing)
DONE, LIMITED = Stop("natural"), Stop("max_rounds", "limited", limit=3)


def run(*words: str) -> Any:
    """Return a run with this unread user message."""
    return cast("Any", SimpleNamespace(pending=words))


def always(verdict: Any) -> Any:
    return lambda run: verdict


def test_first_ending_that_returns_a_verdict_decides(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[list[Any], Any]] = {
        "no ending": ([], DONE),
        "endings with nothing": ([None, None], DONE),
        "the first of two": ([None, ASKS, FURTHER], ASKS),
        "a round before an interlude": ([FURTHER, ASKS], FURTHER),
    }
    for name, (endings, expected) in cases.items():
        with subtests.test(name):
            assert before_end(DONE, map(always, endings), [always(None)], run()) is expected


def test_endings_apply_to_completed_runs_and_limits_allow_interludes(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, Any, Any]] = {
        "a run that failed": (Stop("error", "failed"), ASKS, None),
        "a run at a limit": (LIMITED, FURTHER, None),
        "a further round at a limit": (DONE, FURTHER, LIMITED),
        "an interlude at a limit": (DONE, ASKS, ASKS),
        "news at a limit": (DONE, NEWS, LIMITED),
    }
    for name, (verdict, ending, expected) in cases.items():
        with subtests.test(name):
            assert before_end(verdict, [always(ending)], [always(LIMITED)], run()) is (expected or verdict)
    assert before_end(DONE, [always(FURTHER)], [always(DONE)], run()) is FURTHER  # a stop that is not a limit


def test_only_news_is_combined_with_a_user_message(subtests: pytest.Subtests) -> None:
    said = Continue("said")
    cases: dict[str, tuple[Any, list[Any], Any]] = {
        "news with words": (run("Wait"), [FURTHER, NEWS, LATER], NEWS),
        "no news with words": (run("Wait"), [FURTHER, ASKS, None], said),
        "news in a run that continues by itself": (run(), [NEWS], said),
    }
    for name, (at, endings, expected) in cases.items():
        with subtests.test(name):
            assert before_end(said, [*map(always, endings)], [], at) is expected
    assert news_of(map(always, (None, ASKS, FURTHER)), run()) is None
    assert news_of(map(always, (FURTHER, NEWS, LATER)), run()) is NEWS
