"""The gate that enforces the call limits."""

from __future__ import annotations

import pytest
from gated_run import GatedRun
from run_checks import assert_every_call_has_one_result

from agentnb.core.run.rounds import MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN, NOT_RUN
from agentnb.policies.gates.call_count import CallCount
from agentnb.policies.gates.duplicate import DuplicateGuard


@pytest.mark.req("KX.2")
def test_calls_above_the_run_limit_are_blocked() -> None:
    bench = GatedRun(CallCount(in_run=3))
    assert bench.ask("a", "b") == [None, None]
    assert bench.ask("c", "d", "e") == [None, MAX_TOOL_CALLS, MAX_TOOL_CALLS]
    bench.say()
    assert bench.ask("f") == [MAX_TOOL_CALLS]
    assert_every_call_has_one_result(bench.run)


@pytest.mark.req("KX.2")
def test_turn_limit_counts_calls_since_the_last_user_message() -> None:
    bench = GatedRun(CallCount(in_turn=2))
    assert bench.ask("a", "b", "c") == [None, None, MAX_TOOL_CALLS_PER_TURN]
    bench.say()
    assert bench.one_by_one("abc") == [None, None, MAX_TOOL_CALLS_PER_TURN]


@pytest.mark.req("KX.2")
def test_run_limit_is_named_before_the_turn_limit() -> None:
    assert GatedRun(CallCount(in_run=1, in_turn=1)).ask("a", "b") == [None, MAX_TOOL_CALLS]
    assert GatedRun(CallCount(in_run=2, in_turn=1)).ask("a", "b") == [None, MAX_TOOL_CALLS_PER_TURN]
    assert {MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN} < NOT_RUN


@pytest.mark.req("KX.2")
def test_calls_blocked_by_another_gate_do_not_count() -> None:
    bench = GatedRun(CallCount(in_run=3), DuplicateGuard())
    rules = bench.one_by_one("aaaab")
    assert rules[:2] == [None, None] and rules[2] not in (None, MAX_TOOL_CALLS)
    assert rules[-1] is None and bench.run.calls_made == 3


@pytest.mark.req("KX.2")
@pytest.mark.parametrize(("most", "noun"), [(1, "1 tool call "), (2, "2 tool calls ")])
def test_model_is_informed_which_calls_were_not_run_and_why(most: int, noun: str) -> None:
    bench = GatedRun(CallCount(in_run=most))
    bench.one_by_one("abc")
    result = bench.blocks[0]
    assert result.is_error and result.error_code == MAX_TOOL_CALLS
    assert noun in result.text and "was not run" in result.text


def test_every_call_is_allowed_without_limits() -> None:
    assert set(GatedRun(CallCount()).one_by_one("abcdefgh")) == {None}
