"""Repetitive runs: repeated answers, repeatedly blocked calls."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot
from ephemeral_text import reminder
from run_builder import a_round, said
from run_checks import cells, ended, reasons, todo_statuses
from scripted_runs import LONG_ANSWER, do, scripted, tool_run
from todo_calls import start, write

from agentnb.core.log.events import LoopDetected
from agentnb.core.messages import ToolCall
from agentnb.core.run.rounds import DUPLICATE
from agentnb.policies import Matrix, OnlyBlockedCalls, SaidTooOften
from agentnb.policies.verdict import Stop

CALL = ToolCall("work")
WORKFLOW = Matrix(workflow_mode=True, workflow_cap=20)
OTHERS = [
    "The weather in the north was cold and windy all through the winter of that year.",
    "Two of the columns hold dates, and the third one holds the names of the cities.",
    "A histogram would show best how the prices are spread over the whole market.",
    "Nothing in the log explains why the import stopped after the fourth file.",
    "Please tell me which of the two models you would like to see compared first.",
]


# Alone


@pytest.mark.req("R0.81")
def test_third_answer_that_repeats_an_earlier_one_is_a_loop(snapshot: Snapshot) -> None:
    facts = a_round(0, LONG_ANSWER)
    for index in (1, 2):
        facts += a_round(index, LONG_ANSWER)
        assert SaidTooOften()(tool_run(*facts)) is None
    verdict = SaidTooOften()(tool_run(*facts, *a_round(3, LONG_ANSWER)))
    assert isinstance(verdict, Stop)
    assert (verdict.stop_reason, verdict.status) == ("loop_detected", "stopped")
    assert verdict.loop is not None
    assert verdict.loop[:3] == ("already_said", 2, 3)
    assert verdict.loop[3] == snapshot


@pytest.mark.req("R0.81")
def test_repeated_answers_count_across_other_rounds() -> None:
    facts = [
        *a_round(0, LONG_ANSWER),
        *a_round(1, OTHERS[0]),
        *a_round(2, LONG_ANSWER),
        *a_round(3, CALL),
        *a_round(4, OTHERS[0]),
    ]
    assert SaidTooOften()(tool_run(*facts)) is None
    assert SaidTooOften()(tool_run(*facts, *a_round(5, OTHERS[1]))) is None
    assert SaidTooOften()(tool_run(*facts, *a_round(5, LONG_ANSWER))) is not None


@pytest.mark.req("R0.81")
def test_run_ends_only_on_a_repeated_answer() -> None:
    facts = [fact for index in range(4) for fact in a_round(index, LONG_ANSWER)]
    assert SaidTooOften()(tool_run(*facts, *a_round(4, OTHERS[0]))) is None


@pytest.mark.req("R0.81")
def test_answer_is_compared_only_with_the_last_five() -> None:
    five = [fact for index, text in enumerate(OTHERS, start=1) for fact in a_round(index, text)]
    assert (
        SaidTooOften(1)(tool_run(*a_round(0, LONG_ANSWER), *five[: -len(a_round(5, OTHERS[4]))], *a_round(5, LONG_ANSWER)))
        is not None
    )
    assert SaidTooOften(1)(tool_run(*a_round(0, LONG_ANSWER), *five, *a_round(6, LONG_ANSWER))) is None


@pytest.mark.req("R0.81")
def test_user_may_ask_for_the_same_answer_again() -> None:
    facts = [*a_round(0, LONG_ANSWER), *a_round(1, LONG_ANSWER), *a_round(2, LONG_ANSWER), said("Once more?")]
    assert SaidTooOften()(tool_run(*facts, *a_round(3, LONG_ANSWER, reason="said"))) is None
    again = [*a_round(3, OTHERS[0], reason="said"), *a_round(4, OTHERS[0])]
    assert SaidTooOften()(tool_run(*facts, *again)) is None


@pytest.mark.parametrize("most", [1, 2, 5])
def test_consecutive_rounds_of_blocked_calls_are_a_loop(most: int) -> None:
    facts = a_round(0, CALL)
    for index in range(1, most + 1):
        assert OnlyBlockedCalls(most)(tool_run(*facts)) is None
        facts += a_round(index, CALL, error_code=DUPLICATE)
    verdict = OnlyBlockedCalls(most)(tool_run(*facts))
    assert isinstance(verdict, Stop)
    assert verdict.loop is not None
    assert verdict.loop[:3] == ("only_blocked_calls", 1, most)
    assert "work" in verdict.loop.sentence


def test_executed_call_resets_the_blocked_count_but_text_does_not() -> None:
    blocked = [fact for index in range(2) for fact in a_round(index, CALL, error_code=DUPLICATE)]
    assert OnlyBlockedCalls(3)(tool_run(*blocked, *a_round(2, CALL), *a_round(3, CALL, error_code=DUPLICATE))) is None
    assert OnlyBlockedCalls(2)(tool_run(*blocked, *a_round(2, "Hm."))) is None


# Whole runs


@pytest.mark.req("R0.81")
def test_repeating_model_is_nudged_and_third_repeat_ends_the_run() -> None:
    run, model = scripted(*[LONG_ANSWER] * 4, policy=WORKFLOW)
    reminded = ["You already said this" in reminder(request) for request in model.requests]
    assert reminded == [False, False, True, True]
    assert ended(run) == ("stopped", "loop_detected")
    (loop,) = run.loops
    assert (loop.rule, loop.first, loop.last) == ("already_said", 2, 3)
    assert run.rounds[-1].status == "duplicate_loop_broken"
    assert isinstance(run.events[-2], LoopDetected)


@pytest.mark.req("R0.81", "R0.35")
def test_loop_detection_precedes_interventions_for_open_todos() -> None:
    run, _ = scripted(write("One"), *[LONG_ANSWER] * 4)
    assert ended(run) == ("stopped", "loop_detected")
    assert reasons(run)[2:] == ["open_todos"] * 3
    assert "1 todo is still open" in run.warnings[0]


@pytest.mark.req("R0.81")
def test_nearly_identical_answers_count_as_repeats() -> None:
    texts = [LONG_ANSWER.replace("twelve", word) for word in ("twelve", "eleven", "twenty", "thirty")]
    run, _ = scripted(*texts, policy=WORKFLOW)
    assert ended(run) == ("stopped", "loop_detected")


@pytest.mark.req("R0.81")
def test_repeats_followed_by_completion_are_not_a_loop() -> None:
    run, _ = scripted(LONG_ANSWER, LONG_ANSWER, LONG_ANSWER, "All done.\n[WORKFLOW_COMPLETE]", policy=WORKFLOW)
    assert ended(run) == ("completed", "workflow_complete")
    assert not run.loops


@pytest.mark.req("R0.81")
def test_number_of_allowed_repeats_is_configurable() -> None:
    run, _ = scripted(LONG_ANSWER, LONG_ANSWER, policy=Matrix(workflow_mode=True, repeats=1))
    assert ended(run) == ("stopped", "loop_detected")


@pytest.mark.req("R0.81")
def test_identical_text_beside_calls_is_not_a_loop() -> None:
    run, _ = scripted(*[[LONG_ANSWER, do(number)] for number in range(6)], "Done.")
    assert ended(run) == ("completed", "natural")
    assert not any(cell == "already_said" for said in cells(run) for cell, _ in said)


def test_model_that_ignores_blocked_calls_is_stopped() -> None:
    run, _ = scripted(*[do(1)] * 7)
    assert [result.error_code for round in run.rounds for result in round.results] == [None] * 2 + [DUPLICATE] * 5
    assert ended(run) == ("stopped", "loop_detected")
    assert (run.loops[0].rule, run.loops[0].first, run.loops[0].last) == ("only_blocked_calls", 2, 6)


def test_loop_of_todo_calls_is_stopped() -> None:
    run, _ = scripted(write("One"), *[start(1)] * 7, policy=Matrix(planning_rounds=20))
    assert ended(run) == ("stopped", "loop_detected")
    assert run.loops[0].rule == "only_blocked_calls"
    assert todo_statuses(run) == ["in-progress"]
