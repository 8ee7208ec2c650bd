"""Counts of tool failures."""

from __future__ import annotations

import pytest
from run_builder import Story, guidance_of

from agentnb.core.log import events as e
from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.run.rounds import DUPLICATE, CallRecord
from agentnb.detect.run import Run
from agentnb.detect.tool_failures import ToolFailures, is_failure

FAILED = {"is_error": True, "error_code": "tool_error"}


def counted(tale: Story) -> ToolFailures:
    return tale.run.judged.failures


def both(tale: Story, name: str, *codes: str | None) -> Story:
    """Build a round that calls one tool several times with different arguments and this outcome; "blocked" is a duplicate."""
    calls = [tale.call(name, number=number) for number in range(len(codes))]
    tale.begun().replied(*calls)
    for call, code in zip(calls, codes, strict=True):
        if code == "blocked":
            tale.blocked(call)
        else:
            tale.ran(call, is_error=code is not None, error_code=code)
    return tale.ended()


@pytest.mark.req("R0.75")
def test_error_result_is_a_failure_with_any_code(subtests: pytest.Subtests) -> None:
    for code in ["tool_error", "timeout", "invalid_arguments", "unknown_tool", "nobody_to_ask", "its_own", None]:
        with subtests.test(code=code):
            tale = Story().called("look", is_error=True, error_code=code)
            assert (counted(tale).rounds, counted(tale).tools, counted(tale).in_a_row) == (1, ("look",), {"look": 1})


@pytest.mark.req("R0.75")
def test_interrupted_blocked_and_declined_calls_are_not_failures(subtests: pytest.Subtests) -> None:
    for code in ["cancelled", "interrupted", "declined", DUPLICATE, "max_tool_calls", "max_tool_calls_per_turn"]:
        with subtests.test(code=code):
            assert counted(Story().called("look", is_error=True, error_code=code)) == ToolFailures()


@pytest.mark.req("R0.75")
def test_call_blocked_by_a_gate_is_not_a_failure() -> None:
    call = ToolCall("look", {}, "1")
    result = ToolResult("1", "look", (Text("No."),), is_error=True, error_code="not_today")
    assert is_failure(CallRecord(call, result))
    assert not is_failure(CallRecord(call, result, rule="of my own"))
    assert not is_failure(CallRecord(call))
    assert counted(Story().refused("look")) == ToolFailures()


@pytest.mark.req("R0.75")
def test_failures_count_once_per_round() -> None:
    tale = Story().called("look", "see", "look", **FAILED)
    assert (counted(tale).rounds, counted(tale).tools, counted(tale).in_a_row) == (1, ("look", "see"), {"look": 1, "see": 1})
    assert counted(tale.called("hear", **FAILED)).rounds == 2


@pytest.mark.req("R0.75")
def test_three_rounds_make_a_loop_counted_per_tool() -> None:
    tale = Story().called("look", **FAILED).called("look", "see", **FAILED)
    assert counted(tale).looping() == ()
    tale.called("see", "look", **FAILED)
    assert (counted(tale).in_a_row, counted(tale).looping()) == ({"see": 2, "look": 3}, ("look",))
    tale.called("see", **FAILED)
    assert (counted(tale).in_a_row, counted(tale).looping()) == ({"see": 3}, ("see",))


@pytest.mark.req("R0.75")
@pytest.mark.parametrize("between", ["another tool", "success", "words"])
def test_round_without_failure_ends_the_streak_not_the_total(between: str) -> None:
    tale = Story().called("look", **FAILED).called("look", **FAILED)
    tale = tale.said() if between == "words" else tale.called("look" if between == "success" else "see")
    assert counted(tale) == ToolFailures(2)
    assert (counted(tale.called("look", **FAILED)).in_a_row, counted(tale).rounds) == ({"look": 1}, 3)


@pytest.mark.req("R0.75")
@pytest.mark.parametrize("outcomes", [("tool_error", None), (None, "tool_error")])
def test_tool_that_also_succeeded_has_no_failure_streak(outcomes: tuple[str | None, ...]) -> None:
    tale = both(Story().called("look", **FAILED).called("look", **FAILED), "look", *outcomes)
    assert (counted(tale).rounds, counted(tale).tools, counted(tale).in_a_row) == (3, ("look",), {})


@pytest.mark.req("R0.75")
def test_blocked_and_interrupted_calls_keep_a_streak() -> None:
    tale = Story().called("look", **FAILED).called("look", **FAILED).refused("look")
    assert (counted(tale).tools, counted(tale).in_a_row, counted(tale).looping()) == ((), {"look": 2}, ())
    assert counted(both(tale, "look", "blocked", "tool_error", "cancelled")).in_a_row == {"look": 3}
    assert counted(tale).looping() == ("look",)
    assert counted(tale.refused("look")).looping() == ()  # nothing failed in the last round


def test_round_without_a_reply_keeps_a_streak() -> None:
    tale = Story().called("look", **FAILED).called("look", **FAILED).begun().ended("error")
    assert (counted(tale).tools, counted(tale).in_a_row) == ((), {"look": 2})


@pytest.mark.req("R0.75", "KX.8")
def test_user_message_resets_counts_and_keeps_the_last_failure() -> None:
    tale = Story().called("look", **FAILED).called("look", **FAILED).heard()
    assert (counted(tale).rounds, counted(tale).tools, counted(tale).in_a_row) == (0, ("look",), {})
    assert counted(tale.called("look", **FAILED)).in_a_row == {"look": 1}
    assert counted(tale).rounds == 1


@pytest.mark.req("R0.75")
def test_call_is_repeated_if_tool_and_arguments_match_the_failure() -> None:
    tale = both(Story(), "look", "tool_error", None)
    failures = counted(tale)
    again, fresh = tale.call("look", number=0), tale.call("look", number=1)

    def round_of(*calls: ToolCall) -> bool:
        return failures.made_again(Run.from_events(tale.begun().replied(*calls).events).rounds[-1])

    assert round_of(again)
    assert not round_of(fresh)  # it had succeeded
    assert not round_of(again, fresh)
    assert not round_of()


def test_memory_does_not_grow_with_the_run() -> None:
    tale = Story()
    for number in range(30):
        tale.called(f"tool{number}", **FAILED)
    assert (counted(tale).rounds, counted(tale).tools, len(counted(tale).in_a_row), len(counted(tale).calls)) == (
        30,
        ("tool29",),
        1,
        1,
    )


def test_snapshot_of_the_counts_does_not_change() -> None:
    tale, run = Story().called("look", **FAILED), Run()
    for event in tale.events:
        run.apply(event)
    before = run.judged.failures.in_a_row
    seen = len(tale.events)
    for event in tale.called("look", guidance=(guidance_of("tool_failed"),), **FAILED).events[seen:]:
        assert isinstance(event, e.Event)
        run.apply(event)
    assert (before, run.judged.failures.in_a_row) == ({"look": 1}, {"look": 2})
    assert run == tale.run
