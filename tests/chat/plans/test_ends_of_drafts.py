"""Outcomes of a draft: replaced, decided by a function, timed out, never started, recovered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from draft_turns import DRAFT, Fetched, answered, drafting, kinds, left_after, recovered, run_it, steps_of, waiting, who
from marked_logs import cut_log
from plan_turns import TWO, agent, call, plan, result_of, step, tables_compare
from waiting import PATIENCE, wait_until

from agentnb import Run, RunOptions, Store, tool
from agentnb.chat.plans.draft_turn import kept_plans
from agentnb.core.log.work_events import GrantGiven, PlanApproved, PlanEdited, PlanRejected
from agentnb.display.card.text import head_line
from agentnb.runtime.runs.interludes import MAX_ANSWERS

CHANGES = '{"verdict": "needs_changes", "notes": "State the day."}'
GALWAY = plan(step(1, "galway"))


@tool(effects={"read"}, timeout=600)
async def wait_for_tide() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return ""


def again(number: int) -> Any:
    return call(f"call_{number}", execution_mode="draft_only")


def test_user_decides_on_the_latest_draft_and_model_sees_it() -> None:
    reviewed = call("call_0", execution_mode="agent_review")
    replies = [reviewed, TWO, CHANGES, DRAFT, TWO, again(2), TWO, "Shall it run?", again(3), TWO, "And so?", "High."]
    live = waiting(agent(*replies))
    first = live.run.waiting[0].call_id
    assert first == [*live.run.plans][-1]
    live.answer("deny: too many")
    wait_until(lambda: live.run.waiting and live.run.waiting[0].call_id != first)
    live.answer("approve")
    run = live.result(PATIENCE)
    assert kinds(run) == [*["PlanProposed"] * 3, *["PlanRejected"] * 2, "PlanProposed", "PlanApproved"]
    assert who(run, PlanRejected) == ["planner", "person"] and run.text == "High." and len(run.questions) == 2
    assert not any("replaced" in message.text for message in run.messages)


def test_decision_of_a_function_is_attributed_to_the_program() -> None:
    denied = drafting("So be it.").run_sync("Draft it", RunOptions(answer=lambda question: "deny"))
    assert (who(denied, PlanRejected), denied.status) == (["program"], "completed")
    decisions: list[Any] = [steps_of(step(1, "cork")), "approve"]
    drafter = drafting("High.", tools=Fetched().tools(), approve="ask")
    run = drafter.run_sync("Draft it", RunOptions(answer=lambda question: decisions.pop(0)))
    assert [who(run, kind) for kind in (PlanEdited, PlanApproved, GrantGiven)] == [["program"]] * 3 and run.text == "High."
    assert ": 3 rounds, 1 plan of 1 step, " in head_line(run) and "call" not in head_line(denied)


def test_user_may_change_a_draft_repeatedly() -> None:
    changes = [steps_of(step(1, "cork", description=f"Step {number}")) for number in range(MAX_ANSWERS + 1)]
    run = answered(waiting(drafting("High.")), *changes, "approve")
    assert kinds(run).count("PlanEdited") == MAX_ANSWERS + 1 and run.text == "High."


def test_error_of_a_refused_change_disappears_after_a_message() -> None:
    live = waiting(drafting("What do you mean?"))
    live.answer(steps_of(step(1, "cork", 7)))
    wait_until(lambda: len(live.run.questions) == 2)
    live.say("Hm")
    wait_until(lambda: len(live.run.questions) == 3)
    assert "Invalid edit" in live.run.questions[1].question.message
    assert live.run.questions[2].question.message == live.run.questions[0].question.message
    live.stop()
    live.result(PATIENCE)


def test_plan_that_cannot_start_is_reported_to_the_model(tmp_path: Path) -> None:
    store = Store(tmp_path)
    suspended = drafting().run_sync("Draft it", store=store)
    keyless = agent("It cannot begin.", plans={"model": "openai:gpt-5"})
    answers = {suspended.waiting[0].id: "approve"}
    done = recovered(suspended.id, store, keyless, answers=answers)
    assert who(done, PlanRejected) == ["agentnb"] and "OPENAI_API_KEY" in done.messages[-2].text
    assert (done.text, done.status) == ("It cannot begin.", "completed") and not done.grants


def test_unreadable_plan_is_reported_without_a_question(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[list[Any], str, str]] = {
        "not asked about": ([], "question_asked", "Shall it run?"),
        "told": (["High."], "step_finished", "High."),
    }
    for name, (after, end, text) in cases.items():
        with subtests.test(name):
            store = Store(tmp_path / name.replace(" ", "-"))
            run = drafting(*after).run_sync("Draft it", store=store, answer=(lambda _: "approve") if after else None)
            log = cut_log(store.path(run.id), end, before=not after)
            lines = [json.loads(line) for line in log.read_bytes().splitlines()]
            for line in lines:
                if line["kind"] == "plan_proposed":
                    line["plan"]["steps"] = 7
            log.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
            done = recovered(run.id, store, agent("High."))
            assert (done.status, done.text) == ("completed", text), done.error


def test_reworded_question_is_asked_again_with_its_own_answer(tmp_path: Path) -> None:
    store = Store(tmp_path)
    suspended = drafting().run_sync("Draft it", store=store)
    bare = agent("That tool is gone.", tools=[tables_compare])
    asked: Run = suspended
    for _ in range(2):  # without the tool, the question differs
        answers = {asked.waiting[0].id: "approve"}
        asked = recovered(suspended.id, store, bare, answers=answers)
    assert asked.text == "That tool is gone." and [question.outcome for question in asked.questions] == [
        "withdrawn",
        "answered",
    ]
    assert "tides_fetch" in asked.messages[-2].text and kinds(asked)[-1] == "PlanApproved"


def test_compaction_keeps_the_open_and_last_approved_drafts() -> None:
    live = waiting(drafting(again(2), GALWAY, "And this?", "High."))
    summary = kept_plans(live.run)
    assert "has not approved" in summary and "brest" in summary
    live.answer("approve")
    wait_until(lambda: len(live.run.questions) == 2)
    both = kept_plans(live.run)
    assert "that the person approved" in both and "brest" in both and "has not approved" in both and "galway" in both
    live.answer("approve")
    last = kept_plans(live.result(PATIENCE))
    assert "galway" in last and "brest" not in last and "has not approved" not in last


def test_question_shows_the_executor_of_each_step() -> None:
    steps = [step(1, "brest"), step(2, "", 1, tools=["tables_compare"], executorRequired=True), step(3)]
    live = waiting(drafting(reply=plan(*steps)))
    lines = live.run.waiting[0].message.splitlines()[2:]
    assert '(tides_fetch with {"station":"brest"})' in lines[0] and "(an agent with tables_compare)" in lines[1]
    assert lines[2] == "3. Step 3" and all(word in lines[3] for word in ("1 tool call", "1 step by an agent", "1 reply"))
    live.stop()
    live.result(PATIENCE)


def test_message_runs_the_edited_draft_and_hides_internal_results() -> None:
    live = waiting(drafting(run_it, "High."))
    live.answer(steps_of(step(1, "cork")))
    wait_until(lambda: len(live.run.questions) == 2)
    live.say("Go ahead")
    run = live.result(PATIENCE)
    assert len(result_of(run)["plan"]["steps"]) == 1 and "calls" not in result_of(run)
    clicked = answered(waiting(drafting("High.")), "approve")
    assert '"calls":' not in clicked.messages[-2].text and '"objective"' not in clicked.messages[-2].text


def test_interrupted_call_returns_its_recorded_result(tmp_path: Path, subtests: pytest.Subtests) -> None:
    review = call(execution_mode="agent_review")
    late = plan(step(1, tools=["wait_for_tide"], args={}))
    cases: dict[str, tuple[list[Any], dict[str, Any], str, str, str]] = {
        "reviewed": ([review, TWO, CHANGES, "So."], {}, "plan_reviewed", "needs_changes", "reviewer asks"),
        "a review that failed": ([review, TWO, "It looks fine", "So."], {}, "plan_reviewed", "needs_changes", "review failed"),
        "approved in words": ([DRAFT, TWO, "Shall it run?", run_it, "So."], {}, "plan_approved", "executed", "2 of 2"),
        "ended": ([call(), TWO, "So."], {}, "step_finished", "executed", "2 of 2"),
        "out of time": ([call(), late, "So."], {"plans": {"max_seconds": 0.05}}, "step_finished", "failed", ""),
    }
    for number, (name, (replies, settings, end, status, summary)) in enumerate(cases.items()):
        with subtests.test(name):
            whole, store = Store(tmp_path / f"whole-{number}"), Store(tmp_path / str(number))
            tools: dict[str, Any] = {"tools": [*agent().tools, wait_for_tide]}
            live = agent(*replies, **tools, **settings).start("Go", RunOptions(store=whole))
            wait_until(lambda: live.run.waiting or live.done)  # noqa: B023  # called at once
            if not live.done:
                live.say("Go ahead")
            run = live.result(PATIENCE)
            left_after(whole, run, store, end)
            drafter = agent("So.", **tools)
            done = recovered(run.id, store, drafter)
            result = result_of(done)
            assert (result["status"], done.text) == (status, "So.") and summary in result["summary"] and "calls" not in result
            assert len(who(done, PlanApproved)) == (status != "needs_changes")
