"""Drafts that wait after the turn: approved, declined, edited, postponed and recovered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from draft_turns import DRAFT, answered, drafting, events_of, kinds, named, run_it, steps_of, waiting
from plan_turns import TWO, agent, call, error_of, result_of, step
from waiting import PATIENCE, wait_until

from agentnb import RunOptions, ToolCall, tool
from agentnb.core.log.events import RoundStarted
from agentnb.core.log.work_events import PlanApproved, PlanRejected
from agentnb.core.questions import NoAnswer
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun
from agentnb.tools.tool import ToolContext


@pytest.mark.req("R3.19", "R3.38", "KX.5")
def test_approved_draft_runs_at_once_and_model_reports_it() -> None:
    live = waiting(drafting("Both are high at 05:10."))
    (question,) = live.run.waiting
    assert (question.kind, live.run.status, live.run.text) == ("plan_review", "waiting_on_user", "Shall it run?")
    assert live.run.agent_state == "waiting_on_user"
    run = answered(live, "approve")
    assert kinds(run) == ["PlanProposed", "PlanApproved"] and run.text == "Both are high at 05:10."
    assert [call.operation for call in run.model_calls] == ["plan_generation"] and run.status == "completed"
    (step_,) = run.step_records.values()
    assert (step_.status, step_.output["status"], step_.output["summary"]) == ("completed", "executed", "2 of 2 steps done.")
    report = run.messages[-2].text
    assert question.call_id in report and '"status":"executed"' in report and '"station":"brest"' in report


def test_declined_draft_stays_closed_and_only_reasons_reach_the_model(subtests: pytest.Subtests) -> None:
    for answer, reason in [
        ("deny", ""),
        (NoAnswer.DECLINE, ""),
        (False, ""),
        ("deny: too many stations", "too many stations"),
        ({"deny": "too many stations"}, "too many stations"),
    ]:
        with subtests.test(str(answer)):
            run = answered(waiting(drafting(run_it, "Then one station only.")), answer)
            assert not reason or (error_of(run)[0] == "declined" and reason in error_of(run)[1])
            assert kinds(run) == ["PlanProposed", "PlanRejected"] and not run.step_records
            (declined,) = events_of(run, PlanRejected)
            assert (declined.reason, declined.by, run.status) == (reason, "person", "completed")
            assert run.text == ("Then one station only." if reason else "Shall it run?")
            assert not reason or any(
                f"They said: {reason}" in message.text for message in run.messages if message.role == "user"
            )
            again = replace(agent(), model=ScriptedModel([call(plan_id=declined.plan_id), "It stays closed."]))
            later = again.run_sync("Do run it", continue_from=run)
            assert error_of(later)[0] == "declined" and declined.plan_id in error_of(later)[1] and not later.step_records
            assert ("They said: too many" in error_of(later)[1]) is bool(reason)


def test_edit_is_validated_logged_and_run_when_approved(subtests: pytest.Subtests) -> None:
    one = step(1, "cork")
    refused = {
        "an unknown tool": [step(1, "cork", tools=["tides_fetches"])],
        "a built-in tool that the run has not": [step(1, tools=["read_file"], args={"path": "tides.txt"})],
        "wrong arguments": [step(1, "cork", args={"station": 4})],
        "an unknown step": [step(1, "cork", 7)],
    }
    for name, steps in refused.items():
        with subtests.test(name):
            live = waiting(drafting("Done."))
            (first,) = live.run.waiting
            live.answer(steps_of(*steps))
            wait_until(lambda: live.run.waiting and live.run.waiting[0] != first)  # noqa: B023  # called at once
            assert "Invalid edit" in live.run.waiting[0].message and kinds(live.run) == ["PlanProposed"]
            live.stop()
            live.result(PATIENCE)
    live = waiting(drafting("Only Cork was fetched."))
    run = answered(live, steps_of(one, step(2, "", 1)), steps_of(one), "approve")
    assert kinds(run) == ["PlanProposed", "PlanEdited", "PlanEdited", "PlanApproved"]
    record = next(iter(run.plans.values()))
    assert [a_step["args"] for a_step in record.plan["steps"]] == [{"station": "cork"}]
    assert record.plan["objective"] == "Compare the tides of Brest and Cork" and record.status == "approved"
    (done,) = run.step_records.values()
    assert done.output["summary"] == "1 of 1 steps done." and len(done.output["plan"]["steps"]) == 1
    assert '"station":"cork"' in run.messages[-2].text and "brest" not in run.messages[-2].text
    for steps in ([], [{**one, "description": ""}], [{**one, "tools": "tides_fetch"}], "all"):
        with pytest.raises(SettingsError, match="steps"):
            waiting(drafting()).answer({"edit": {"steps": steps}})
    least = {"description": "Fetch", "tools": ["tides_fetch"], "args": {"station": "cork"}}
    run = answered(waiting(drafting("Fetched.")), steps_of(least), "approve")
    assert next(iter(run.step_records.values())).output["summary"] == "1 of 1 steps done."


def test_message_instead_of_an_answer_lets_the_draft_run_once() -> None:
    drafter = drafting(run_it, "They are high together.")
    live = waiting(drafter)
    live.say("Yes, go ahead")
    run = live.result(PATIENCE)
    assert result_of(run)["status"] == "executed" and run.text == "They are high together."
    (approved,) = events_of(run, PlanApproved)
    assert (approved.by, approved.words, approved.call_id) == ("person", "Yes, go ahead", "call_2")
    assert [question.outcome for question in run.questions] == ["withdrawn"]
    asked_again = waiting(drafting("What do you mean?"))
    asked_again.say("Hm")
    wait_until(lambda: len(asked_again.run.questions) == 2)
    assert [question.outcome for question in asked_again.run.questions] == ["withdrawn", "open"]
    assert asked_again.run.text == "What do you mean?" and asked_again.run.waiting[0].kind == "plan_review"
    asked_again.answer("deny")
    assert asked_again.result(PATIENCE).status == "completed"


def test_unclear_message_does_not_approve_and_is_asked_again(subtests: pytest.Subtests) -> None:
    for words in ("no problem, run it", "Looks right to me, but leave out step 2", "What does it cost?"):
        with subtests.test("in the run", words=words):
            live = waiting(drafting(run_it, "It waits for you.", "High together."))
            live.say(words)
            wait_until(lambda: len(live.run.questions) == 2)  # noqa: B023  # called at once
            assert error_of(live.run)[0] == "not_approved" and kinds(live.run) == ["PlanProposed"]
            run = answered(live, "approve")
            (approved,) = events_of(run, PlanApproved)
            assert (approved.words, approved.by, len(run.questions), run.text) == ("", "person", 2, "High together.")
        with subtests.test("in the next run", words=words):
            drafted = agent(DRAFT, TWO, "Shall it run?").run_sync("Draft it")
            name = result_of(drafted)["plan_id"]
            again = agent(call("call_2", plan_id=name), "It waits for you.", "High together.")
            live = again.start(words, RunOptions(continue_from=drafted))
            run = answered(live, "approve")
            assert kinds(run) == ["PlanProposed", "PlanApproved"] and run.text == "High together."
            assert len(run.questions) == 1 and not [
                event for event in run.events if isinstance(event, PlanApproved) and event.words
            ]


def test_unambiguous_no_closes_the_draft_for_the_model(subtests: pytest.Subtests) -> None:
    no = "No! Do not run it."
    with subtests.test("in the run"):
        live = waiting(drafting(run_it, "It stays closed."))
        live.say(no)
        run = live.result(PATIENCE)
        (rejected,) = events_of(run, PlanRejected)
        assert rejected.seq < events_of(run, RoundStarted)[2].seq, "it is closed before the model reads the words"
        assert (rejected.by, rejected.words, rejected.reason) == ("person", no, "")
        assert error_of(run)[0] == "declined" and no in error_of(run)[1]
        assert (run.text, run.status, len(run.questions)) == ("It stays closed.", "completed", 1)
    with subtests.test("before the question"):
        lives: list[LiveRun] = []

        def look(station: str) -> str:
            """Hear the person, and look at the tide."""
            wait_until(lambda: lives)
            lives[0].say(no)
            return "05:10"

        drafter = agent(
            DRAFT, TWO, ToolCall("look", {"station": "brest"}, "call_2"), "Shall it run?", tools=[*agent().tools, look]
        )
        lives.append(drafter.start("Draft it"))
        run = lives[0].result(PATIENCE)
        assert kinds(run) == ["PlanProposed", "PlanRejected"] and not run.questions and run.status == "completed"
    with subtests.test("in the next run, and for good"):
        for says in ((no,), (no, "Yes, run it")):
            before = agent(DRAFT, TWO, "Shall it run?").run_sync("Draft it")
            name = result_of(before)["plan_id"]
            for words in says[:-1]:
                before = agent("As you like.").run_sync(words, continue_from=before)
            run = agent(call("call_2", plan_id=name), "It stays closed.").run_sync(says[-1], continue_from=before)
            assert error_of(run)[0] == "declined" and no in error_of(run)[1] and not run.step_records


def test_answer_to_another_question_does_not_approve_a_draft() -> None:
    @tool(blocking=True)
    async def ask_day(context: ToolContext) -> str:
        """Ask for the day."""
        return str(await context.ask("Which day?"))

    run_it: Callable[[Any], Any] = lambda request: call("call_3", plan_id=named(request))  # noqa: E731
    drafter = agent(DRAFT, TWO, ToolCall("ask_day", {}, "call_2"), run_it, "It waits for you.", tools=[*agent().tools, ask_day])
    live = drafter.start("Draft it")
    wait_until(lambda: live.run.waiting)
    live.answer("yes, Monday")
    wait_until(lambda: any(question.question.kind == "plan_review" for question in live.run.questions))
    assert error_of(live.run)[0] == "not_approved" and kinds(live.run) == ["PlanProposed"]
    live.stop()
    live.result(PATIENCE)
