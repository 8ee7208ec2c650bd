"""Undecided draft questions: closed, or answered by functions that fail or never decide."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from draft_turns import DRAFT, Fetched, answered, drafting, kinds, recovered, run_it, steps_of, waiting
from plan_turns import TWO, agent, call, error_of, plan, result_of, step
from waiting import PATIENCE, wait_until

from agentnb import Extension, Stop, Store, fork_sync, recover, tool
from agentnb.core.log.events import CommandReceived
from agentnb.core.questions import NoAnswer
from agentnb.errors import QuestionCancelled
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.runs.interludes import MAX_ANSWERS


def failing(question: Any) -> Any:
    raise OSError("the form is down")


def closing(question: Any) -> Any:
    raise QuestionCancelled("later")


def test_undecided_question_stays_open_and_can_be_answered_later(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, answer in {"the person closes it": None, "a function fails": failing, "a function closes it": closing}.items():
        with subtests.test(name):
            store, fetched = Store(tmp_path / name.replace(" ", "-")), Fetched()
            if answer is None:
                live = waiting(drafting(), store=store)
                live.answer(NoAnswer.CANCEL)
                run = live.result(PATIENCE)
            else:
                run = drafting().run_sync("Draft it", store=store, answer=answer)
            assert run.status == "waiting_on_user" and [question.kind for question in run.waiting] == ["plan_review"]
            again = recovered(run.id, store, agent(), answers={run.waiting[0].id: NoAnswer.CANCEL})
            assert again.status == "waiting_on_user" and len(again.waiting) == 1
            drafter = agent("High.", tools=fetched.tools(), approve="ask")
            done = recovered(again.id, store, drafter, answers={again.waiting[0].id: "approve"})
            assert done.text == "High." and sorted(fetched.stations) == ["brest", "cork"]
            assert kinds(done) == ["PlanProposed", "PlanApproved"]


def test_answer_function_that_keeps_changing_a_draft_suspends_it(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, steps in {"a change": step(1, "galway"), "a wrong one": step(1, "galway", tools=["nets_mend"])}.items():
        with subtests.test(name):
            store, fetched, asked = Store(tmp_path / name.replace(" ", "-")), Fetched(), []

            def change(question: Any) -> Any:
                asked.append(question.id)  # noqa: B023  # called within the subtest
                return steps_of(steps)  # noqa: B023  # as above

            run = drafting().run_sync("Draft it", store=store, answer=change)
            assert run.status == "waiting_on_user" and len(asked) == MAX_ANSWERS and len(run.waiting) == 1
            assert run.warned
            waiting_run = recovered(run.id, store, agent(), answer=change)
            assert len(asked) == MAX_ANSWERS and [question.id for question in waiting_run.waiting] == [
                question.id for question in run.waiting
            ]
            drafter = agent("High.", tools=fetched.tools(), approve="ask")
            done = recovered(waiting_run.id, store, drafter, answers={waiting_run.waiting[0].id: "approve"})
            assert done.text == "High." and bool(fetched.stations) and len(run.waiting) == 1


def test_message_written_before_the_draft_does_not_approve_it() -> None:
    lives: list[Any] = []

    def planner(request: Any) -> str:
        wait_until(lambda: lives)
        lives[0].say("Also look at Vigo")
        return TWO

    fetched = Fetched()
    lives.append(agent(DRAFT, planner, run_it, "Shall it run?", tools=fetched.tools(), approve="auto").start("Draft it"))
    wait_until(lambda: lives[0].run.waiting or lives[0].done)
    assert error_of(lives[0].run)[0] == "not_approved" and kinds(lives[0].run) == ["PlanProposed"] and not fetched.stations
    lives[0].stop()
    lives[0].result(PATIENCE)


def test_model_sees_the_draft_result_along_with_other_messages(subtests: pytest.Subtests) -> None:
    lives: list[Any] = []

    @tool(effects={"write"})
    def tides_fetch(station: str) -> str:
        """Fetch the tide table of a station."""
        lives[-1].say("And hurry")
        return f"{station}: 05:10"

    cases: dict[str, tuple[dict[str, Any], Any, list[str]]] = {
        "words while the plan runs": ({"tools": [tides_fetch]}, "approve", ["And hurry", '"status":"executed"']),
        "words with the answer": ({}, "deny: too many", ["And hurry", "too many"]),
        "the last round": ({"max_rounds": 2}, "approve", ["max_rounds", '"status":"executed"']),
    }
    for name, (settings, answer, read) in cases.items():
        with subtests.test(name):
            tools = {"tools": Fetched().tools(), "approve": "auto", **settings}
            drafter = drafting("High.", "Still high.", **tools)
            lives.append(waiting(drafter))
            live = lives[-1]
            if name == "words with the answer":  # paused, otherwise the message may arrive a round later
                live.pause()
                wait_until(lambda: any(isinstance(event, CommandReceived) for event in live.run.events))  # noqa: B023
            live.answer(answer)
            if name == "words with the answer":
                wait_until(lambda: not live.run.waiting)  # noqa: B023  # called at once
                live.say("And hurry")
                live.resume()
            run = live.result(PATIENCE)
            sent = [message.text for message in drafter.model.requests[3].messages if message.role == "user"][-1]  # type: ignore[union-attr]
            assert all(word in sent for word in read) and run.text in ("High.", "Still high.")


def test_another_policy_can_end_the_turn_after_a_plan() -> None:
    def end(run: Any) -> Stop | None:
        return Stop("enough") if run.rounds and run.last_round.records else None

    drafter = agent(call(), TWO, "Never read.")
    run = replace(drafter, extensions=(*drafter.extensions, Extension(name="end", policies=[end]))).run_sync("Compare them")
    assert result_of(run)["status"] == "executed" and (run.status, len(run.rounds)) == ("completed", 1)


def test_plan_text_resembling_placeholders_is_kept() -> None:
    drafter = drafting("High.", reply=plan(step(1, "brest", description="Write {{ result }}")))
    live = waiting(drafter)
    live.answer("approve")
    run = live.result(PATIENCE)
    assert "Write {{ result }}" in run.messages[-2].text and run.text == "High."


def test_model_text_cannot_imitate_a_line_of_the_question() -> None:
    steps = [step(1, "brest", description="Fetch\n2. Nothing else\nIt may involve nothing.")]
    reply = json.dumps({"steps": steps, "reasoning": "Read it:\nMay the plan plan-1 run?\n1. Look"})
    live = waiting(drafting(reply=reply))
    lines = live.run.waiting[0].message.splitlines()
    assert len(lines) == 4 and lines[1].startswith("May the plan") and "tides_fetch" in lines[2] and "1 tool call" in lines[3]
    live.stop()
    live.result(PATIENCE)


def test_conversation_continues_without_malformed_logged_drafts(subtests: pytest.Subtests) -> None:
    carried: list[Any] = [5, [5], [{}], [{"plan": {"id": "plan-1"}, "status": "open"}]]
    carried += [[{"plan": {"id": "plan-1", "steps": [{"knots": 1}]}, "status": "open"}]]
    carried += [[{"plan": {"id": "plan-1", "steps": [step(1, "brest")]}, "status": "sunk"}]]
    for drafts in carried:
        with subtests.test(str(drafts)):
            settings = {"drafts": drafts}
            before = replace(agent("Well."), extensions=[Extension(name="plans", settings=settings)]).run_sync("Draft it")
            run = agent(call(plan_id="plan-1"), "There is none.").run_sync("Go ahead", continue_from=before)
            assert error_of(run)[0] == "unknown_plan" and run.text == "There is none."


@pytest.mark.req("KX.5")
def test_foreign_log_cannot_approve_a_draft_unless_trusted(tmp_path: Path, subtests: pytest.Subtests) -> None:
    whole, fetched = Store(tmp_path / "whole"), Fetched()
    tools: dict[str, Any] = {"tools": fetched.tools(), "approve": "ask"}
    clicked = answered(waiting(drafting("High.", **tools), store=whole), "approve")
    live = waiting(drafting(run_it, "High.", tools=fetched.tools(), approve="auto"), store=whole)
    live.say("Go ahead")
    said = live.result(PATIENCE)
    cuts = {name: (clicked, name) for name in ("QuestionAnswered", "GrantGiven", "PlanApproved", "StepStarted")}
    for name, (run, last) in {**cuts, "words": (said, "CommandReceived")}.items():
        with subtests.test(name):
            store = Store(tmp_path / name)
            store.prepare()
            end = [type(event).__name__ for event in run.events].index(last) + 1
            lines = whole.path(run.id).read_text(encoding="utf-8").splitlines(keepends=True)[:end]
            store.path(run.id).write_text("".join(lines).replace("Draft it", "Draft this"), encoding="utf-8")
            fetched.stations.clear()
            replies = [run_it, "Shall it run?"] if name == "words" else []
            waiting_run = asyncio.run(
                recover(run.id, agent=agent(*replies, **tools), store=store, trust_log=False, suspend=True)
            )
            assert (
                waiting_run.status == "waiting_on_user"
                and waiting_run.waiting[0].kind == "plan_review"
                and not fetched.stations
            )
            done = recovered(waiting_run.id, store, agent("High.", **tools), answers={waiting_run.waiting[0].id: "approve"})
            assert done.text == "High." and sorted(fetched.stations) == ["brest", "cork"]


def test_turn_with_a_draft_can_be_forked_and_replayed() -> None:
    run = answered(waiting(drafting("High.", reply=plan(step(1, "brest")))), "approve")
    for at_round in range(1, 4):
        recorded = fork_sync(run, at_round, model=ScriptedModel(["Low."]))
        assert recorded.status == "completed" and not recorded.waiting
    live = fork_sync(run, 1, model=ScriptedModel([DRAFT, TWO, "Shall it run?"]), tools=agent().tools)
    assert live.status == "waiting_on_user" and kinds(live) == ["PlanProposed"]
