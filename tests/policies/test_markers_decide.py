"""Verdicts of the model's markers."""

from __future__ import annotations

import itertools

import pytest
from asserted_sentences import Snapshot
from ephemeral_text import MATRIX, OFF, TAG, reminder, stored_text
from run_builder import a_round, said, todos_of
from run_checks import cells, checked, ended, reasons, todo_statuses
from scripted_runs import do, scripted, tool_run
from todo_calls import complete, start, write

from agentnb.core.messages import ToolCall
from agentnb.core.todos import Todo
from agentnb.policies import Complete, Continue, GoOn, Matrix, Stop, stuck

CALL = ToolCall("work")
OPEN = todos_of("completed", "in-progress")
BLOCKED = todos_of("completed", "blocked")
TODO_LISTS = [(), todos_of("completed")]


# [WORKFLOW_COMPLETE]


@pytest.mark.req("R0.33", "K0.1")
def test_complete_marker_also_ends_replies_with_calls(subtests: pytest.Subtests) -> None:
    for parts, todos in itertools.product([["All done."], ["All done.", CALL]], TODO_LISTS):
        with subtests.test(parts=parts, todos=todos):
            assert Complete()(tool_run(*a_round(0, *parts, signals=("complete",)), todos=todos)) == Stop(
                "workflow_complete", round_status="workflow_complete"
            )


@pytest.mark.req("K0.2")
@pytest.mark.parametrize("todos", [OPEN, BLOCKED])
def test_complete_marker_with_open_todos_stops_and_reports_them(todos: tuple[Todo, ...]) -> None:
    run = tool_run(*a_round(0, "All done.", signals=("complete",)), todos=todos)
    assert Complete()(run) == Stop("complete_with_open_todos", round_status="workflow_complete")


@pytest.mark.req("R0.33")
@pytest.mark.parametrize("signals", [(), ("continue",), ("stop",)])
def test_run_is_not_complete_without_the_marker(signals: tuple[str, ...]) -> None:
    assert Complete()(tool_run(*a_round(0, "Done.", signals=signals))) is None
    assert Complete()(tool_run(*a_round(0, "Done.", signals=("complete",)), *a_round(1, "And?", signals=signals))) is None


@pytest.mark.req("K0.2", "R0.80")
def test_strict_todos_refuse_only_the_first_complete_marker() -> None:
    strict = Complete(strict_todos=True)
    first = a_round(0, "All done.", signals=("complete",))
    verdict = strict(tool_run(*first, todos=OPEN))
    assert isinstance(verdict, Continue)
    assert verdict.reason == "strict_todos"
    assert [(guidance.cell, guidance.level, guidance.trigger) for guidance in verdict.guidance] == [
        ("intervention", 1, "strict_todos")
    ]
    second = a_round(1, "All done.", signals=("complete",), reason="strict_todos")
    assert strict(tool_run(*first, *second, todos=OPEN)) == Stop("complete_with_open_todos", round_status="workflow_complete")


@pytest.mark.req("K0.2", "K0.9")
def test_strict_todos_accept_complete_marker_without_workable_todos() -> None:
    for todos, reason in [((), "workflow_complete"), (BLOCKED, "complete_with_open_todos")]:
        run = tool_run(*a_round(0, "All done.", signals=("complete",)), todos=todos)
        assert Complete(strict_todos=True)(run) == Stop(reason, round_status="workflow_complete")


@pytest.mark.req("R0.33", "R0.39", "K0.1")
def test_calls_beside_the_complete_marker_run_without_another_reply() -> None:
    run, _ = scripted(["All done.\n[WORKFLOW_COMPLETE]", do(1), do(2)])
    assert ended(run) == ("completed", "workflow_complete")
    assert [result.text for result in run.rounds[0].results] == ["made 1", "made 2"]
    assert run.messages[-1].role == "tool"
    checked(run)


@pytest.mark.req("R0.33", "R0.40")
@pytest.mark.parametrize("marker", ["[WORKFLOW_COMPLETE]", '{"status": "complete"}'])
def test_complete_marker_ends_the_run_and_is_not_stored(marker: str) -> None:
    run, _ = scripted(do(1), f"All done.\n{marker}")
    assert ended(run) == ("completed", "workflow_complete")
    assert run.rounds[-1].status == "workflow_complete"
    assert run.text == "All done."
    assert marker not in stored_text(run)


@pytest.mark.req("K0.1", "R0.35")
@pytest.mark.parametrize("text", ["[CONTINUE]\n[WORKFLOW_COMPLETE]", "[WORKFLOW_COMPLETE]\n[CONTINUE]"])
def test_complete_marker_wins_over_other_markers(text: str) -> None:
    run, _ = scripted(text)
    assert ended(run) == ("completed", "workflow_complete")


@pytest.mark.req("K0.1")
@pytest.mark.parametrize("text", ["Say [WORKFLOW_COMPLETE] at the end.", "- [WORKFLOW_COMPLETE]", "[WORKFLOW_COMPLETE]."])
def test_marker_inside_a_line_is_kept_as_text(text: str) -> None:
    run, _ = scripted(text)
    assert ended(run) == ("completed", "natural")
    assert run.text == text


@pytest.mark.req("K0.2", "R0.80")
def test_completing_with_open_todos_has_its_own_reason_and_warning(snapshot: Snapshot) -> None:
    run, _ = scripted(write("One", "Two"), "All done.\n[WORKFLOW_COMPLETE]")
    assert ended(run) == ("completed", "complete_with_open_todos")
    assert list(run.warnings) == snapshot
    assert run.rounds[-1].status == "workflow_complete"


@pytest.mark.req("K0.2", "R0.80")
def test_strict_todos_let_the_model_update_its_list() -> None:
    policy = Matrix(strict_todos=True)
    run, model = scripted(write("One"), "[WORKFLOW_COMPLETE]", start(1), complete(1), "[WORKFLOW_COMPLETE]", policy=policy)
    assert ended(run) == ("completed", "workflow_complete")
    assert reminder(model.requests[2]).startswith("REMINDER:")
    assert run.rounds[1].status == "auto_continue_todos"
    assert not run.warnings


@pytest.mark.req("K0.2", "R0.80")
def test_strict_todos_accept_a_second_complete_marker() -> None:
    run, _ = scripted(write("One"), "[WORKFLOW_COMPLETE]", "[WORKFLOW_COMPLETE]", policy=Matrix(strict_todos=True))
    assert ended(run) == ("completed", "complete_with_open_todos")
    assert run.warnings


@pytest.mark.req("R0.33")
def test_complete_marker_waits_for_a_user_message() -> None:
    run = tool_run(*a_round(0, "All done.", signals=("complete",)), said("And the plot?"))
    policies = Matrix().rules(MATRIX).policies
    verdicts = [verdict for policy in policies if (verdict := policy(run)) is not None]
    assert verdicts[0] == Continue("said")


# [CONTINUE]


@pytest.mark.req("R0.34")
def test_continue_marker_adds_a_round_without_todos_or_workflow() -> None:
    assert GoOn()(tool_run(*a_round(0, "More.", signals=("continue",)))) == Continue(
        "continue_marker", round_status="auto_continue_workflow"
    )
    run, model = scripted("First.\n[CONTINUE]", "Second.")
    assert reasons(run) == ["prompt", "continue_marker"]
    assert ended(run) == ("completed", "natural")
    assert run.rounds[0].status == "auto_continue_workflow"
    assert "[CONTINUE]" not in stored_text(run)
    assert [message.role for message in model.requests[1].messages] == ["user", "assistant", "user"]


@pytest.mark.req("R0.34")
def test_continue_marker_counts_only_without_calls() -> None:
    assert GoOn()(tool_run(*a_round(0, "More.", CALL, signals=("continue",)))) is None
    assert GoOn()(tool_run(*a_round(0, "More."))) is None


@pytest.mark.req("R0.34", "K0.7")
def test_continue_marker_is_honoured_up_to_a_consecutive_limit() -> None:
    facts = a_round(0, "0", signals=("continue",))
    for index in range(1, 3):
        assert GoOn(cap=2)(tool_run(*facts)) == Continue("continue_marker", round_status="auto_continue_workflow")
        facts += a_round(index, str(index), signals=("continue",), reason="continue_marker")
    assert GoOn(cap=2)(tool_run(*facts)) is None
    between = [*facts, *a_round(3, CALL), *a_round(4, "4", signals=("continue",))]
    assert GoOn(cap=2)(tool_run(*between)) == Continue("continue_marker", round_status="auto_continue_workflow")
    assert GoOn(cap=2)(tool_run(*facts, said("Go on."))) == Continue("continue_marker", round_status="auto_continue_workflow")


@pytest.mark.req("R0.34", "K0.7")
def test_model_that_always_continues_reaches_a_natural_end() -> None:
    run, _ = scripted(*[f"{number}\n[CONTINUE]" for number in range(6)])
    assert ended(run) == ("completed", "natural")
    assert reasons(run) == ["prompt", *["continue_marker"] * 5]


@pytest.mark.req("R0.35")
def test_continue_marker_precedes_open_todos() -> None:
    run, _ = scripted(write("One"), "Wait.\n[CONTINUE]", "Hm.", start(1), complete(1), "Done.")
    assert reasons(run)[2:4] == ["continue_marker", "open_todos"]
    assert cells(run)[2] == [("todos_text", 1)]


# {"status": "stop"}


@pytest.mark.req("R0.41")
@pytest.mark.parametrize("todos", TODO_LISTS)
def test_stuck_model_fails_with_a_reason_and_a_hint(todos: tuple[Todo, ...]) -> None:
    verdict = stuck(tool_run(*a_round(0, "I cannot.", signals=("stop",)), todos=todos))
    assert isinstance(verdict, Stop)
    assert (verdict.stop_reason, verdict.status) == ("error", "failed")
    assert verdict.problem
    assert verdict.hint


@pytest.mark.req("R0.41")
def test_stuck_marker_is_refused_while_workable_todos_are_open() -> None:
    assert stuck(tool_run(*a_round(0, "I cannot.", signals=("stop",)), todos=OPEN)) is None
    assert stuck(tool_run(*a_round(0, "I can."))) is None
    run, _ = scripted(write("One"), '{"status": "stop"}', start(1), complete(1), 'I cannot.\n{"status":"stop"}')
    assert reasons(run)[2] == "open_todos"
    assert ended(run) == ("failed", "error")
    assert run.error is not None and "stuck" in run.error.message
    assert run.text == "I cannot."


@pytest.mark.req("R0.41")
def test_refused_stop_marker_brings_one_intervention() -> None:
    run, model = scripted(write("One"), '{"status": "stop"}', "[WORKFLOW_COMPLETE]")
    assert reminder(model.requests[2]).startswith("REMINDER:")
    assert todo_statuses(run) == ["not-started"]


def test_strict_refusal_works_without_guidance_text() -> None:
    verdict = Complete(strict_todos=True)(tool_run(*a_round(0, "All done.", signals=("complete",)), todos=OPEN, words=OFF))
    assert verdict == Continue("strict_todos", round_status="auto_continue_todos")
    run, model = scripted(
        write("One"), "[WORKFLOW_COMPLETE]", "[WORKFLOW_COMPLETE]", policy=Matrix(strict_todos=True), guidance="off"
    )
    assert reasons(run)[2] == "strict_todos"
    assert TAG not in repr(model.requests[2].messages)
