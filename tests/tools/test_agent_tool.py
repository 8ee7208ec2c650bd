"""Agents, workflows and orchestrations as tools: names, descriptions and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from scripted_runs import bare

from agentnb import Agent, Orchestration, Workflow, tool
from agentnb.errors import InvalidTool
from agentnb.models import ScriptedModel
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator
from agentnb.tools.agent_tool import AgentTool, first_sentence, tool_of_variable
from agentnb.tools.function import FunctionTool, as_tool
from agentnb.tools.toolbox import Toolbox

STEP = "workflow: [{type: tool, name: noted}]\n"


async def noted() -> str:
    """Note."""
    return "noted"


def helper(*replies: Any, **settings: Any) -> Agent:
    """Return an agent named helper with this script."""
    return bare(ScriptedModel(replies), settings.pop("tools", ()), **{"name": "helper", **settings})


# Names, descriptions and settings


def test_agent_name_becomes_a_valid_tool_name(subtests: pytest.Subtests) -> None:
    for given, name in {
        "researcher": "researcher",
        "web researcher": "web_researcher",
        "Größe/2 (neu)": "Groe_2_neu",
        "a" * 80: "a" * 64,
        "agent": "agent",
    }.items():
        with subtests.test(given):
            assert as_tool(helper(name=given)).spec.name == name
    with pytest.raises(InvalidTool, match=r'Choose another: tool\(researcher, name="\.\.\."\)'):
        as_tool(helper(name="研究者"))
    assert tool(helper(name="研究者"), name="researcher").spec.name == "researcher"


def test_description_is_the_first_system_prompt_sentence_or_neutral(
    subtests: pytest.Subtests, tmp_path: Path, snapshot: Snapshot
) -> None:
    for text, sentence in {
        "You look things up. Be brief.": "You look things up.",
        "# Role\n\nYou read e.g. books,\nand sum them up! More.": "You read e.g. books, and sum them up!",
        "You look things up\n\nAlways": "You look things up",
        "Is it v1.2 or not? Say so.": "Is it v1.2 or not?",
        "# Only a heading": "",
        "  \n": "",
    }.items():
        with subtests.test(text):
            assert first_sentence(text) == sentence
    assert len(first_sentence("word " * 200)) == 300
    (tmp_path / "survey.yaml").write_text(STEP)
    for case, runnable in {
        "with a prompt": helper(system="You look things up. Be brief."),
        "agent": helper(),
        "agent without a name": helper(name="agent"),
        "workflow": Workflow.from_yaml(STEP, tools=[noted]),
        "workflow of a file": Workflow.from_yaml(tmp_path / "survey.yaml", tools=[noted]),
        "orchestration": Orchestration(make=StepOrchestrator, run_kind="pipeline", name="two halves"),
    }.items():
        with subtests.test(case):
            assert as_tool(runnable).spec.description == snapshot(case)
    assert tool(helper(system="You look."), description="Finds.").spec.description == "Finds."


def test_valid_agent_tool_settings_are_accepted(subtests: pytest.Subtests) -> None:
    plain = as_tool(helper())
    assert (plain.effects, plain.timeout) == (frozenset(), None) and plain.spec.effects == ()
    assert not (plain.parallel_safe or plain.blocking or plain.repeatable)
    settings: dict[str, Any] = {"name": "find", "parallel_safe": True, "timeout": 3, "repeatable": True, "role": "planning"}
    built = {
        "called": tool(helper(), **settings),
        "as a decorator": tool(**settings)(helper()),
        "again": tool(tool(helper(), name="other", parallel_safe=True), **{**settings, "name": "find"}),
    }
    for case, one in built.items():
        with subtests.test(case):
            assert isinstance(one, AgentTool)
            assert (one.spec.name, one.parallel_safe, one.timeout, one.repeatable, one.spec.role) == (*settings.values(),)


def test_invalid_settings_are_refused(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    cases: dict[str, dict[str, Any]] = {
        "effects": {"effects": ["read"]},
        "blocking": {"blocking": True},
        "path": {"path": "prompt"},
        "unknown": {"parallel": True},
        "name": {"name": "web researcher"},
        "timeout": {"timeout": 0},
        "role": {"role": "boss"},
        "description": {"description": 3},
    }
    for case, settings in cases.items():
        with subtests.test(case), pytest.raises(InvalidTool) as error:
            tool(helper(), **settings)
        assert str(error.value) == snapshot(case)
    with pytest.raises(InvalidTool, match="has no setting description"):
        tool(description="A function has a docstring.")


def test_two_tools_with_one_name_are_refused_with_a_hint() -> None:
    with pytest.raises(InvalidTool, match=r'"agent" already registered. Rename one .* with tool\(researcher, name="\.\.\."\)'):
        Agent("simulated:chatty", tools=[helper(name="agent"), helper("Hi.", name="agent")])
    with pytest.raises(InvalidTool, match=r"tool\(researcher"):
        Toolbox([helper(name="noted"), noted])
    assert len(Toolbox([helper(), tool(helper(), name="second")])) == 2


def test_unnamed_agent_takes_the_name_of_its_variable() -> None:
    for unnamed in (helper(name="agent"), helper(name="研究者"), Workflow.from_yaml(STEP, tools=[noted])):
        assert as_tool(tool_of_variable(unnamed, "researcher")).spec.name == "researcher"
    named, function = helper(), FunctionTool(noted)
    assert tool_of_variable(named, "researcher") is named
    assert tool_of_variable(function, "researcher") is function
