"""Agents of a workflow delegate to other agents, each by a tool with its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from property_settings import size
from snapshots import Snapshots
from virtual_time import by_itself

from agentnb import Agent, Run, Store, ToolCall, Workflow, recover
from agentnb.errors import SettingsError, WorkflowProblems
from agentnb.models import ScriptedModel
from agentnb.workflow.form.workflow_spec import AgentSpec, AgentStep, WorkflowSpec
from agentnb.workflow.running.agents import _nested_runs

TEXT = """
inputs: {sea: North Sea}
agents:
  lead: {instruction: Lead., sub_agents: [finder, pilot]}
  finder: {instruction: "Know the {{ $inputs.sea }}. Look things up.", description: Finds tides., sub_agents: pilot}
  pilot: {instruction: Steer by the stars. Then rest.}
workflow: [{type: agent, name: lead}]
"""
REPLIES: dict[str, list[Any]] = {
    "lead": [ToolCall("finder", {"prompt": "Which tide?"}), ToolCall("pilot", {"prompt": "Where to?"}), "Low, and west."],
    "finder": [ToolCall("pilot", {"prompt": "Where are we?"}), "Low."],
    "pilot": ["Off Brest.", "West."],
}


def test_sub_agents_can_be_called_as_tools() -> None:
    run = Workflow.from_yaml(TEXT).run_sync("Sail.", replies=REPLIES, show=False)
    assert run.text == "Low, and west."


def test_permission_rules_may_name_sub_agents(tmp_path: Path) -> None:
    store, rules = Store(tmp_path), {"finder": "deny"}
    Workflow.from_yaml(TEXT).run_sync("Sail.", replies=REPLIES, permissions=rules, store=store, show=False)
    [lead] = [run for run in map(store.load, store.ids()) if run.agent == "lead"]
    assert [result.is_error for round_ in lead.rounds for result in round_.results] == [True, False]
    with pytest.raises(SettingsError, match="'fnder' does not match any tool"):
        Workflow.from_yaml(TEXT).run_sync("Sail.", replies=REPLIES, permissions={"fnder": "deny"}, show=False)


def test_sub_agent_tool_has_the_description_of_the_agent() -> None:
    lead = ScriptedModel(["Done."])
    Workflow.from_yaml(TEXT, agents={"pilot": Agent(ScriptedModel(["West."]), system="Steer west.", name="pilot")}).run_sync(
        "Sail.", model=lead, show=False
    )
    described = {spec.name: spec.description for spec in lead.requests[0].tools}
    assert (described["finder"], described["pilot"]) == ("Finds tides.", "Steer west.")


def test_templates_in_sub_agent_instructions_are_rendered() -> None:
    model = ScriptedModel([ToolCall("finder", {"prompt": "Which tide?"}), "Low.", "Low."])
    Workflow.from_yaml(TEXT).run_sync("Sail.", model=model, inputs={"sea": "Channel"}, show=False)
    assert "Know the Channel." in str(model.requests[1].system)


def test_invalid_sub_agents_are_problems(subtests: pytest.Subtests) -> None:
    cases = {
        "nobody of this name": ("sub_agents: pilot", "sub_agents: pilto", 'sub_agents: agent "pilto" not found', 5),
        "itself": ("sub_agents: pilot", "sub_agents: finder", "it delegates to itself (finder -> finder)", 5),
        "a circle": ("{instruction: Steer", "{sub_agents: [lead], instruction: Steer", "it delegates to itself (", 6),
        "a mapping": ("sub_agents: pilot", "sub_agents: {pilot: 1}", "sub_agents must be a string", 5),
    }
    for name, (old, new, words, line) in cases.items():
        with subtests.test(name), pytest.raises(WorkflowProblems) as caught:
            Workflow.from_yaml(TEXT.replace(old, new))
        [problem] = caught.value.problems
        assert words in problem.message
        assert problem.line in (line, 4)


def test_python_agents_that_delegate_in_a_cycle_are_refused() -> None:
    agents = {name: AgentSpec(name=name, model="simulated:disciplined", sub_agents=("b", "a")) for name in "ab"}
    spec = WorkflowSpec(steps=(AgentStep(id="a", path="a", agent="a"),), agents=agents)
    with pytest.raises(SettingsError, match="it delegates to itself"):
        Workflow(spec).run_sync("Go.", show=False)


@pytest.mark.slow("it dies after each of some eighty events")
def test_sub_agent_replies_are_used_once_despite_process_death(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Snapshots(tmp_path / "whole")
    whole = by_itself(Workflow.from_yaml(TEXT).run("Sail.", store=store, show=False, replies=REPLIES))
    assert len(store.kept) > 40
    for folder in store.kept[: -1 : size(3, nightly=1)]:
        here = Store(folder)
        if here.has(whole.id):
            with subtests.test(folder.name):
                again = Workflow.from_yaml(TEXT).orchestration(replies=REPLIES)
                run = by_itself(recover(whole.id, agent=again, store=here))
                assert run.step_context == whole.step_context, run.error
                [lead] = [run for run in map(here.load, here.ids()) if run.agent == "lead"]
                given = [result.text for round_ in lead.rounds for result in round_.results if not result.is_error]
                assert "Low." not in given or "Off Brest." not in given


def test_log_that_nests_itself_yields_no_nested_runs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    Workflow.from_yaml(TEXT).run_sync("Sail.", replies=REPLIES, store=store, show=False)
    [lead] = [run for run in map(store.load, store.ids()) if run.agent == "lead"]
    assert [run.agent for run in _nested_runs(lead, store)] == ["finder", "pilot", "pilot"]
    assert [*_nested_runs(lead, _OneRun(tmp_path, lead))] == []


class _OneRun(Store):
    """A store that returns one run for every name."""

    def __init__(self, folder: Path, run: Run) -> None:
        super().__init__(folder)
        self._run = run

    def load(self, run_id: str) -> Run:
        return self._run
