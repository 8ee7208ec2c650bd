"""Each policy alone, on a constructed run."""

from __future__ import annotations

import pytest
from run_builder import a_round, called, run_of, said

from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.policies import (
    Continue,
    MaxRounds,
    Stop,
    call_in_words,
    decide,
    empty_answer,
    natural_stop,
    no_call_came,
    no_room,
    paused,
    refused,
    reply_cut,
    two_empty_answers,
)

ANSWERED = run_of(*a_round(0, "Done."))
WITH_A_CALL = run_of(*a_round(0, "I look.", called("look", "a")))


def with_stop_reason(stop_reason: str, *parts: object) -> Run:
    return run_of(*a_round(0, *(parts or ("Some words.",)), stop_reason=stop_reason))  # type: ignore[arg-type]


@pytest.mark.req("R0.4")
def test_answer_without_calls_is_a_natural_end() -> None:
    assert natural_stop(ANSWERED) == Stop("natural", "completed", round_status="natural_completion")
    assert natural_stop(WITH_A_CALL) is None


@pytest.mark.req("R0.4", "K0.3")
def test_natural_end_ignores_the_stop_reason() -> None:
    assert natural_stop(with_stop_reason("tool_use")) == Stop("natural", "completed", round_status="natural_completion")
    assert natural_stop(with_stop_reason("end_turn", called("look", "a"))) is None


@pytest.mark.req("R0.87")
def test_unread_user_message_prevents_a_natural_end() -> None:
    assert natural_stop(run_of(*a_round(0, "Done."), said("One more thing."))) is None


@pytest.mark.req("R2.9", "K2.1")
@pytest.mark.parametrize("stop_reason", ["max_tokens", "length", "max_output_tokens"])
def test_truncated_reply_is_continued_once_unless_it_made_calls(stop_reason: str) -> None:
    first = a_round(0, "Some words.", stop_reason=stop_reason)
    go_on = reply_cut(run_of(*first))
    assert isinstance(go_on, Continue) and go_on.reason == "reply_cut" and go_on.message
    verdict = reply_cut(run_of(*first, *a_round(1, "More.", stop_reason=stop_reason, reason="reply_cut")))
    assert isinstance(verdict, Stop)
    assert (verdict.stop_reason, verdict.status) == ("reply_cut", "failed")
    assert "max tokens reached" in verdict.problem
    assert verdict.hint
    assert isinstance(reply_cut(with_stop_reason(stop_reason, " ")), Stop)
    assert reply_cut(with_stop_reason(stop_reason, called("look", "a"))) is None


@pytest.mark.req("K2.1")
def test_full_context_window_fails_the_run_unless_calls_were_made() -> None:
    verdict = no_room(with_stop_reason("model_context_window_exceeded"))
    assert isinstance(verdict, Stop)
    assert (verdict.stop_reason, verdict.status) == ("reply_cut", "failed")
    assert reply_cut(with_stop_reason("model_context_window_exceeded")) is None
    assert no_room(with_stop_reason("model_context_window_exceeded", called("look", "a"))) is None
    assert no_room(ANSWERED) is None


def test_complete_reply_is_not_considered_truncated() -> None:
    assert reply_cut(ANSWERED) is None


@pytest.mark.req("K2.1")
@pytest.mark.parametrize("stop_reason", ["refusal", "content_filter"])
def test_refusal_stops_the_run_unless_calls_were_made(stop_reason: str) -> None:
    assert refused(with_stop_reason(stop_reason)) == Stop("refusal", "stopped")
    assert refused(with_stop_reason(stop_reason, called("look", "a"))) is None
    assert refused(ANSWERED) is None


@pytest.mark.req("R0.4")
def test_announced_but_missing_calls_fail_the_run() -> None:
    verdict = no_call_came(run_of(*a_round(0, stop_reason="tool_use", status="unexpected_empty_tools")))
    assert isinstance(verdict, Stop)
    assert (verdict.stop_reason, verdict.status) == ("error", "failed")
    assert no_call_came(ANSWERED) is None


def test_reply_repairs_ignore_replies_with_calls() -> None:
    for policy in (empty_answer, two_empty_answers, call_in_words, paused):
        run = run_of(*a_round(0, "add(1)", called("add", "a"), stop_reason="pause_turn"), tools=(ToolSpec("add", "", {}),))
        assert policy(run) is None


@pytest.mark.req("R0.7")
def test_max_rounds_stops_exactly_at_its_number() -> None:
    two = run_of(*a_round(0, called("look", "a")), *a_round(1, called("look", "b")))
    assert MaxRounds(3)(two) is None
    assert MaxRounds(2)(two) == Stop("max_rounds", "limited", limit=2)


@pytest.mark.req("R0.3")
def test_policies_are_evaluated_in_order_until_the_first_verdict() -> None:
    asked: list[str] = []

    def silent(run: Run) -> None:
        asked.append("silent")

    def firm(run: Run) -> Stop:
        asked.append("firm")
        return Stop("first")

    def late(run: Run) -> Stop:
        asked.append("late")
        return Stop("second")

    assert decide([silent, firm, late], ANSWERED) == Stop("first")
    assert asked == ["silent", "firm"]


@pytest.mark.req("R0.5")
def test_run_without_a_verdict_continues_for_its_pending_reason() -> None:
    assert decide([], WITH_A_CALL) == Continue("tool_results")
    assert decide([], run_of(*a_round(0, "Done."), said("More."))) == Continue("said")


@pytest.mark.req("R0.5")
def test_limit_stops_continuing_by_other_policies() -> None:
    run = run_of(*a_round(0, "Done."))
    go_on = Continue("nudge")
    assert decide([lambda _: go_on, natural_stop, MaxRounds(2)], run) == go_on
    assert decide([lambda _: go_on, natural_stop, MaxRounds(1)], run) == Stop("max_rounds", "limited", limit=1)


def test_policies_leave_the_run_unchanged() -> None:
    run, same = run_of(*a_round(0, "Done.")), run_of(*a_round(0, "Done."))
    decide([refused, reply_cut, no_call_came, natural_stop, MaxRounds(1)], run)
    assert run == same
