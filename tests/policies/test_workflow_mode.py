"""Workflow mode: text alone does not end the run."""

from __future__ import annotations

import pytest
from ephemeral_text import OFF, reminder
from run_builder import a_round, said
from run_checks import cells, ended, reasons
from scripted_runs import do, scripted, tool_run
from todo_calls import complete, start, write

from agentnb.core.messages import ToolCall
from agentnb.errors import SettingsError
from agentnb.policies import Continue, Matrix, Minimal, Stop, WorkflowMode, in_workflow_mode

WORKFLOW = Matrix(workflow_mode=True)
CALL = ToolCall("work")
WORDS = ["Hm.", "Well.", "So.", "Right.", "Yes.", "No."]


@pytest.mark.req("R0.37")
def test_text_alone_adds_a_round_with_a_reminder() -> None:
    verdict = WorkflowMode()(tool_run(*a_round(0, "Hm.")))
    assert isinstance(verdict, Continue)
    assert verdict.reason == "workflow_mode"
    assert [guidance.cell for guidance in verdict.guidance] == ["workflow"]
    assert WorkflowMode()(tool_run(*a_round(0, "Hm."), words=OFF)) == Continue(
        "workflow_mode", round_status="auto_continue_workflow"
    )


@pytest.mark.req("R0.37", "R0.39")
def test_workflow_mode_ignores_replies_with_calls() -> None:
    assert WorkflowMode()(tool_run(*a_round(0, "I look.", CALL))) is None


@pytest.mark.req("K0.7")
def test_cap_limits_consecutive_rounds() -> None:
    facts = a_round(0, "Hm.")
    for index in (1, 2):
        assert isinstance(WorkflowMode(cap=2)(tool_run(*facts)), Continue)
        facts += a_round(index, "Hm.", reason="workflow_mode")
    assert WorkflowMode(cap=2)(tool_run(*facts)) == Stop("workflow_mode_exhausted", "stopped")
    assert isinstance(WorkflowMode(cap=2)(tool_run(*facts, *a_round(3, CALL), *a_round(4, "Hm."))), Continue)
    assert isinstance(WorkflowMode(cap=2)(tool_run(*facts, said("Well?"), *a_round(3, "Hm.", reason="said"))), Continue)


@pytest.mark.req("R0.37", "K0.7")
def test_model_that_only_talks_gets_five_reminders() -> None:
    run, model = scripted(*WORDS, policy=WORKFLOW)
    assert ended(run) == ("stopped", "workflow_mode_exhausted")
    assert reasons(run) == ["prompt", *["workflow_mode"] * 5]
    assert [round.status for round in run.rounds][:-1] == ["auto_continue_workflow"] * 5
    assert ["WORKFLOW MODE" in reminder(request) for request in model.requests] == [False, *[True] * 5]
    assert cells(run)[1] == [("workflow", 1), ("text", 1)]


@pytest.mark.req("K0.7", "R0.33")
def test_marker_ends_workflow_mode() -> None:
    run, _ = scripted(do(1), "Hm.", do(2), "All done.\n[WORKFLOW_COMPLETE]", policy=WORKFLOW)
    assert ended(run) == ("completed", "workflow_complete")
    assert reasons(run) == ["prompt", "tool_results", "workflow_mode", "tool_results"]


@pytest.mark.req("K0.7")
def test_call_in_between_resets_the_count() -> None:
    run, _ = scripted("Hm.", "Well.", do(1), "So.", "Yes.", "No.", policy=Matrix(workflow_mode=True, workflow_cap=2))
    assert ended(run) == ("stopped", "workflow_mode_exhausted")
    assert reasons(run).count("workflow_mode") == 4


@pytest.mark.req("K0.6", "R0.35", "R0.37")
def test_open_todos_replace_the_reminder_of_workflow_mode() -> None:
    run, model = scripted(write("One"), "Hm.", start(1), complete(1), "Well.", "[WORKFLOW_COMPLETE]", policy=WORKFLOW)
    assert [cell for cell, _ in cells(run)[2]] == ["intervention", "todos_text"]
    assert [cell for cell, _ in cells(run)[5]] == ["workflow", "text"]
    assert "WORKFLOW MODE" not in reminder(model.requests[2])


@pytest.mark.req("R0.37", "R0.38", "KX.1")
def test_text_alone_ends_the_run_without_workflow_mode() -> None:
    assert ended(scripted("Hm.")[0]) == ("completed", "natural")
    assert ended(scripted("Hm.", "[WORKFLOW_COMPLETE]", policy=WORKFLOW)[0]) == ("completed", "workflow_complete")


@pytest.mark.req("R0.37")
def test_workflow_mode_requires_a_policy_that_supports_it() -> None:
    assert in_workflow_mode(Matrix(intervention_cap=2)) == Matrix(intervention_cap=2, workflow_mode=True)
    with pytest.raises(SettingsError, match="minimal has no workflow mode"):
        in_workflow_mode(Minimal())


@pytest.mark.req("K0.7")
def test_workflow_mode_and_continue_marker_share_one_cap() -> None:
    texts = [f"{word}\n[CONTINUE]" if number % 2 else word for number, word in enumerate(WORDS)]
    run, _ = scripted(*texts, policy=WORKFLOW)
    assert ended(run) == ("stopped", "workflow_mode_exhausted")
    assert reasons(run)[1:] == ["workflow_mode", "continue_marker", "workflow_mode", "continue_marker", "workflow_mode"]
