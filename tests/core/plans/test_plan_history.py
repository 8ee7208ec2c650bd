"""Plans of a run with the progress of their steps, folded from the log."""

from __future__ import annotations

from typing import Any

import pytest
from planned_runs import ASKED_DAY, ASKING, FINAL, HARBOURS, LACKING, blocked_run, fetch, plan_of, planner_run, tides_fetch
from run_builder import RunBuilder

from agentnb import Plan
from agentnb.core.log import work_events as w
from agentnb.core.log.events import QuestionAsked
from agentnb.core.plans import plan_history
from agentnb.core.plans.plan_history import PlanHistory, PlanProgress
from agentnb.core.run.facts import RunFacts
from agentnb.workflow.plans.planner import PLAN_ACTIONS

PLAN, RUN_PLAN = "llm/core:plan", "llm/exec:run_plan"


def plans_of(run: RunFacts) -> list[PlanProgress]:
    return PlanHistory(run.events).plans


def states(plan: PlanProgress) -> list[str]:
    return [step.status for step in plan.steps]


def test_plan_names_in_logs_match_the_actions() -> None:
    assert (plan_history.PLANNING, plan_history.EXECUTION) == (PLAN, RUN_PLAN) == tuple(PLAN_ACTIONS)
    assert plan_history.GENERATION == "plan_generation"


def test_logged_steps_belong_to_the_latest_plan() -> None:
    first, second, third, last = plans_of(planner_run(HARBOURS, ASKING, LACKING, FINAL))
    assert states(first) == ["completed", "dropped", "failed", "passed", "completed"]
    assert (first.steps[1].same_as, first.steps[2].error, first.intention) == (
        0,
        "ValueError: no such <station>",
        "Fetch the **tables**",
    )
    assert first.steps[2].record is not None and first.steps[2].record.attempts == 2
    assert "04:12" in first.steps[0].result and first.calls == 4, "two attempts at Vigo"
    assert (states(second), second.steps[0].questions) == (["completed", "not_run"], ("q1",))
    assert states(third) == ["failed", "completed"]
    assert "day" in third.steps[0].error and third.steps[1].asks, "a key that a step does not have; an argument that is missing"
    assert (last.steps, last.status, last.asks) == ([], "", False)
    assert [plan.status for plan in (first, second, third)] == ["completed"] * 3


def test_repeated_calls_are_blocked_and_nothing_follows_an_abort() -> None:
    *_, third, last = plans_of(blocked_run())
    assert states(third) == ["blocked"]
    assert states(last) == ["blocked", "failed", "passed", "failed", "not_run"]
    assert (last.steps[3].error, last.status) == ("No <more>", "failed")


def test_steps_advance_as_the_log_grows() -> None:
    history, seen = PlanHistory(), []
    for event in planner_run(HARBOURS, FINAL).events:
        history.take(event)
        now = states(history.plans[0]) if history.plans else []
        if not seen or seen[-1] != now:
            seen.append(now)
    pending = "pending"
    assert seen == [
        [],
        [pending] * 5,
        ["running", *[pending] * 4],
        ["completed", *[pending] * 4],
        ["completed", "dropped", "running", pending, pending],
        ["completed", "dropped", "failed", pending, pending],
        ["completed", "dropped", "failed", "passed", "running"],
        ["completed", "dropped", "failed", "passed", "completed"],
    ]


def test_question_of_a_plan_precedes_its_steps() -> None:
    history = PlanHistory()
    for event in planner_run(plan_of(fetch("brest"), elicitation=ASKED_DAY), FINAL).events:
        history.take(event)
        if isinstance(event, QuestionAsked):
            assert (history.plans[0].status, states(history.plans[0])) == ("running", ["pending"])
    (asking, _) = history.plans
    assert (asking.questions, [*history.questions], states(asking), asking.status) == (
        ("q1",),
        ["q1"],
        ["not_run"],
        "completed",
    )


def test_plan_run_by_a_person_counts_as_a_plan() -> None:
    run = Plan.read({"steps": [{"type": "tool", **fetch("brest")}, {"type": "tool", **fetch("cork")}]}).run_sync(
        tools=[tides_fetch], show=False
    )
    (plan,) = plans_of(run)
    assert (states(plan), plan.calls, plan.number) == (["completed", "completed"], 2, 1)


def test_steps_with_known_results_are_not_run_again() -> None:
    built = RunBuilder(run_kind="workflow")
    steps = [{"id": "a", **fetch("brest")}, {"id": "b", **fetch("cork")}]
    known = {"plan": {"id": "p", "steps": steps}, "results": [{"id": "a", "name": "tides_fetch", "result": 1}]}
    built.add(w.StepStarted, step="run", step_kind="task", agent=RUN_PLAN, inputs=known)
    built.add(w.StepStarted, step="run/1", step_kind="call", parent="run", agent="tides_fetch", iteration=1)
    built.add(w.StepFinished, step="run/1", output=2)
    built.add(w.StepFinished, step="run", output={"results": [*known["results"], {"id": "b", "result": 2}]})
    assert states(*plans_of(built.run)) == ["known", "completed"]


def test_malformed_plans_in_a_log_are_readable(subtests: pytest.Subtests) -> None:
    written: dict[str, Any] = {
        "no list": {"steps": "look"},
        "texts": {"steps": ["look", None, 3]},
        "odd fields": {"steps": [{"type": 3, "name": ["x"], "args": "y", "reason": {}, "tools": 1}], "elicitation": []},
        "nothing": {},
    }
    for name, plan in written.items():
        with subtests.test(name):
            built = RunBuilder(run_kind="workflow").add(w.PlanProposed, plan_id="p", plan=plan)
            built.add(w.StepStarted, step="x", agent=RUN_PLAN, inputs={"plan": {"id": "p"}, "results": 3})
            built.add(w.StepStarted, step="x/7", step_kind="call", inputs=None)
            built.add(w.StepFinished, step="x/7", status="failed").add(w.StepFinished, step="x", output={"results": [1]})
            (result,) = plans_of(built.run)
            assert len(result.steps) == {"no list": 0, "texts": 3, "odd fields": 1, "nothing": 0}[name]


def test_any_result_of_a_plan_run_is_readable(subtests: pytest.Subtests) -> None:
    outputs: dict[str, tuple[Any, list[str], int]] = {
        "as written": ({"steps": [{"status": "failed", "error": "gone"}], "calls": 2}, ["failed"], 2),
        "no list": ({"steps": "look", "calls": 1}, ["pending"], 1),
        "texts": ({"steps": ["look", {"status": "completed"}], "calls": "many"}, ["pending"], 0),
        "more than it has": ({"steps": [{"status": "completed"}] * 3, "calls": True}, ["completed"], 0),
    }
    for name, (output, expected, calls) in outputs.items():
        with subtests.test(name):
            built = RunBuilder().add(w.PlanProposed, plan_id="p", plan={"steps": [fetch("brest")]})
            built.add(w.StepStarted, step="p", agent=RUN_PLAN, inputs={"plan": {"id": "p"}})
            (plan,) = plans_of(built.add(w.StepFinished, step="p", output=output).run)
            assert (states(plan), plan.calls) == (expected, calls)


def test_edited_and_rejected_plans_are_recorded() -> None:
    built = RunBuilder().add(w.PlanProposed, plan_id="p", plan={"steps": [fetch("brest")]})
    built.add(w.PlanEdited, plan_id="p", plan={"steps": [fetch("cork"), fetch("brest")]})
    (plan,) = plans_of(built.run)
    assert (plan.record.edits, [(step.written.args or {})["station"] for step in plan.steps]) == (1, ["cork", "brest"])
    (plan,) = plans_of(built.add(w.PlanRejected, plan_id="p").run)
    assert (plan.is_rejected, states(plan)) == (True, ["not_run", "not_run"])
    (again,) = plans_of(built.add(w.PlanProposed, plan_id="p", plan={"steps": []}).run)
    assert (again.is_rejected, again.number, again.steps) == (False, 1, [])
