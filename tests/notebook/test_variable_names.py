"""Typed names of models and tools, found among the variables of a notebook."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb import Agent, Workflow, tool
from agentnb.errors import UnknownModel, UnknownTool
from agentnb.models import ScriptedModel
from agentnb.notebook.variable_names import find_gates, find_model, find_tools, gate_names, tool_names, tools_again, words_of
from agentnb.tools.function import as_tool


def test_variable_may_contain_a_model_or_its_name() -> None:
    model = ScriptedModel(["hi"])
    variables = {"mine": model, "named": "simulated:disciplined"}
    assert find_model("mine", variables) is model
    assert find_model("named", variables) == find_model("simulated:disciplined", variables) == "simulated:disciplined"


class Echo:
    """A model without a name."""

    async def stream(self, request: Any) -> Any:
        yield request


def test_incomplete_model_error_names_the_missing_parts(subtests: pytest.Subtests) -> None:
    class Named(Echo):
        name = "own:echo"

    for value, expected in [
        (Named, "It is a class, not an instance. Create one: my_model = mine(). Model names have"),
        (Echo(), 'It lacks the attribute name = "own:NAME"; help(agentnb.models) has an example. Model names have'),
    ]:
        with subtests.test(expected):
            with pytest.raises(UnknownModel) as refused:
                find_model("mine", {"mine": value})
            assert expected in str(refused.value)


def test_value_without_a_model_is_refused_with_suggestions(subtests: pytest.Subtests) -> None:
    for name, models, expected in [
        ("modle", ["model"], "The variable modle is not defined. Did you mean model? Model names have the"),
        (
            "number",
            ["model"],
            "The variable number is of type int, not a model. Variables that hold a model: model. Model names have the",
        ),
        ("number", [], "The variable number is of type int, not a model. Model names have the form provider:NAME"),
        ("number", [f"m{n}" for n in range(9)], "hold a model: m0, m1, m2, m3, m4, m5, m6, m7 and 1 more. Model names"),
    ]:
        with subtests.test(name):
            variables: dict[str, Any] = {"number": 3, "_model": ScriptedModel([]), **{one: ScriptedModel([]) for one in models}}
            with pytest.raises(UnknownModel) as refused:
                find_model(name, variables)
            assert expected in str(refused.value)


def test_quoted_and_spaced_variable_names_are_accepted() -> None:
    assert words_of([['"f g"', "h,i"], ["j"]]) == ["f", "g", "h", "i", "j"]


def look() -> str:
    """Look."""
    return "seen"


def names_of(tools: Any) -> list[str]:
    return [as_tool(item).spec.name for item in tools]


def notebook() -> dict[str, Any]:
    """Return notebook variables with agents and workflows."""
    unnamed, named = Agent(ScriptedModel([])), Agent(ScriptedModel([]), name="web writer")
    flow = Workflow.from_yaml("workflow: [{type: tool, name: look}]\n", tools=[look])
    made = tool(Agent(ScriptedModel([])), name="finder")
    return {"researcher": unnamed, "writer": named, "flow": flow, "made": made, "team": [named, look], "look": look, "n": 3}


def test_unnamed_agents_and_workflows_take_their_variable_name() -> None:
    variables = notebook()
    typed = ["researcher", "flow", "writer", "made", "team", "researcher", "writer"]
    assert names_of(find_tools(typed, variables)) == ["researcher", "flow", "web_writer", "finder", "look"]
    with pytest.raises(UnknownTool, match="Did you mean researcher"):
        find_tools(["reseacher"], variables)


def test_recovered_run_finds_its_agents_in_variables() -> None:
    names = ["researcher", "flow", "web_writer", "finder", "look", "gone"]
    tools = tools_again(names, [], notebook())
    assert [*tools] == names_of(tools.values()) == names[:-1]


def test_agents_and_workflows_can_be_tools_but_not_gates() -> None:
    look.__module__, before = "__main__", look.__module__
    try:
        assert tool_names(notebook()) == ["researcher", "writer", "flow", "made", "team", "look"]
        assert gate_names(notebook()) == ["look"]
        assert find_gates(["look"], notebook()) == [look]
    finally:
        look.__module__ = before
