"""An approval by click or command permits exactly the calls that the draft shows with all arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from draft_turns import Fetched, drafting, events_of, kinds, recovered, run_it, waiting
from plan_turns import APPROVED, agent, call, plan, result_of, step
from waiting import PATIENCE, wait_until

from agentnb import Store, ToolCall
from agentnb.core.log.work_events import GrantGiven, GrantWithdrawn
from agentnb.policies.gates import Ask
from agentnb.runtime.host.live_run import LiveRun

TWO = plan(step(1, "brest"), step(2, "cork", 1))


def asked_about(live: LiveRun, answer: Any = "deny") -> list[tuple[str, str]]:
    """Approve all questions and return the calls asked about, with their arguments."""
    found: list[tuple[str, str]] = []
    while True:
        wait_until(lambda: live.run.waiting or live.done)
        if live.done:
            return found
        question = live.run.waiting[0]
        if question.about is not None:
            found.append((question.about.tool, question.about.arguments))
        live.answer(answer if question.kind == "approval" else "approve", question.id)
        wait_until(lambda: question not in live.run.waiting)  # noqa: B023  # called at once


def test_approval_click_permits_fully_shown_calls_until_plan_end() -> None:
    fetched = Fetched()
    again = ToolCall("tides_fetch", {"station": "brest"}, "call_2")
    live = waiting(drafting(again, "High.", reply=TWO, tools=fetched.tools(), approve="ask"))
    assert asked_about(live) == [("tides_fetch", '{"station":"brest"}')]  # for the model's own call after the plan
    run = live.result(PATIENCE)
    assert fetched.stations == ["brest", "cork"] and run.text == "High." and not run.grants
    grants = events_of(run, GrantGiven)
    assert [(one.tool, one.arguments) for one in grants] == [
        ("tides_fetch", f'{{"station":"{name}"}}') for name in ("brest", "cork")
    ]
    assert len(events_of(run, GrantWithdrawn)) == 2


@pytest.mark.req("R3.19")
def test_calls_not_fully_shown_need_their_own_approval(subtests: pytest.Subtests) -> None:
    referring = plan(step(1, "brest"), step(2, "$step[0].output", 1))
    executor = plan(step(1, "brest", executorRequired=True))
    inner = ToolCall("tides_fetch", {"station": "brest"}, "inner_1")
    same = plan(step(1, "brest"), step(2, "brest", 1, executorRequired=True))
    compared = ToolCall("tables_compare", {"left": "a", "right": "b"}, "inner_1")
    cases: dict[str, tuple[str, list[Any], list[str]]] = {
        "a reference": (referring, ["High."], ['{"station":"brest: 05:10"}']),
        "an executor": (executor, [inner, "Done.", "High."], ['{"station":"brest"}']),
        "an executor with the call of another step": (same, [inner, "Done.", "High."], ['{"station":"brest"}']),
        "another tool of an executor": (
            plan(step(1, "", tools=["tables_compare"])),
            [compared, "Done.", "High."],
            ['{"left":"a","right":"b"}'],
        ),
    }
    for name, (reply, after, asked) in cases.items():
        with subtests.test(name):
            live = waiting(drafting(*after, reply=reply, tools=Fetched().tools(), approve="ask"))
            assert [arguments for _, arguments in asked_about(live)] == asked
            live.result(PATIENCE)


def test_messages_reviewers_and_models_cannot_permit_calls(subtests: pytest.Subtests) -> None:
    words = waiting(drafting(run_it, "High.", reply=TWO, tools=Fetched().tools(), approve="ask"))
    words.say("Go ahead")
    wait_until(lambda: words.run.questions[0].outcome == "withdrawn")
    reviewed = agent(call(execution_mode="agent_review"), TWO, APPROVED, "High.", tools=Fetched().tools(), approve="ask")
    at_once = agent(call(), TWO, "High.", tools=Fetched().tools(), approve="ask")
    for name, live in {"words": words, "a reviewer": reviewed.start("Go"), "a model": at_once.start("Go")}.items():
        with subtests.test(name):
            assert asked_about(live) == [("tides_fetch", '{"station":"brest"}')]  # the second step is skipped
            assert result_of(live.result(PATIENCE))["status"] == "failed"


def test_deny_rules_confirmations_and_custom_gates_still_apply(subtests: pytest.Subtests) -> None:
    def own_gate(call: Any, run: Any) -> Any:
        return Ask("Really?") if call.name == "tides_fetch" else None

    cases: dict[str, tuple[dict[str, Any], int]] = {
        "a deny": ({"permissions": {"tides_fetch": "deny"}}, 0),
        "a rule that asks": ({"permissions": {"tides_fetch": "ask"}}, 1),
        "a gate": ({"gates": [own_gate], "approve": "auto"}, 1),
        "read only": ({"approve": "read_only"}, 0),
    }
    for name, (settings, questions) in cases.items():
        with subtests.test(name):
            fetched = Fetched()
            live = waiting(drafting("High.", reply=TWO, tools=fetched.tools(), **settings))
            assert len(asked_about(live)) == questions
            run = live.result(PATIENCE)
            assert kinds(run)[-1] == "PlanApproved" and not fetched.stations


def test_waiting_plan_keeps_its_permissions_and_grants_them_once(tmp_path: Path) -> None:
    fetched, store = Fetched(), Store(tmp_path)
    three = plan(step(1, "brest"), step(2, "$step[0].output", 1), step(3, "cork", 2))
    drafted = drafting(reply=three, tools=fetched.tools(), approve="ask").run_sync("Draft it", store=store)
    again = agent("High.", tools=fetched.tools(), approve="ask")
    suspended = recovered(drafted.id, store, again, answers={drafted.waiting[0].id: "approve"}, suspend=True)
    assert suspended.is_suspended and suspended.waiting[0].about is not None and fetched.stations == ["brest"]
    assert [(grant.tool, grant.arguments) for grant in suspended.grants] == [
        ("tides_fetch", '{"station":"brest"}'),
        ("tides_fetch", '{"station":"cork"}'),
    ]
    done = recovered(suspended.id, store, again, answers={suspended.waiting[0].id: "approve"}, suspend=True)
    assert fetched.stations == ["brest", "brest: 05:10", "cork"] and done.text == "High." and not done.grants
    assert len(events_of(done, GrantGiven)) == 2


def test_call_is_permitted_in_any_argument_order() -> None:
    fetched = Fetched()
    compared = step(1, "", tools=["tables_compare"], args={"right": "b", "left": "a"})
    live = waiting(drafting("Compared.", reply=plan(compared), tools=fetched.tools(), approve="ask"))
    assert asked_about(live) == [] and fetched.stations == ["a and b"]
    live.result(PATIENCE)
