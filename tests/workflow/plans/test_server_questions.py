"""Questions of MCP servers in plan steps: the answer for the planner, and suspended runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp_runs import bench, servers
from plan_examples import planned, results, steps
from task_examples import cut

from agentnb import Plan, Run, Store, recover
from agentnb.core.log.events import QuestionAsked, ToolFinished
from agentnb.core.log.well_formed import check_events
from agentnb.core.questions import NoAnswer, WaitingOnUser
from agentnb.errors import WorkflowError
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers

DONE = "Booked."
ANSWERS: dict[str, tuple[Any, str, bool]] = {
    "accept": ({"seats": 2, "place": "aisle"}, "2 at the aisle in TGV", True),
    "decline": (NoAnswer.DECLINE, "decline", False),
    "cancel": (NoAnswer.CANCEL, "cancel", False),
}
"""The answer, its text for the planner, and whether the step completed."""
__all__ = ["servers"]


def booking(tool: str = "book", **more: Any) -> dict[str, Any]:
    """Return a step whose server asks for seats."""
    return {"name": f"mcp_bench_{tool}", "args": {"train": "TGV"}, **more}


def booked(servers: Servers, store: Store | None = None, tool: str = "book", **settings: Any) -> tuple[Run, ScriptedModel]:
    """Run a planner that books."""
    with use_host(Host(servers=servers)):
        return planned([steps(booking(tool)), DONE], [bench()], store, approve="auto", **settings)


def resumed(servers: Servers, run: Run, store: Store, **settings: Any) -> tuple[Run, ScriptedModel]:
    """Resume the run with the remaining replies; return it and its model."""
    model = ScriptedModel([DONE])
    with use_host(Host(servers=servers)):
        return asyncio.run(recover(run.id, tools=[bench()], store=store, model=model, **settings)), model


def check(run: Run, model: ScriptedModel, said: str, *, completed: bool) -> None:
    """Check that the planner saw one result and the question was asked once."""
    assert (run.status, run.text) == ("completed", DONE), run.error
    ((name, result, error),) = results(run)
    assert (name, error is None) == ("mcp_bench_book", completed)
    assert said in str(result if completed else error)
    assert len(model.requests[-1].settings["planning"]["results"]) == 1
    assert len(run.questions) == len([event for event in run.events if isinstance(event, ToolFinished)]) == 1


@pytest.mark.req("R1.27", "R1.43")
def test_answer_to_a_server_form_reaches_the_planner_once(servers: Servers, subtests: pytest.Subtests) -> None:
    for name, (answer, said, completed) in ANSWERS.items():
        with subtests.test(name):
            seen: list[WaitingOnUser] = []
            run, model = booked(servers, answer=lambda question, answer=answer, seen=seen: (seen.append(question), answer)[1])
            check(run, model, said, completed=completed)
            (question,) = seen
            assert (question.kind, question.asked_by) == ("elicitation", "MCP server bench")
            assert question.schema["properties"]["seats"]["maximum"] == 9


@pytest.mark.req("R1.42", "R1.45", "KX.5")
def test_run_waits_for_a_server_form(servers: Servers, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, (answer, said, completed) in ANSWERS.items():
        with subtests.test(name):
            store = Store(tmp_path / name)
            run, model = booked(servers, store, suspend=True)
            assert run.status == "waiting_on_user" and len(model.requests) == 1
            (question,) = store.load(run.id).waiting
            again, left = resumed(servers, run, store, answers={question.id: answer})
            check(again, left, said, completed=completed)
            assert len(left.requests) == 1, "the plan was not made twice"
            check_events(again.events, again.id)


@pytest.mark.req("R1.42", "R1.45")
def test_plan_without_a_planner_waits_for_a_server_form(servers: Servers, tmp_path: Path) -> None:
    plan = Plan.read({"steps": [{"type": "tool", **booking()}]})
    store = Store(tmp_path)
    with use_host(Host(servers=servers)):
        run = plan.run_sync(tools=[bench()], store=store, suspend=True, approve="auto", show=False)
        (question,) = run.waiting
        again = asyncio.run(recover(run.id, tools=[bench()], store=store, answers={question.id: {"seats": 4}}))
        assert (again.status, [error for *_, error in results(again)]) == ("completed", [None]), again.error
        with pytest.raises(WorkflowError):
            plan.run_sync(tools=[bench()], approve="auto", show=False)


@pytest.mark.req("R1.45")
def test_non_repeatable_call_cannot_suspend_for_a_server_form(servers: Servers, tmp_path: Path) -> None:
    run, model = booked(servers, Store(tmp_path), "book_once", suspend=True)
    assert (run.status, run.waiting) == ("completed", ())
    assert [bool(error) for *_, error in results(run)] == [True]
    assert [call.record.result.error_code for call in run.step_calls] == ["nobody_to_ask"]
    assert len(model.requests) == 2


@pytest.mark.req("R1.32", "KX.5")
def test_call_interrupted_at_a_server_form_reruns_only_if_repeatable(
    servers: Servers, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for tool, codes in (("book", [None]), ("book_once", ["interrupted"])):
        with subtests.test(tool):
            store = Store(tmp_path / tool)
            run, _ = booked(servers, store, tool, answer=lambda question: {"seats": 1})
            asked = next(number for number, event in enumerate(run.events, 1) if isinstance(event, QuestionAsked))
            left = cut(store, run, asked, tmp_path / f"cut-{tool}")
            again, _ = resumed(servers, run, left, answer=lambda question: {"seats": 3})
            assert again.status == "completed", again.error
            assert [call.record.result.error_code for call in again.step_calls] == codes
