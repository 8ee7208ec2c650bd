"""The tool ``agent_create_plan``: immediate, drafted and reviewed plans."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from chat_examples import loaded
from draft_turns import DRAFT, run_it, who
from plan_turns import APPROVED, TWO, agent, call, error_of, plan, result_of, step, tides_fetch
from virtual_time import VirtualTimeLoop
from waiting import PATIENCE, wait_until

from agentnb import Agent, Plans, RunOptions, ToolCall, tables, tool
from agentnb.chat.plans.planning import SPEC
from agentnb.core.log.work_events import PlanApproved, PlanProposed
from agentnb.errors import ProviderTrouble, SettingsError, UnknownModel
from agentnb.models.scripted import ScriptedModel
from agentnb.models.simulated.simulated_model import SimulatedModel

SAME = ("status", "summary", "steps", "review")


def compared(found: dict[str, Any], documented: dict[str, Any]) -> None:
    """Compare a result with a documented one, except texts and ids."""
    assert found.keys() == documented.keys() - {"steps"} | found.keys() & {"steps"}
    assert found["status"] == documented["status"] and found["plan_id"]


@pytest.mark.req("R3.15")
def test_plan_tool_has_the_documented_schema_and_is_offered_once() -> None:
    documented = loaded("agent_create_plan.tool.json")["function"]
    bare: Any = lambda schema: {key: one for key, one in schema.items() if key != "description"}  # noqa: E731
    properties = documented["parameters"]["properties"]
    assert (SPEC.name, SPEC.input_schema["required"]) == (documented["name"], documented["parameters"]["required"])
    assert {key: bare(one) for key, one in SPEC.input_schema["properties"].items()} == {
        key: bare(one) for key, one in properties.items()
    }
    run = agent("Hello.").run_sync("Hello")
    assert [tool.name for tool in run.tools].count("agent_create_plan") == 1


@pytest.mark.req("R3.18", "R3.21")
def test_plan_runs_as_a_nested_run_and_model_answers() -> None:
    three = plan(step(1, "brest"), step(2, "cork"), step(3, "", 1, 2))
    run = agent(call(), three, "Both are high at 05:10.", "They are high together.").run_sync("Compare them")
    documented, result = loaded("results.json")["executed"]["content"], result_of(run)
    assert {key: result[key] for key in ("status", "summary", "steps", "review")} == {
        key: documented[key] for key in ("status", "summary", "steps", "review")
    }
    assert result.keys() == documented.keys() and result["insights"] == ["Both are high at 05:10."]
    assert result["references"][:2] == documented["references"][:2] and run.text == "They are high together."
    (started,) = [start for record in run.rounds[0].records for start in record.nested]
    assert started.run_id
    assert [type(event) for event in run.events if isinstance(event, PlanProposed | PlanApproved)] == [
        PlanProposed,
        PlanApproved,
    ]
    assert list(tables.plans(run)["mode"]) == ["auto_execute"]


@pytest.mark.req("R3.26")
def test_failed_step_skips_its_dependents_as_the_result_reports() -> None:
    three = plan(step(1, "brest"), step(2, "vigo"), step(3, "", 1, 2))
    run = agent(call(), three, "It failed.").run_sync("Compare them")
    documented, result = loaded("results.json")["executed in part"]["content"], result_of(run)
    assert (result["status"], result["summary"]) == (documented["status"], documented["summary"])
    assert [step["status"] for step in result["steps"]] == [step["status"] for step in documented["steps"]]
    assert "no such station" in result["steps"][1]["error"] and "2" in result["steps"][2]["reason"]
    assert result["references"] == documented["references"] and run.status == "completed"


@pytest.mark.req("R3.19")
def test_draft_runs_once_and_only_after_the_answer() -> None:
    drafted = agent(call(execution_mode="draft_only"), TWO, "Here is a draft.").run_sync("Draft it")
    documented, result = loaded("results.json")["pending_review"]["content"], result_of(drafted)
    assert result.keys() == documented.keys() and result["status"] == "pending_review"
    assert len(result["plan"]["steps"]) == 2 and not any(record.nested for record in drafted.rounds[0].records)
    name = result["plan_id"]
    model = ScriptedModel([call(plan_id=name), "Done.", call(plan_id=name), "Ran before."])
    again = replace(agent(), model=model)
    ran = again.run_sync("Yes, run it", continue_from=drafted)
    assert result_of(ran)["status"] == "executed" and result_of(ran)["plan_id"] == name
    assert not [call for call in ran.model_calls if call.operation == "plan_generation"]  # no other planning
    assert who(ran, PlanApproved) == ["person"]
    twice = again.run_sync("Again", continue_from=ran)
    assert error_of(twice)[0] == "already_executed" and name in error_of(twice)[1]


@pytest.mark.req("K3.7")
def test_model_cannot_approve_its_own_or_an_unknown_draft() -> None:
    run = agent(DRAFT, TWO, run_it, "Wait for the person.").run_sync("Draft it")
    assert error_of(run)[0] == "not_approved" and not any(isinstance(event, PlanApproved) for event in run.events)
    unknown = agent(call(plan_id="plan-70"), "There is none.").run_sync("Run it", continue_from=run)
    code, text = error_of(unknown)
    assert code == "unknown_plan" and "plan-70" in text and result_of(run, 0)["plan_id"] in text


@pytest.mark.req("R3.20", "R3.42", "K3.4", "K3.11")
def test_reviewer_decides_but_a_failed_review_approves_nothing(subtests: pytest.Subtests) -> None:
    documented = loaded("results.json")
    cases: dict[str, tuple[Any, dict[str, Any], str, str]] = {
        "approved": (APPROVED, {}, "executed", "executed after review"),
        "needs changes": ('{"verdict": "needs_changes", "notes": "State the day."}', {}, "needs_changes", "needs_changes"),
        "another word": ('{"verdict": "changes_requested", "notes": "State the day."}', {}, "needs_changes", "needs_changes"),
        "rejected": ('{"verdict": "rejected", "notes": "It deletes its inputs."}', {}, "rejected", "rejected"),
        "unreadable": ("It looks fine to me.", {}, "needs_changes", "reviewer down or unreadable"),
        "down": (ProviderTrouble("down", "Try later"), {}, "needs_changes", "reviewer down or unreadable"),
        "down, and let through": (ProviderTrouble("down", "Try later"), {"review_failed": "approve"}, "executed", ""),
        "unreadable, and rejected": ("It looks fine to me.", {"review_failed": "reject"}, "rejected", ""),
    }
    for name, (review, plans, status, example) in cases.items():
        with subtests.test(name):
            run = agent(call(execution_mode="agent_review"), TWO, review, "So it is.", plans=plans).run_sync("Compare them")
            result = result_of(run)
            assert result["status"] == status and run.status == "completed"
            if example:
                content = documented[example]["content"]
                assert (result["summary"].split()[:2], result["review"]["verdict"]) == (
                    content["summary"].split()[:2] if status != "executed" else result["summary"].split()[:2],
                    content["review"]["verdict"],
                )
            reason = {"unreadable": "cannot be read", "down": "did not answer", "rejected": "It deletes"}.get(name, "")
            assert reason in result["review"]["notes"]
            operations = [(call.operation, call.profile, call.execution_mode) for call in run.model_calls]
            assert operations[:2] == [
                ("plan_generation", "balanced", "agent_review"),
                ("plan_review", "quality", "agent_review"),
            ]
            assert who(run, PlanApproved) == ["reviewer"] * (status == "executed")


@pytest.mark.req("R3.16", "R3.22")
def test_invalid_plan_is_an_error_result_not_a_failed_run(subtests: pytest.Subtests) -> None:
    wrong = plan(step(1, tools=["tides_compare"], args={}))
    foreign = plan(step(1, tools=["write_file"], args={"path": "tides.txt", "content": "05:10"}))
    cases: dict[str, tuple[tuple[Any, ...], str, list[str]]] = {
        "unknown mode": ((call(execution_mode="dry_run"), "Well."), "unknown_mode", ["dry_run", "auto_execute"]),
        "invalid twice": ((call(), wrong, wrong, "Well."), "invalid_plan", ["tides_compare", "tables_compare"]),
        "a built-in tool that the run has not": ((call(), foreign, foreign, "Well."), "invalid_plan", ["write_file"]),
        "no plan twice": ((call(), "I think", "I think", "Well."), "invalid_plan", []),
        "a planner that fails": ((call(), ProviderTrouble("down", "Later"), "Well."), "planner_failed", ["down"]),
        "arguments that are none": ((replace_arguments("text"), "Well."), "invalid_arguments", []),
    }
    for name, (replies, code, names) in cases.items():
        with subtests.test(name):
            run = agent(*replies).run_sync("Compare them")
            assert run.status == "completed" and error_of(run)[0] == code
            assert all(name in error_of(run)[1] for name in names)
    mended = agent(call(), wrong, TWO, "Done.").run_sync("Compare them")
    assert result_of(mended)["status"] == "executed"
    requests = scripted(call(), wrong, TWO, "Done.").requests
    assert "tides_compare" in requests[2].messages[0].text and "wrong" not in requests[1].messages[0].text


def scripted(*replies: Any, **settings: Any) -> ScriptedModel:
    """Return the model of an ended run."""
    planner_agent = agent(*replies, **settings)
    planner_agent.run_sync("Compare them")
    assert isinstance(planner_agent.model, ScriptedModel)
    return planner_agent.model


def replace_arguments(arguments: Any) -> Any:
    example = call()
    return type(example)(example.name, arguments, example.id)


@pytest.mark.req("R3.25")
def test_rule_breaking_plan_is_retried_once_and_then_refused() -> None:
    run = agent(call(), TWO, TWO, "Well.", context="project_create").run_sync("Create one")
    code, text = error_of(run)
    assert code == "plan_rules" and "create_onto_project" in text


def test_invalid_plan_settings_are_refused() -> None:
    for settings in ({"review_failed": "maybe"}, {"max_tool_calls": 0}, {"max_seconds": 0}, {"model": "nobody:knows"}):
        with pytest.raises(SettingsError):
            agent(plans=settings)


def test_personas_plan_the_listed_calls_and_review_as_configured(subtests: pytest.Subtests) -> None:
    listed = '- Plan `agent_create_plan(objective="Compare", execution_mode="agent_review")`\n- Fetch `tides_fetch("brest")`\n'
    for verdict, status in (("approved", "executed"), ("rejected", "rejected"), ("needs_changes", "needs_changes")):
        with subtests.test(verdict):
            reviewer = f"simulated:disciplined?verdict={verdict}"
            planner_agent = Agent(
                "simulated:disciplined", tools=[tides_fetch], extensions=[Plans(reviewer=reviewer)], todos=False
            )
            result = result_of(planner_agent.run_sync(listed), 0)
            assert result["status"] == status and result["review"]["verdict"] == verdict
    with pytest.raises(UnknownModel, match="needs_changes"):
        Plans(reviewer="simulated:disciplined?verdict=needs_change")
    assert SimulatedModel(verdict="rejected").name == "simulated:disciplined?verdict=rejected"


def test_persona_drafts_the_list_once_and_reports_the_result() -> None:
    listed = '- Plan `agent_create_plan(objective=" ", execution_mode="draft_only")`\n- Fetch `tides_fetch("brest")`\n'
    live = Agent("simulated:disciplined", tools=[tides_fetch], extensions=[Plans()], todos=False).start(listed)
    wait_until(lambda: live.run.waiting)
    draft = result_of(live.run)
    assert [(step["description"], step["args"]) for step in draft["plan"]["steps"]] == [
        ('Fetch tides_fetch("brest")', {"station": "brest"})
    ]
    assert draft["summary"] == '1. Fetch tides_fetch("brest")'
    live.answer("approve")
    run = live.result(PATIENCE)
    assert draft["plan_id"] in run.text and "1 of 1 steps done." in run.text and "brest: 05:10" in run.text


@pytest.mark.req("R3.18")
def test_independent_steps_run_in_parallel_and_others_in_order() -> None:
    here = asyncio.Barrier(2)
    order: list[str] = []

    @tool(timeout=60)
    async def meet(name: str) -> str:
        """Wait for the other."""
        await here.wait()
        order.append(name)
        return name

    def at(number: int, name: str, *depends: int) -> dict[str, Any]:
        return step(number, "", *depends, tools=["meet"], args={"name": name})

    four = plan(at(1, "a"), at(2, "b"), at(3, "c", 1), at(4, "$step[1].output"))
    run = asyncio.run(agent(call(), four, "Done.", tools=[meet]).run("Meet", show=False))
    assert (
        result_of(run)["summary"].startswith("4 of 4") and sorted(order[:2]) == ["a", "b"] and sorted(order[2:]) == ["b", "c"]
    )


def test_step_calls_need_approval_and_denial_fails_the_step() -> None:
    @tool(effects=["write"])
    async def delete_table(name: str) -> str:
        """Delete a table."""
        return "deleted"

    def delete(number: int) -> dict[str, Any]:
        return step(number, tools=["delete_table"], args={"name": f"t{number}"})

    asked: list[Any] = []

    def approve(made: Any, run: Any) -> bool:
        asked.append(made.arguments)
        return made.arguments == {"name": "t1"}

    planner_agent = agent(
        call(), plan(delete(1), delete(2)), "Done.", tools=[delete_table], permissions={"delete_table": "allow"}
    )
    run = planner_agent.run_sync("Delete them", approve=approve)
    assert sorted(map(str, asked)) == ["{'name': 't1'}", "{'name': 't2'}"]
    assert [step["status"] for step in result_of(run)["steps"]] == ["completed", "failed"] and run.status == "completed"


def test_long_error_is_truncated_and_plans_do_not_nest() -> None:
    @tool
    async def fail() -> str:
        """Fail."""
        raise ValueError("x" * 9_000)

    nested = step(2, tools=["agent_create_plan"], args={"objective": "More"})
    planner_agent = agent(call(), plan(nested), plan(step(1, tools=["fail"], args={})), "Done.", tools=[fail])
    run = planner_agent.run_sync("Fail")
    (one,) = result_of(run)["steps"]
    assert (one["status"], len(one["error"])) == ("failed", 500)
    assert len([model_call for model_call in run.model_calls if model_call.operation == "plan_generation"]) == 2


def test_max_tool_calls_applies_to_the_entire_plan() -> None:
    stations: list[str] = []

    @tool(effects={"read"})
    def tides_fetch(station: str) -> str:
        """Fetch the tide table of a station."""
        stations.append(station)
        return station

    brest, cork = [ToolCall("tides_fetch", {"station": name}, f"inner_{name}") for name in ("brest", "cork")]
    steps = [step(1, "vigo"), step(2, "brest", 1, executorRequired=True), step(3, "brest", 2, executorRequired=True)]
    replies = [call(), plan(*steps), [brest], "One.", [brest, cork], "Two.", "Done."]
    run = agent(*replies, tools=[tides_fetch], plans={"max_tool_calls": 3}).run_sync("Compare them")
    assert stations == ["vigo", "brest", "brest"] and result_of(run)["status"] == "executed" and run.text == "Done."


def test_planner_executors_and_reviewer_use_the_configured_models() -> None:
    reply = plan(step(1, "", tools=["tides_fetch"]))
    planner, reviewer = ScriptedModel([reply, "Fetched."], name="scripted:planner"), ScriptedModel([APPROVED])
    planner_agent = agent(call(execution_mode="agent_review"), "High.", plans={"model": planner, "reviewer": reviewer})
    run = planner_agent.run_sync("Compare them")
    assert result_of(run)["status"] == "executed" and run.text == "High."
    assert (len(planner.requests), len(reviewer.requests)) == (2, 1)


def test_planner_gets_objective_context_and_rules() -> None:
    asked = call(requested_outputs=["the hours"], priority_entities=["brest-7"], execution_mode="draft_only")
    intent = scripted(asked, TWO, "Shall it run?").requests[1].messages[0].text
    wanted = ['"contextType":"project"', '"entityId":"project-harbours"', '"requestedOutputs":["the hours"]']
    blank = scripted(call(objective=" "), TWO, "Done.").requests[1].messages[0].text
    assert '"objective":"Compare them"' in blank  # the user's message
    assert all(one in intent for one in (*wanted, '"priorityEntities":["brest-7"]', '"executionMode":"draft_only"'))
    assert "create_onto_project" in scripted(call(), TWO, TWO, "Well.", context="project_create").requests[1].system


def test_plan_time_does_not_count_towards_the_turn_limit(subtests: pytest.Subtests) -> None:
    @tool(timeout=600)
    async def wait_for_tide() -> str:
        """Wait."""
        await asyncio.sleep(70)
        return "It is high."

    late = plan(step(1, tools=["wait_for_tide"], args={}))
    for name, replies in {"in a call": [call(), late], "that was approved": [DRAFT, late, "Shall it run?"]}.items():
        with subtests.test(name), asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            planner_agent = agent(*replies, "High.", tools=[wait_for_tide], max_seconds=60)
            run = runner.run(planner_agent.run("Wait for it", RunOptions(answer=lambda question: "approve")))
            (record,) = run.step_records.values()
            assert (run.status, run.text, record.output["status"]) == ("completed", "High.", "executed")
