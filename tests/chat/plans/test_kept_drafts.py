"""Drafts survive suspended runs, dead processes, further runs and summaries."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from draft_turns import DRAFT, Fetched, answered, drafting, events_of, kinds, left_after, recovered, steps_of, waiting
from plan_turns import TWO, agent, call, error_of, plan, result_of, step
from virtual_time import VirtualTimeLoop
from waiting import PATIENCE

from agentnb import History, Run, RunOptions, Store, recover, tool
from agentnb.core.log import events as e
from agentnb.core.log.work_events import PlanApproved
from agentnb.display.texts.states import PLAN_WAITS, chip
from agentnb.errors import SettingsError, StoreError
from agentnb.models.scripted import ScriptedModel


@pytest.mark.req("KX.5")
def test_unanswered_draft_suspends_the_run_and_an_answer_resumes(tmp_path: Path) -> None:
    store, fetched = Store(tmp_path), Fetched()
    run = drafting(tools=fetched.tools()).run_sync("Draft it", store=store)
    assert run.is_suspended and run.status == "waiting_on_user" and run.text == "Shall it run?"
    (question,) = run.waiting
    with pytest.raises(SettingsError, match="is waiting for your answer"):
        recovered(run.id, store, agent("Never."))
    done = recovered(
        run.id, store, agent("They are high.", tools=fetched.tools(), approve="auto"), answers={question.id: "approve"}
    )
    assert done.status == "completed" and done.text == "They are high." and sorted(fetched.stations) == ["brest", "cork"]
    assert kinds(done) == ["PlanProposed", "PlanApproved"]


def test_postponed_draft_is_suspended_and_answered_later(tmp_path: Path) -> None:
    store = Store(tmp_path)
    live = waiting(drafting(), store=store)
    live.suspend()
    run = live.result(PATIENCE)
    assert run.is_suspended and [event.why for event in run.events if isinstance(event, e.RunSuspended)] == ["asked"]
    (question,) = run.waiting
    edited = recovered(run.id, store, agent(), answers={question.id: steps_of(step(1, "cork"))}, suspend=True)
    assert edited.is_suspended and kinds(edited) == ["PlanProposed", "PlanEdited"]
    (again,) = edited.waiting
    assert again.id != question.id
    done = recovered(run.id, store, agent("Fetched."), answers={again.id: "deny: not now"})
    assert kinds(done)[-1] == "PlanRejected" and done.text == "Fetched."
    with pytest.raises(SettingsError, match="has ended"):
        recovered(run.id, store, agent("Never."), answers={again.id: "approve"})


def test_run_without_a_store_waits_until_a_message() -> None:
    run = drafting().run_sync("Draft it")
    assert run.status == "waiting_on_user" and run.waiting and chip(run) == PLAN_WAITS
    plan_id = run.waiting[0].call_id
    again = replace(agent(), model=ScriptedModel([call(plan_id=plan_id), "High."])).run_sync("Go ahead", continue_from=run)
    assert result_of(again)["status"] == "executed" and again.text == "High."
    (approved,) = events_of(again, PlanApproved)
    assert approved.words == "Go ahead" and (run.status, run.stop_reason, run.waiting) == ("completed", "continued", ())
    assert [event.withdrawn for event in run.events if isinstance(event, e.QuestionAnswered)] == [True]
    twice = replace(agent(), model=ScriptedModel([call(plan_id=plan_id), "No."])).run_sync("Go", continue_from=run)
    assert error_of(twice)[0] == "declined" and not twice.step_records  # the other run has it


def test_concurrent_continuations_run_a_draft_only_once(tmp_path: Path) -> None:
    store, fetched = Store(tmp_path), Fetched()
    tools: dict[str, Any] = {"tools": fetched.tools(), "approve": "auto"}
    run = drafting(**tools).run_sync("Draft it", store=store)
    (question,) = run.waiting
    start = threading.Barrier(3)
    ended: list[str] = []

    def go_on(place: int) -> None:
        start.wait()
        try:
            if place:
                drafter = replace(agent(**tools), model=ScriptedModel([call(plan_id=question.call_id), "High."]))
                drafter.run_sync("Go ahead", store=store, continue_from=store.load(run.id))
            else:
                recovered(run.id, store, agent("High.", **tools), answers={question.id: "approve"})
        except (StoreError, SettingsError) as error:
            ended.append(type(error).__name__)

    threads = [threading.Thread(target=go_on, args=(place,)) for place in (0, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(fetched.stations) == ["brest", "cork"] and len(ended) == 2, ended
    live = waiting(drafting("High.", **tools))
    live.answer("approve")
    with pytest.raises(SettingsError, match="not waiting for an answer"):
        live.answer("approve")
    assert kinds(live.result(PATIENCE)).count("PlanApproved") == 1


def test_draft_interrupted_at_any_event_runs_once(tmp_path: Path, subtests: pytest.Subtests) -> None:
    fetched = Fetched()
    three = plan(step(1, "brest"), step(2, "cork", 1), step(3, "galway", 2))
    whole = Store(tmp_path / "whole")
    live = waiting(drafting("High.", reply=three, tools=fetched.tools(), approve="auto"), store=whole)
    run = answered(live, steps_of(step(1, "brest"), step(2, "cork", 1)), "approve")
    assert run.text == "High." and fetched.stations == ["brest", "cork"]
    nested = next(iter(run.step_records.values())).nested
    first = next(place for place, event in enumerate(run.events) if isinstance(event, e.QuestionAsked))
    begun = next(place for place, event in enumerate(run.events) if type(event).__name__ == "StepStarted") + 1
    ended = next(place for place, event in enumerate(run.events) if type(event).__name__ == "StepFinished") + 1
    inner = range(1, len(whole.path(nested).read_bytes().splitlines()), 2)
    cuts = [(end, None if end <= begun else "whole") for end in range(first + 1, len(run.events)) if not begun < end < ended]
    cuts += [(begun, cut) for cut in inner]  # type: ignore[list-item]
    for number, (end, nested_end) in enumerate(cuts):
        with subtests.test(f"{end} {nested_end}"):
            store = Store(tmp_path / str(number))
            left_after(whole, run, store, end, nested_end)
            fetched.stations.clear()
            interrupted = store.load(run.id)
            done = _go_on(interrupted, store, agent("High.", tools=fetched.tools(), approve="auto"))
            assert done.text == "High." and kinds(done) == ["PlanProposed", "PlanEdited", "PlanApproved"]
            calls = [one.record.call.arguments["station"] for one in store.load(_nested_of(done)).step_calls]
            assert calls == ["brest", "cork"] and not set(fetched.stations) - {"brest", "cork"}
            assert len(fetched.stations) == len(set(fetched.stations))


def _go_on(left: Run, store: Store, made: Any) -> Run:
    """Recover the run, with the answers that it waits for."""
    edited = any(type(event).__name__ == "PlanEdited" for event in left.events)
    answers: dict[str, Any] = {}
    for question in left.waiting:
        answers[question.id] = "approve" if edited else steps_of(step(1, "brest"), step(2, "cork", 1))
    done = recovered(left.id, store, made, answers=answers, suspend=True)
    return _go_on(done, store, made) if done.is_suspended else done


def _nested_of(run: Run) -> str:
    return next(iter(run.step_records.values())).nested


@pytest.mark.req("R2.32")
def test_approved_plan_is_in_each_request_after_compactions() -> None:
    exactly = "Exactly: 5 < 7 & 'so'"
    more: Any = [call(f"more_{number}", objective=" ", execution_mode="dry_run") for number in range(6)]
    model = ScriptedModel([DRAFT, TWO, "Shall it run?", *more, "High."])
    drafter = replace(agent(history=History(compact_above=3, keep_recent=1)), model=model)
    run = answered(waiting(drafter), steps_of(step(1, "cork", description=exactly)), "approve")
    after = replace(drafter, model=ScriptedModel([*more, "Still high."]))
    later = after.run_sync("And now?", continue_from=run)
    for one, requests in ((run, model.requests[3:]), (later, after.model.requests)):
        compactions = [
            compaction.compacted for past in one.rounds for compaction in past.compactions if compaction.compacted is not None
        ]
        assert len(compactions) >= 5 and "The plan that the person approved" in compactions[-1].text
        assert exactly in compactions[-1].text and '"station":"cork"' in compactions[-1].text
        for request in requests:
            texts = [part.text for message in request.messages for part in message.parts if hasattr(part, "text")]
            matches = [text for text in texts if exactly in text]
            assert matches and all('"station":"cork"' in text for text in matches)


def test_plan_interrupted_in_a_call_resumes_where_it_was(tmp_path: Path, subtests: pytest.Subtests) -> None:
    fetched, whole = Fetched(), Store(tmp_path / "whole")
    reply = plan(step(1, "brest"), step(2, "cork", 1))
    drafter = agent(call(), reply, "High.", tools=fetched.tools(), approve="auto")
    run = drafter.run_sync("Compare them", store=whole)
    names = [type(event).__name__ for event in run.events]
    cases: dict[str, tuple[int, str | None, list[str]]] = {
        "before it was approved": (names.index("PlanApproved"), None, ["brest", "cork"]),
        "as it ran": (names.index("StepStarted") + 1, "tool_finished", ["cork"]),
        "when it had ended": (names.index("StepFinished") + 1, "whole", []),
    }
    for name, (end, inside, stations) in cases.items():
        with subtests.test(name):
            store = Store(tmp_path / name.replace(" ", "-"))
            left_after(whole, run, store, end, inside)
            fetched.stations.clear()
            done = recovered(run.id, store, agent("High.", tools=fetched.tools(), approve="auto"))
            assert done.text == "High." and result_of(done)["status"] == "executed"
            assert kinds(done) == ["PlanProposed", "PlanApproved"]
            assert fetched.stations == stations


def test_waiting_run_resumes_from_its_log_without_custom_models(tmp_path: Path) -> None:
    store, fetched = Store(tmp_path), Fetched()
    for plans in ({}, {"reviewer": ScriptedModel([], name="scripted:reviewer")}):
        drafter = drafting(tools=fetched.tools(), plans={"max_tool_calls": 7, **plans})
        run = drafter.run_sync("Draft it", store=store)
        answers = {run.waiting[0].id: "approve"}
        again = recover(run.id, store=store, tools=fetched.tools(), model=ScriptedModel(["High."]), answers=answers)
        if plans:
            with pytest.raises(SettingsError, match="scripted:reviewer"):
                asyncio.run(again)
            continue
        done = asyncio.run(again)
        assert done.text == "High." and sorted(fetched.stations) == ["brest", "cork"]
        assert store.load(_nested_of(done)).status == "completed"


def test_timed_out_plan_reports_its_results_and_withdraws_permissions(tmp_path: Path) -> None:
    @tool(effects={"write"})
    async def tides_fetch(station: str) -> str:
        """Fetch the tide table of a station; that of Cork never comes."""
        if station == "cork":
            await asyncio.Event().wait()
        return station

    slow = plan(step(1, "brest"), step(2, "cork", 1), step(3, "galway", 2))
    script = [DRAFT, slow, "Shall it run?", "It took too long."]
    for store in (Store(tmp_path), None):
        drafter = agent(*script, tools=[tides_fetch], approve="ask", max_seconds=None, plans={"max_seconds": 3})
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            run = runner.run(drafter.run("Go", RunOptions(store=store, answer=lambda question: "approve")))
        (record,) = run.step_records.values()
        assert (record.status, run.status, run.text) == ("failed", "completed", "It took too long.") and not run.grants
        assert kinds(run) == ["PlanProposed", "PlanApproved"] and '"status":"failed"' in run.messages[-2].text
        assert "3 s" in record.error and (record.error in run.messages[-2].text) is (store is None)
        if store is not None:
            assert [step["status"] for step in record.output["steps"]] == ["completed", "failed", "not_run"]
