"""``%%agent --output NAME``: the form of the answer, from a notebook variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb import Output
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.notebook.agent_options import AgentOptions, make_agent
from agentnb.notebook.variable_names import find_output, output_names
from agentnb.session.session import Session

SCHEMA = {"type": "object", "required": ["birds"]}


@dataclass
class Count:
    birds: int


Count.__module__ = "__main__"  # as if defined in a cell
VARIABLES: dict[str, Any] = {
    "Count": Count,
    "schema": SCHEMA,
    "patient": Output(Count, retries=5),
    "counts": list[Count],
    "number": 3,
    "add": lambda a: a,
    "_hidden": Count,
    "Output": Output,
    "other": {"a": 1},
}


def test_output_option_accepts_a_variable_with_type_or_schema(subtests: pytest.Subtests) -> None:
    assert find_output("int", {}) is int and find_output("int", {"int": Count}) is Count
    for name in ("Count", "schema", "patient", "counts"):
        with subtests.test(name):
            chosen = AgentOptions("model", output=name)
            agent, _ = make_agent(chosen, Session(), {**VARIABLES, "model": ScriptedModel([])})
            assert agent.output is VARIABLES[name] and agent.output_form is not None


def test_invalid_output_option_is_refused_with_available_names(subtests: pytest.Subtests, snapshot: Snapshot) -> None:
    for name, words in {
        "Cuont": "--output Cuont: There is no variable 'Cuont'. Did you mean Count?",
        "number": "--output number: The variable number holds a int. Available: Count, schema, patient.",
        "add": "The variable add holds a function",
        "list[Count]": "There is no variable 'list[Count]'",
    }.items():
        with subtests.test(name), pytest.raises(SettingsError) as refused:
            find_output(name, VARIABLES)
        assert words in str(refused.value) and "a dataclass, another type, or a dict with a JSON Schema" in str(refused.value)
    with pytest.raises(SettingsError, check=snapshot.worded):
        find_output("Count", {})


def test_types_schemas_and_outputs_of_the_notebook_are_completed() -> None:
    assert output_names(VARIABLES) == ["Count", "schema", "patient"]


def test_cell_returns_the_answer_as_the_output_type(kernel: Any) -> None:
    kernel.run(
        "from dataclasses import dataclass\nfrom datetime import date\nfrom agentnb.models import ScriptedModel\n"
        "@dataclass\nclass Count:\n    birds: int\n    on: date\n"
        """model = ScriptedModel(["Twelve.", '{"birds": 12, "on": "2026-01-04"}'])"""
    )
    cell = kernel.run("%%agent -m model --output Count\nHow many?")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.output") == "Count(birds=12, on=datetime.date(2026, 1, 4))"
    assert "the answer did not match the output type" in cell.displays[-1]["text/html"]
    cell = kernel.run("%%agent -m model --output Cuont\nHow many?")
    assert cell.status == "error" and "\n" not in cell.error and "Did you mean Count?" in cell.error
    assert "Count" in kernel.client.complete("%%agent --output C", 18, reply=True, timeout=30)["content"]["matches"]
