"""Turns with plans have the documented event order, including the plan's steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_examples import loaded, plan_events, sequence
from draft_turns import DRAFT, answered, drafting, run_it, waiting
from plan_turns import APPROVED, agent, call, plan, step

from agentnb import Agent, ContextType, Plans, Run, Store, tables, tool
from agentnb.core.plans.plan_history import PlanHistory
from agentnb.models.scripted import ScriptedModel

EXECUTOR = step(3, "", 1, 2, tools=["tables_compare"], executorRequired=True)
THREE = plan(step(1, "brest"), step(2, "cork", 1), EXECUTOR)
FAILING = plan(step(1, "brest"), step(2, "vigo", 1), EXECUTOR)
ONE = plan(step(1, "brest"))
CHANGES = '{"verdict": "needs_changes", "notes": "State the day."}'


def project_creation() -> Agent:
    """Return a project-creation turn whose first plan omits the creating tool."""

    def list_onto_templates() -> list[str]:
        """List the templates."""
        return ["harbour"]

    @tool(shifts_context=True)
    def create_onto_project(template: str) -> dict[str, Any]:
        """Create a project."""
        return {"context_shift": {"new_context": "project", "entity_id": "p-1"}}

    def create_context_document(project: str) -> str:
        """Publish a document."""
        return "published"

    given: dict[str, dict[str, Any]] = {
        "list_onto_templates": {},
        "create_onto_project": {"template": "harbour"},
        "create_context_document": {"project": "p-1"},
    }
    calls = enumerate(given.items(), 1)
    steps = [step(n, "", *[n - 1] * (n > 1), tools=[name], args=args, type="action") for n, (name, args) in calls]
    wrong = plan(steps[0], {**steps[2], "stepNumber": 2, "dependsOn": [1]})
    model = ScriptedModel([call("call_1"), wrong, wrong, call("call_2"), plan(*steps), "There it is."])
    chat_agent = Agent(
        model, tools=[list_onto_templates, create_onto_project, create_context_document], extensions=[Plans()], todos=False
    )
    return ContextType.named("project_create").apply(chat_agent)


def in_words(store: Store) -> Run:
    """Return the turn in which a message approves the previous draft."""
    drafted = drafting(reply=THREE).run_sync("Draft it", store=store)
    (question,) = drafted.waiting
    model = ScriptedModel([call(plan_id=question.call_id), "Compared.", "They are high."])
    chat_agent = replace(agent(), model=model)
    return chat_agent.run_sync("Go ahead", store=store, continue_from=store.load(drafted.id))


def at_once(*replies: Any) -> Callable[[Store], Run]:
    """A turn of one run to its end."""
    return lambda store: agent(*replies, max_seconds=None).run_sync("Compare them", store=store)


TURNS: dict[str, Callable[[Store], Run]] = {
    "auto_execute": at_once(call(), THREE, "Compared.", "They are high."),
    "auto_execute, step 2 fails": at_once(call(), FAILING, "Vigo is unknown."),
    "draft_only": at_once(DRAFT, THREE, "Shall it run?"),
    "draft approved in words": in_words,
    "model tries to approve its own draft": at_once(DRAFT, THREE, run_it, "It waits for you."),
    "agent_review, approved": at_once(call(execution_mode="agent_review"), ONE, APPROVED, "They are high."),
    "agent_review, needs changes": at_once(
        *(call(execution_mode="agent_review"), ONE, CHANGES),
        *(call("call_2", execution_mode="agent_review"), ONE, APPROVED, "They are high."),
    ),
    "project creation": lambda store: project_creation().run_sync("A project for harbours", store=store),
}


@pytest.mark.req("R3.18", "R3.19", "R3.20", "R3.28", "R3.30", "KX.10")
def test_turn_with_a_plan_has_the_documented_event_order(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, (name, make) in enumerate(TURNS.items()):
        with subtests.test(name):
            store = Store(tmp_path / str(number))
            run = make(store)
            events = plan_events(run, store.load)
            assert events == sequence(name)
    with subtests.test("draft approved by click"):
        store = Store(tmp_path / "click")
        run = answered(waiting(drafting("Compared.", "They are high.", reply=THREE), store=store), "approve")
        events = plan_events(run, store.load)
        drafted = len(sequence("draft_only")) - 1  # the turn of the draft ends as this one starts
        assert events[drafted:] == sequence("draft approved by click")


@pytest.mark.req("R3.11", "R3.36", "R3.41", "KX.9")
def test_turn_with_a_plan_has_the_documented_usage_rows(tmp_path: Path) -> None:
    store, columns = Store(tmp_path), loaded("usage.json")["columns"]
    executing = plan(step(1, "brest", executorRequired=True))
    replies = [call(execution_mode="agent_review"), executing, APPROVED, "Fetched.", "High."]
    first = agent("Hello.").run_sync("Hello", store=store)
    chat_agent = replace(agent(), model=ScriptedModel(replies, name="scripted:planner"))
    run = chat_agent.run_sync("Compare them", store=store, continue_from=first)
    inside = store.load(next(iter(run.step_records.values())).nested)
    executor = store.load(inside.step_records["plan/0"].nested)
    table = tables.usage([run, inside, executor])
    compared = ["operation", "profile", "context", "execution_mode", "conversation", "call_id"]
    ids = {"run-35": run.id, "run-36": executor.id, "run-31": first.id}
    rows = [dict(zip(columns, row, strict=True)) for row in loaded("usage.json")["rows"]]
    documented = [row for row in rows if row["turn"] == "agent_review, approved"]
    wanted = [[str(ids.get(row[name], row[name])) for name in ("run_id", *compared)] for row in documented]
    usage = table[table["operation"] != "nested"][["run_id", *compared]].astype(object)
    assert sorted(usage.where(usage.notna(), "None").to_numpy().tolist()) == sorted(wanted)


def test_plan_of_a_chat_has_one_row_with_its_calls(tmp_path: Path) -> None:
    store = Store(tmp_path)
    failing = plan(step(1, "brest"), step(2, "vigo", 1), step(3, "cork", 2))
    run = agent(call(), failing, "Vigo is unknown.").run_sync("Compare them", store=store)
    table = tables.plans([run, store.load(next(iter(run.step_records.values())).nested)])
    assert table[["run_id", "mode", "status", "steps", "calls"]].to_numpy().tolist() == [
        [run.id, "auto_execute", "failed", 3, 2]
    ]
    assert [step.status for step in PlanHistory(run.events).plans[0].steps] == ["completed", "failed", "skipped"]
