"""Hostile and malformed plans, and inputs of odd types: only permitted steps run."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from plan_examples import fetch, planned, results, steps, tables_compare, tides_fetch
from task_examples import cut, run_of

from agentnb import Plan, Store, Workflow, recover, validate_plan
from agentnb.core.log.events import ToolFinished
from agentnb.core.log.work_events import PlanProposed
from agentnb.errors import BrokenReply, SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.workflow.defaults import MAX_PLAN_STEPS, MAX_RETRIES
from agentnb.workflow.plans.execution import plan_of
from agentnb.workflow.plans.reply_plans import plan_in_reply

DONE = "Two tides."
TOOLS = [tides_fetch, tables_compare]


def chat(*written: dict[str, Any]) -> str:
    """Return a planner's reply: a plan in chat form."""
    return json.dumps(
        {"reasoning": "to see", "steps": [{"type": "research", "description": "do it", **one} for one in written]}
    )


def fetching(station: str, **more: Any) -> dict[str, Any]:
    """Return a step in chat form that fetches the table of a station."""
    return {"tools": ["tides_fetch"], "args": {"station": station}, **more}


def test_reply_with_many_fences_is_read_in_one_pass() -> None:
    assert plan_in_reply("```a\n" * 100_000) is None
    assert plan_in_reply("```\na: 1\n```\n" * 10_000) is None
    nested = plan_in_reply(f"````\nno end\n~~~ yaml\n{steps(fetch('brest'))}\n~~~")
    assert nested is not None and len(nested.plan.steps) == 1


def test_plan_reply_whose_steps_are_not_a_list_is_broken(subtests: pytest.Subtests) -> None:
    for text in ('{"steps": "all"}', '{"steps": {"type": "tool"}}', '{"elicitation": "Which day?"}', "```\nsteps: all\n```"):
        with subtests.test(text), pytest.raises(BrokenReply):
            plan_in_reply(text)


@pytest.mark.req("R1.18")
def test_plan_without_steps_may_contain_the_answer(subtests: pytest.Subtests) -> None:
    for reply in ('{"steps": [], "answer": "Six."}', 'Six.\n```json\n{"steps": []}\n```', 'Six. {"steps": null}'):
        with subtests.test(reply):
            run, _ = planned([reply])
            assert (run.status, run.text) == ("completed", "Six.")


@pytest.mark.req("R1.17", "R1.47")
def test_tool_not_offered_to_the_planner_is_not_called(subtests: pytest.Subtests) -> None:
    for name, reply in {"planner": steps(fetch("brest")), "chat": chat(fetching("brest"))}.items():
        for offered in (["tables_compare"], []):
            with subtests.test(f"{name} {offered}"):
                run, _ = planned([reply, DONE], TOOLS, inputs={"tools": offered})
                assert [bool(error) for _, _, error in results(run)] == [True]
                assert run.step_calls == ()


@pytest.mark.req("R1.43")
def test_invalid_question_is_an_error_result(subtests: pytest.Subtests) -> None:
    asks = {"message": "When?", "requestedSchema": {"type": "object", "properties": {"day": {"type": "nonsense"}}}}
    of_step = {"type": "elicitation", "elicitation": asks}
    for reply in (steps(elicitation=asks), steps(of_step, fetch("brest")), json.dumps({"type": "elicitation", **asks})):
        with subtests.test(reply):
            run, _ = planned([reply, DONE], answer=lambda question: {"day": 1})
            assert (run.status, [name for name, _, _ in results(run)]) == ("completed", ["elicitation"]), run.error
            assert "nonsense" in results(run)[0][2]


@pytest.mark.req("R1.31")
def test_step_reference_with_too_many_digits_fails_its_step() -> None:
    run, _ = planned([steps(fetch("brest"), fetch("$step[0].output.rows." + "9" * 5_000)), DONE])
    assert [bool(error) for _, _, error in results(run)] == [False, True], run.error


@pytest.mark.req("R1.26")
def test_unlimited_retries_are_a_problem() -> None:
    step = fetch("vigo", retries=MAX_RETRIES + 1)
    run, _ = planned([steps(step), DONE])
    assert [str(MAX_RETRIES) in error for _, _, error in results(run)] == [True]
    assert run.step_calls == ()
    assert len(validate_plan(steps(step), TOOLS)) == 1
    assert validate_plan(steps({**step, "retries": MAX_RETRIES}), TOOLS) == []


def test_plan_inputs_of_wrong_types_are_refused_or_omitted(tmp_path: Path, subtests: pytest.Subtests) -> None:
    plans: tuple[Any, ...] = ({"steps": "all"}, {"steps": 7}, [1], "x", None)
    for given in plans:
        with subtests.test(str(given)), pytest.raises(SettingsError):
            plan_of(given)
    odd = plan_of({"steps": [{"type": "noop", "problem": 7}, 7, {"type": "tool", "name": "x", "args": [1]}]})
    assert all(step.problem for step in odd.steps)
    given = [
        {"id": {"a": 1}, "name": "x", "args": [1], "error": 7},
        {"id": 1, "name": "tides_fetch", "args": {}, "result": "r"},
    ]
    run, _ = planned([steps(fetch("brest", id=1), fetch("cork")), DONE], inputs={"results": given, "transcript": 7})
    assert (run.status, len(results(run))) == ("completed", 3), run.error
    os.mkfifo(tmp_path / "pipe.md")
    run, model = planned([DONE], inputs={"promptTemplate": "pipe.md"}, work_dir=tmp_path)
    assert run.status == "failed" and model.requests == []
    run, model = planned([DONE], inputs={"promptTemplate": "a\0b.md"})
    assert (run.status, model.requests[0].messages[0].text) == ("completed", "a\0b.md")


@pytest.mark.req("R3.23")
def test_planner_may_reply_with_a_chat_plan() -> None:
    reply = chat(fetching("brest", stepNumber=10), fetching("$step[0].output.station", stepNumber=20, dependsOn=[10]))
    run, _ = planned([reply, DONE], TOOLS)
    assert (run.status, run.text) == ("completed", DONE), run.error
    assert [result["args"] for result in run.variables["results"]] == [
        {"station": "brest"},
        {"station": "$step[0].output.station"},
    ]
    assert [call.record.call.arguments for call in run.step_calls] == [{"station": "brest"}] * 2
    run, _ = planned([chat(fetching("vigo"), fetching("$step[0].output")), DONE], TOOLS)
    assert [bool(error) for _, _, error in results(run)] == [True, True]
    assert len(run.step_calls) == 1, "a call with a reference to a failed step does not run"


@pytest.mark.req("R1.32")
def test_chat_plan_never_repeats_steps_and_ignores_earlier_failures() -> None:
    before = {"id": "p-1", "name": "tides_fetch", "args": {"station": "brest"}, "result": "old", "error": None}
    failed = {**before, "id": "other", "error": "down"}
    plan = Plan.read({**json.loads(chat(fetching("brest"), fetching("cork"))), "id": "p"})
    run = plan.run_sync(tools=TOOLS, inputs={"results": [failed, before]}, show=False)
    assert (run.status, len(run.step_calls), len(run.variables["results"])) == ("completed", 1, 3)


@pytest.mark.req("K1.9")
def test_last_allowed_plan_still_runs_after_a_kill(tmp_path: Path) -> None:
    store, replies = Store(tmp_path / "whole"), [steps(fetch("brest")), steps(fetch("cork")), DONE]
    workflow = Workflow.planner([tides_fetch], max_plan_iterations=2)
    run = run_of(workflow, {"query": "Which?"}, store, model=ScriptedModel(replies))
    assert (run.stop_reason, len(results(run))) == ("max_plan_iterations", 2)
    last = [number for number, event in enumerate(run.events, 1) if isinstance(event, PlanProposed)][-1]
    orchestration = workflow.orchestration(model=ScriptedModel(replies[2:]), inputs={"query": "Which?"})
    again = asyncio.run(recover(run.id, store=cut(store, run, last, tmp_path / "cut"), agent=orchestration))
    assert (again.stop_reason, results(again)) == ("max_plan_iterations", results(run))


@pytest.mark.req("R1.32")
def test_finished_call_is_not_repeated_after_a_kill(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for station, kept in (("brest", {"rows": [6.1]}), ("vigo", None)):
        called: list[str] = []

        def look(station: str, called: list[str] = called) -> dict[str, Any]:
            """Look."""
            called.append(station)
            if station == "vigo":
                raise ValueError("no such station")
            return {"rows": [6.1]}

        store = Store(tmp_path / f"whole-{station}")
        run, _ = planned([steps({"name": "look", "args": {"station": station}}), DONE], [look], store)
        ended = next(number for number, event in enumerate(run.events, 1) if isinstance(event, ToolFinished))
        orchestration = Workflow.planner([look]).orchestration(model=ScriptedModel([DONE]), inputs={"query": "Which tides?"})
        left = cut(store, run, ended, tmp_path / f"cut-{station}")
        with subtests.test(station):
            again = asyncio.run(recover(run.id, store=left, agent=orchestration))
            assert (again.status, called) == ("completed", [station]), again.error
            assert [(result, bool(error)) for _, result, error in results(again)] == [(kept, kept is None)]


@pytest.mark.req("KX.8")
def test_keys_in_planner_input_are_not_sent_to_models(monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-ant-" + "k" * 40
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    _, model = planned([DONE], inputs={"context": f"With {key}", "transcript": [{"role": "user", "content": key}]})
    assert key not in str(model.requests)


def test_executor_refuses_a_plan_with_too_many_steps() -> None:
    assert len(plan_of({"steps": [{"type": "noop"}] * MAX_PLAN_STEPS}).steps) == MAX_PLAN_STEPS
    with pytest.raises(SettingsError, match="more than 1,000 steps"):
        plan_of({"steps": [{"type": "noop"}] * (MAX_PLAN_STEPS + 1)})
