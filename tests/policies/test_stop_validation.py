"""A stop with open todos adds a warning."""

from __future__ import annotations

from typing import Any

import pytest
from asserted_sentences import Snapshot
from run_builder import a_round, todo, todos_of
from run_checks import assert_closed, ended
from scripted_runs import LONG_ANSWER, do, reply, scripted, tool_run
from todo_calls import complete, start, write

from agentnb.core.messages import Text
from agentnb.models.scripted import Line
from agentnb.policies import Matrix, MaxRounds, Stop, decide

TWO = "2 todos are still open:\n1. [not-started] One\n2. [not-started] Two"


def stopped(todos: Any, verdict: Stop) -> Stop:
    stop = decide([lambda _: verdict], tool_run(*a_round(0, "Hm."), todos=todos))
    assert isinstance(stop, Stop)
    return stop


@pytest.mark.req("R0.80")
def test_stop_with_open_todos_lists_them_in_its_warning(snapshot: Snapshot) -> None:
    todos = (todo(1, "completed"), todo(2, "in-progress"), todo(3, "blocked", blocked_reason="no key"))
    assert stopped(todos, Stop("natural")) == Stop(
        "natural",
        warning="2 todos are still open:\n2. [in-progress] Write story 2\n3. [blocked] Write story 3 (blocked: no key)",
        topic="todos",
    )
    assert stopped(todos_of("not-started"), Stop("x")).warning == snapshot


@pytest.mark.req("R0.80")
@pytest.mark.parametrize("todos", [(), todos_of("completed", "completed")])
def test_stop_without_open_todos_has_no_warning(todos: Any) -> None:
    assert stopped(todos, Stop("natural")) == Stop("natural")


@pytest.mark.req("R0.80")
def test_existing_warning_and_fields_of_a_stop_are_kept() -> None:
    own = Stop("error", "failed", problem="It broke", hint="Mend it", warning="Mind the step")
    assert stopped(todos_of("not-started"), own) == own
    limit = decide([MaxRounds(1)], tool_run(*a_round(0, do(1)), todos=todos_of("not-started")))
    assert isinstance(limit, Stop)
    assert (limit.stop_reason, limit.status, limit.limit) == ("max_rounds", "limited", 1)
    assert limit.warning


SCRIPTS: dict[str, tuple[list[Line], dict[str, Any]]] = {
    "natural": (["Hm.", "Well.", "So.", "Yes."], {"policy": "minimal"}),
    "complete_with_open_todos": (["Done.\n[WORKFLOW_COMPLETE]"], {}),
    "todo_intervention_exhausted": (["Hm.", "Well.", "So.", "Right.", "Yes.", "No."], {}),
    "loop_detected": ([LONG_ANSWER] * 4, {}),
    "max_rounds": ([do(1), do(2)], {"max_rounds": 3}),
    "refusal": ([reply(Text("No."), stop_reason="refusal")], {}),
    "reply_cut": ([reply(Text("The first"), stop_reason="max_tokens")] * 2, {}),
}


@pytest.mark.req("R0.80", "R0.53", "K0.2")
def test_every_policy_stop_warns_once_about_open_todos(subtests: pytest.Subtests) -> None:
    for reason, (replies, settings) in SCRIPTS.items():
        with subtests.test(reason=reason):
            run, _ = scripted(write("One", "Two"), *replies, **settings)
            assert run.stop_reason == reason
            assert list(run.warnings) == [TWO]
            assert_closed(run)


@pytest.mark.req("R0.80", "R0.84")
def test_run_that_closed_its_todos_has_no_warning() -> None:
    run, _ = scripted(write("One"), start(1), do(1), complete(1), "Done.")
    assert ended(run) == ("completed", "natural")
    assert not run.warnings


@pytest.mark.req("R0.80", "K0.2")
def test_open_todos_block_a_final_answer_but_not_the_marker() -> None:
    run, _ = scripted(write("One"), "All is done, goodbye.", "[WORKFLOW_COMPLETE]", policy=Matrix())
    assert [round.status for round in run.rounds] == ["success", "auto_continue_todos", "workflow_complete"]
    assert ended(run) == ("completed", "complete_with_open_todos")
