"""Draft edits: moved, removed and added steps, renumbered references, and step forms."""

from __future__ import annotations

from typing import Any

import pytest
from plan_turns import step

from agentnb import Plan
from agentnb.chat.plans.draft_edits import add_step, check_edit, fill_step, move_step, remove_step, step_form
from agentnb.core.request import ToolSpec
from agentnb.errors import SettingsError
from agentnb.runtime.questions.question_forms import FieldsRefused
from agentnb.workflow.plans.plan_spec import PlanSpec

ARGUMENTS = {"left": "$step[1].output.rows", "more": ["$step[0].output", {"of": "$step[1].output"}, "$step[0] is text"]}
FETCH = ToolSpec("tides_fetch", "", {"type": "object", "properties": {"station": {"type": "string"}}, "required": ["station"]})
COMPARE = ToolSpec("tables_compare", "", {"type": "object"})
SPECS = [FETCH, COMPARE]


def draft(*more: dict[str, Any]) -> PlanSpec:
    """Return two fetching steps, a comparing one, and these."""
    compare = step(3, "", 1, 2, tools=["tables_compare"], args=ARGUMENTS)
    return Plan.read({"steps": [step(1, "brest"), step(2, "cork"), compare, *more], "reasoning": "It needs both."})


def outline(plan: PlanSpec) -> list[tuple[int | None, str | None, tuple[int, ...]]]:
    """Return each step's number, description and dependencies."""
    return [(step.number, step.description, step.depends_on) for step in plan.steps]


def test_moved_step_renumbers_its_dependents_and_references() -> None:
    swapped = move_step(draft(), 1, 0)
    assert outline(swapped) == [(1, "Step 2", ()), (2, "Step 1", ()), (3, "Step 3", (1, 2))]
    assert swapped.steps[2].args == {
        "left": "$step[0].output.rows",
        "more": ["$step[1].output", {"of": "$step[0].output"}, "$step[0] is text"],
    }
    assert move_step(swapped, 0, 1) == draft() == move_step(draft(), 0, 0)
    later = move_step(draft(step(4, "galway")), 3, 0)
    assert outline(later)[3] == (4, "Step 3", (2, 3)) and "$step[2].output.rows" in str(later.steps[3].args)
    apart = move_step(draft(step(4, "", 2), step(5, "", 1, 4)), 1, 0)
    assert [step.depends_on for step in apart.steps[3:]] == [(1,), (2, 4)]


def test_step_cannot_move_before_or_lose_what_it_reads(subtests: pytest.Subtests) -> None:
    depends = Plan.read({"steps": [step(1, "brest"), step(2, "cork", 1)]})
    reads = Plan.read({"steps": [step(1, "brest"), step(2, "$step[0].output")]})
    cases: dict[str, tuple[Any, str]] = {
        "before what it depends on": (lambda: move_step(depends, 1, 0), "Invalid edit: step 2 depends on step 1"),
        "before what it reads": (lambda: move_step(reads, 1, 0), "Invalid edit: step 2 reads the output of step 1"),
        "what another reads is removed": (lambda: remove_step(reads, 0), "Invalid edit: step 2 reads the output of step 1"),
    }
    for name, (change, told) in cases.items():
        with subtests.test(name), pytest.raises(SettingsError, match=told):
            change()
    assert outline(remove_step(depends, 0)) == [(1, "Step 2", ())]
    assert outline(remove_step(draft(step(4, "", 3)), 3)) == outline(draft())


def test_step_is_added_at_the_end() -> None:
    more = add_step(draft())
    assert more.steps[:3] == draft().steps and (more.steps[3].number, more.steps[3].tools) == (4, ())
    assert check_edit(draft(), more.chat_data["steps"], SPECS, ()).steps == more.steps


def test_edited_plan_keeps_id_and_reasoning_and_obeys_context_rules(subtests: pytest.Subtests) -> None:
    plan = Plan.read({"id": "plan-1", "steps": [step(1, "brest")], "reasoning": "It needs both."})
    edited = check_edit(plan, [{"description": "Look"}], SPECS, ())
    assert (edited.id, edited.reasoning, edited.form, outline(edited)) == (
        "plan-1",
        "It needs both.",
        "chat",
        [(1, "Look", ())],
    )
    rule = {"tools": ["tides_fetch"], "required": True, "most": 1}
    cases: dict[str, tuple[Any, str]] = {
        "a tool that the context asks for is gone": ([{"description": "Look"}], "tides_fetch"),
        "it is called too often": ([step(1, "brest"), step(2, "cork")], "tides_fetch"),
        "no step": ([], "no step"),
        "no steps at all": ([5], "step"),
    }
    for name, (steps, told) in cases.items():
        with subtests.test(name), pytest.raises(SettingsError, match=told):
            check_edit(plan, steps, SPECS, [rule])
    with pytest.raises(SettingsError, match="no step"):
        check_edit(Plan.read({"steps": [step(1)]}), [], SPECS, ())
    assert check_edit(plan, [step(1, "cork")], SPECS, [rule]).steps[0].args == {"station": "cork"}


def fields(plan: PlanSpec, place: int, specs: list[ToolSpec] = SPECS) -> dict[str, Any]:
    """Return the field schemas of a step's form."""
    return dict(step_form(plan, place, specs).schema["properties"])


def test_step_form_offers_tools_of_the_run_and_earlier_steps() -> None:
    first, third = fields(draft(), 0), fields(draft(), 2)
    assert first["Tools"]["items"]["enum"] == ["tides_fetch", "tables_compare"] and "After the steps" not in first
    assert third["After the steps"]["items"]["enum"] == [1, 2]
    assert fields(draft(), 0, [COMPARE])["Tools"]["items"]["enum"] == ["tables_compare", "tides_fetch"]
    assert "Tools" not in fields(Plan.read({"steps": [step(1)]}), 0, [])


def test_argument_fields_follow_the_tool_schema_when_known(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[dict[str, Any], Any]] = {
        "a call": (step(2, "cork"), FETCH.input_schema),
        "a reference": (step(2, "$step[0].output"), {"type": "object"}),
        "an agent": (step(2, "cork", executorRequired=True), {"type": "object"}),
        "a reply": (step(2), {"type": "object"}),
    }
    for name, (second, schema) in cases.items():
        with subtests.test(name):
            assert fields(Plan.read({"steps": [step(1, "brest"), second]}), 1)["Arguments"] == schema


def test_filled_form_changes_only_its_step_if_valid() -> None:
    plan, form = draft(), step_form(draft(), 1, SPECS)
    assert list(form.schema["properties"]) == ["What it does", "Tools", "Arguments", "Done by an agent", "After the steps"]
    same = fill_step(plan, 1, SPECS, {})
    assert same == plan
    bare = Plan.read({"steps": [step(1, "brest"), step(2), step(3, tools=["tables_compare"], args={})]})
    assert fill_step(bare, 1, SPECS, {"0": "Look"}).steps[1].args is None
    assert fill_step(bare, 2, SPECS, {"0": "Look"}).steps[2].args == {}
    written = {"0": "Fetch it", "1": '["tides_fetch", "tables_compare"]', "2.0": "galway", "3": "true", "4": "[1]"}
    filled = fill_step(plan, 1, SPECS, written)
    changed = filled.steps[1]
    assert (changed.description, changed.tools, changed.args) == ("Fetch it", (FETCH.name, COMPARE.name), {"station": "galway"})
    assert (changed.executor_required, changed.depends_on, filled.steps[::2]) == (True, (1,), plan.steps[::2])
    with pytest.raises(FieldsRefused):
        fill_step(plan, 1, SPECS, {"0": ""})
