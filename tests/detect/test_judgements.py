"""Running counts of a run, so that no policy has to read its history."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_builder import Story, guidance_of, todo

from agentnb.core.messages import ToolCall
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.judgements import Judgements
from agentnb.detect.run import Run
from agentnb.detect.tool_failures import ToolFailures
from agentnb.policies.continuation import CONTINUATIONS, STRICT
from agentnb.policies.interventions import NUDGE, attempts

DOING, DONE = "in-progress", "completed"
ANSWER = "The table has three columns and a hundred rows, I think."


class Counted(NamedTuple):
    """Return the counts of a run, each with its reasons."""

    attempts: int = 0
    planning_only: int = 0
    continuations: int = 0
    nudges: int = 0
    strict: int = 0
    ignored: int = 0
    repeated: int = 0
    all_blocked: int = 0
    same_batch: int = 0


def tallied(tale: Story) -> Counted:
    judged = tale.run.judged
    return Counted(
        attempts(tale.run),
        judged.planning_only,
        judged.since_call(CONTINUATIONS),
        judged.reasons.in_run.get(NUDGE, 0),
        judged.reasons.in_run.get(STRICT, 0),
        judged.ignored_cells,
        judged.repeated,
        judged.all_blocked,
        judged.same_batch,
    )


def test_run_begins_with_zero_counts() -> None:
    assert tallied(Story()) == Counted()
    assert Story().run.judged == Judgements()


# Planning


@pytest.mark.req("R0.64", "R0.66")
def test_planning_only_rounds_are_counted(subtests: pytest.Subtests) -> None:
    for names in [("think",), (TODO_TOOL,), ("think", TODO_TOOL), (TODO_TOOL, TODO_TOOL)]:
        with subtests.test(names=names):
            tale = Story()
            for count in range(1, 6):
                assert tallied(tale.called(*names)).planning_only == count


@pytest.mark.req("R0.64", "R0.66")
def test_work_call_resets_the_planning_count(subtests: pytest.Subtests) -> None:
    for names in [("look",), ("think", "look"), (TODO_TOOL, "look"), ("thinking",)]:
        with subtests.test(names=names):
            assert tallied(Story().called("think").called("think").called(*names)).planning_only == 0


@pytest.mark.req("R0.66")
def test_text_alone_neither_counts_as_planning_nor_resets_it() -> None:
    tale = Story().called("think").said().called("think").said().said()
    assert tallied(tale).planning_only == 2


@pytest.mark.req("R0.66")
def test_round_without_a_reply_neither_counts_nor_resets() -> None:
    assert tallied(Story().called("think").begun().ended("error")).planning_only == 1


@pytest.mark.req("R0.65")
def test_completing_a_todo_is_progress() -> None:
    tale = Story(todo(1, DOING)).called("think").called("think").planned(todo(1, DONE))
    assert (tale.last.is_planning_only, tallied(tale).planning_only) == (False, 0)


@pytest.mark.req("R0.65")
def test_other_changes_of_the_list_are_planning() -> None:
    tale = Story().planned(todo(1)).planned(todo(1, DOING)).planned(todo(1, "blocked")).planned(todo(1), todo(2))
    assert tallied(tale).planning_only == 4
    assert tallied(Story(todo(1, DONE)).planned(todo(1)).planned(todo(1), todo(2))).planning_only == 2


@pytest.mark.req("R0.65")
def test_completion_by_others_is_not_progress_of_the_model() -> None:
    tale = Story(todo(1, DOING)).called("think").listed(todo(1, DONE), by="outside").called("think")
    assert (tallied(tale).planning_only, [round_.completed for round_ in tale.run.rounds]) == (2, [(), ()])


@pytest.mark.req("R0.67")
def test_alternating_todo_updates_and_work_never_accumulate_planning() -> None:
    statuses = ["not-started"] * 8
    tale = Story(*[todo(n) for n in range(8)])
    most = 0
    for number in range(8):
        for status in ("in-progress", "", "completed"):
            if status:
                statuses[number] = status
                tale.planned(*[todo(n, s) for n, s in enumerate(statuses)])  # type: ignore[arg-type]
            else:
                tale.called("look")
            most = max(most, tallied(tale).planning_only)
    assert most == 1


@pytest.mark.req("R0.66")
@given(st.lists(st.sampled_from(["plan", "work", "words", "complete"]), max_size=12))
def test_planning_count_covers_rounds_since_the_last_progress(kinds: list[str]) -> None:
    tale, expected = Story(todo(1, DOING)), 0
    for kind in kinds:
        if kind == "plan":
            tale.called("think")
            expected += 1
        elif kind == "words":
            tale.said()
        else:
            expected = 0
            if kind == "work":
                tale.called("look")
            else:
                tale.planned(todo(1, DONE)).listed(todo(1, DOING), by="outside")
        assert tallied(tale).planning_only == expected


# Interventions and continuations


@pytest.mark.req("R0.49")
@pytest.mark.parametrize("reason", ["open_todos", "planning_only", "strict_todos"])
def test_interventions_count_until_work_or_a_completed_todo(reason: str) -> None:
    tale = Story(todo(1, DOING)).said().said(reason=reason).said(reason=reason)
    assert tallied(tale).attempts == 2
    assert tallied(tale.called("think")).attempts == 2
    assert tallied(tale.called("look")).attempts == 0
    assert tallied(tale.said().said(reason=reason)).attempts == 1
    assert tallied(tale.planned(todo(1, DONE))).attempts == 0


@pytest.mark.req("R0.49")
@pytest.mark.parametrize("code", ["unknown_tool", "invalid_arguments", "duplicate_call_blocked"])
def test_unexecuted_work_call_keeps_the_intervention_count(code: str) -> None:
    tale = Story().said().said(reason="open_todos").called("look", is_error=True, error_code=code)
    assert tallied(tale).attempts == 1


@pytest.mark.req("R0.49")
def test_failed_work_counts_as_work() -> None:
    tale = Story().said().said(reason="open_todos").called("look", is_error=True, error_code="tool_error")
    assert tallied(tale).attempts == 0


def test_only_refused_completions_count_as_strict() -> None:
    tale = Story().said().said(reason="open_todos").said(reason="strict_todos")
    assert tallied(tale).strict == 1
    assert tallied(tale.called("look").heard()).strict == 1


@pytest.mark.parametrize("reason", ["workflow_mode", "continue_marker"])
def test_continuations_count_until_a_tool_call(reason: str) -> None:
    tale = Story().said().said(reason=reason).said(reason=reason)
    assert tallied(tale).continuations == 2
    assert tallied(tale.called("think")).continuations == 0


def test_nudges_are_counted_over_the_entire_run() -> None:
    tale = Story().said().said(reason="todo_nudge").called("look").said().said(reason="todo_nudge").heard().said()
    assert (tallied(tale).nudges, tallied(tale).attempts) == (2, 0)


def test_other_round_reasons_are_not_counted(subtests: pytest.Subtests) -> None:
    for reason in ["prompt", "tool_results", "said", "a policy of somebody else"]:
        with subtests.test(reason=reason):
            assert tallied(Story().said(reason=reason)) == Counted()


# Guidance


def test_consecutive_ignored_guidance_is_counted() -> None:
    tale = Story().said("Hm.", guidance_of("text")).said("Hm.", guidance_of("todos_text"))
    assert tallied(tale).ignored == 2
    assert tallied(tale.called("look", guidance=(guidance_of("text"),))).ignored == 0
    assert tallied(tale.said("Hm.", guidance_of("text"))).ignored == 1


def test_unknown_verdict_keeps_the_ignored_count() -> None:
    tale = Story().said("Hm.", guidance_of("text")).begun(guidance_of("text")).ended("error")
    assert tallied(tale).ignored == 1


@pytest.mark.parametrize("cell", ["intervention", "workflow", "already_said"])
def test_only_the_four_cells_count_as_ignored(cell: str) -> None:
    assert tallied(Story().said("Hm.", guidance_of("text")).said("Hm.", guidance_of(cell))).ignored == 1
    assert tallied(Story().said("Hm.", guidance_of("text")).called("look", guidance=(guidance_of(cell),))).ignored == 1


def test_round_without_guidance_keeps_the_ignored_count() -> None:
    assert tallied(Story().said("Hm.", guidance_of("text")).said().called("look")).ignored == 1


# Repeats


@pytest.mark.req("R0.81")
def test_repeated_answers_are_counted() -> None:
    tale = Story()
    counts = [tallied(tale.said(ANSWER)).repeated for _ in range(4)]
    assert counts == [0, 1, 2, 3]
    assert tallied(tale.called("look").said("Something else.")).repeated == 3


def test_consecutive_fully_blocked_rounds_are_counted() -> None:
    tale = Story().called("look").refused("look").refused("look", "look")
    assert tallied(tale).all_blocked == 2
    assert tallied(tale.said()).all_blocked == 2
    call, other = tale.begun().call("look"), tale.call("see")
    tale.replied(call, other).blocked(call).ran(other).ended()
    assert tallied(tale).all_blocked == 0


def test_equal_batches_are_counted_in_any_order() -> None:
    tale = Story().called("look", "see")
    assert tallied(tale).same_batch == 0
    assert tallied(tale.called("see", "look")).same_batch == 1
    assert tallied(tale.refused("look", "see")).same_batch == 2
    assert tallied(tale.called("look", "see", "see")).same_batch == 0
    assert tallied(tale.called("look", "see", "look")).same_batch == 0


def test_single_call_is_not_a_batch() -> None:
    assert tallied(Story().called("look").called("look").called("look")).same_batch == 0


def test_text_between_batches_ends_the_streak() -> None:
    tale = Story().called("look", "see").said().called("look", "see")
    assert tallied(tale).same_batch == 0


@pytest.mark.req("KX.8")
def test_batch_after_a_user_message_is_the_first() -> None:
    tale = Story().called("look", "see").called("look", "see").heard("And again, please")
    assert tallied(tale).same_batch == 0
    assert tallied(tale.called("look", "see")).same_batch == 0
    assert tallied(tale.called("look", "see")).same_batch == 1


# User messages


@pytest.mark.req("KX.8")
def test_user_message_resets_streaks_and_keeps_totals() -> None:
    push = guidance_of("intervention")
    tale = Story(todo(1)).said(ANSWER, guidance_of("text"), reason="todo_nudge").said(ANSWER, push, reason="strict_todos")
    tale.said(reason="workflow_mode").called("think").refused("think")
    assert tallied(tale.heard()) == Counted(nudges=1, strict=1)
    assert tale.run.judged.ignored == {}


def test_user_message_keeps_the_last_failed_tools() -> None:
    tale = Story().called("look", is_error=True).called("look", is_error=True)
    last = tale.run.judged.failures.calls, tale.run.judged.failures.errors
    assert tale.run.judged.failures == ToolFailures(2, ("look",), {"look": 2}, *last)
    assert tale.heard().run.judged.failures == ToolFailures(0, ("look",), {}, *last)


def test_counts_of_a_run_follow_from_its_events() -> None:
    tale = Story(todo(1)).said(ANSWER, guidance_of("text")).said(ANSWER, reason="open_todos").called("think").refused("look")
    assert tallied(tale) == Counted(attempts=1, ignored=1, repeated=1, all_blocked=1)
    assert (tale.run.judged.planning_since, tale.run.judged.blocked_since) == (3, 3)
    assert (tale.run.calls_made, tale.run.calls_this_turn) == (1, 1)
    live = Run()
    for event in tale.events:
        live.apply(event)
    assert live == tale.run
    assert live.has_call_id(ToolCall("x", {}, "c1").id)
