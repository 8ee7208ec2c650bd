"""The JSON Schema of workflow files, for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentnb.core.schema.json_schema import check_schema, schema_problems
from agentnb.workflow.files.workflow_reader import OF_FILES, OF_MAPS
from agentnb.workflow.files.workflow_schema import workflow_schema
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.step_reader import step_keys
from agentnb.workflow.form.workflow_spec import KINDS
from agentnb.workflow.form.yaml_source import plain, read_yaml

EXAMPLES = Path(__file__).parent / "examples"


def problems_of(text: str) -> list[str]:
    node = read_yaml(text, Problems())
    assert node is not None
    return list(schema_problems(workflow_schema(), plain(node)))


def test_schema_is_valid_and_lists_exactly_the_keys_read() -> None:
    schema = check_schema(workflow_schema(), "It", "")
    for kind in KINDS:
        step = schema["$defs"][f"{kind}_step"]
        assert set(step["properties"]) == set(step_keys(kind))
        assert step["additionalProperties"] is False
        assert step["description"]
    assert schema["$defs"]["agent_step"]["properties"]["prompt"]["description"].startswith("Replaces the prompt")


def test_schema_has_the_keys_of_files_with_descriptions() -> None:
    schema = workflow_schema()
    assert set(schema["properties"]) == set(OF_FILES)
    assert set(schema["properties"]["workflow"]["else"]["properties"]) == set(OF_MAPS)
    assert all(schema["properties"][key]["description"] for key in ("inputs", "output", "max_loop_iterations"))


def test_every_example_matches_the_schema(subtests: pytest.Subtests) -> None:
    files = [path for path in EXAMPLES.glob("*.yaml") if not path.name.endswith(".run.yaml") and path.stem != "problems"]
    assert len(files) == 8
    for path in files:
        with subtests.test(path.name):
            assert problems_of(path.read_text(encoding="utf-8")) == []


def test_invalid_examples_do_not_match_the_schema() -> None:
    node = read_yaml((EXAMPLES / "problems.yaml").read_text(encoding="utf-8"), Problems())
    assert node is not None
    result: dict[str, Any] = {case["name"]: problems_of(case["text"]) for case in plain(node)}
    assert any("retries" in one for one in result["names that lead nowhere"])
    assert any("loop" in one for one in result["steps that are none"])
    assert any("slow" in one for one in result["a retry that means nothing"])
    assert result["no steps"]
    assert not result["a path into text that nobody declared"], "a schema does not check names"


def test_schema_accepts_only_the_possible_keys_of_each_step(subtests: pytest.Subtests) -> None:
    good = [
        "{type: agent, name: w, prompt: x, context: [a], retry: {max_attempts: 2, on: timeout}, on_error: {continue: null}}",
        "{type: agent, name: w, context: none, timeout: 1.5, end: true, on_error: fail}",
        "{type: condition, condition: true, true: {goto: 0}, false: [{goto: end}]}",
        "{type: parallel, max_concurrency: 2, steps: [{type: tool, name: f, args: {a: [1]}}]}",
        "{type: human, ask: x, choices: [a, 1]}",
        "{type: map, over: [1, 2], step: {type: workflow, file: f.yaml, inputs: {n: 1}}}",
        "{id: back_to_x}",
    ]
    bad = [
        "{type: agent}",
        "{type: agent, name: w, args: {}}",
        "{type: agent, name: w, timeout: 0}",
        "{type: agent, name: w, on_error: {skip: 1}}",
        "{type: agent, name: w, id: 1st}",
        "{type: goto, goto: 0, retry: {}}",
        "{type: parallel, steps: []}",
        "{type: parallel, steps: [{type: nothing}]}",
        "{type: map, over: [1]}",
        "{name: w}",
        "w",
    ]
    for step in good:
        with subtests.test(step):
            assert problems_of(f"workflow: [{step}]") == []
    for step in bad:
        with subtests.test(step):
            assert problems_of(f"workflow: [{step}]")


def test_schema_and_reader_accept_the_same_files_and_agents(subtests: pytest.Subtests) -> None:
    steps = "workflow: {steps: [{goto: end}], max_loop_iterations: 3, overrides: {max_loop_iterations: 2}}"
    for text in (
        f"{steps}\ninputs: {{a: 1}}\nlimits: {{budget: 1.5}}\noutput: x\nmax_loop_iterations: 4",
        f'{steps}\noutput: [x, "{{{{ $steps.y.output }}}}"]',
        f"{steps}\nagents: {{w: , v: {{tools: f, limits: {{max_rounds: 3}}, replies: [a, {{error: timeout}}]}}}}",
        f"{steps}\nagents: {{w: {{structured_output: {{name: x, strict: true, schema: {{type: object}}}}}}}}",
        f"{steps}\nagents: {{w: {{structured_output: {{type: object, properties: {{schema: {{}}}}}}}}}}",
    ):
        with subtests.test(text):
            assert problems_of(text) == []
    for text in (
        "agents: {}",
        f"{steps}\nagent: {{}}",
        f"{steps}\noutput: {{a: x}}",
        f"{steps}\nagents: {{w: {{instructions: x}}}}",
        f"{steps}\nagents: {{w: {{limits: {{rounds: 3}}}}}}",
        f"{steps}\nagents: {{w: {{structured_output: {{name: x, schemas: 1, schema: {{type: object}}}}}}}}",
    ):
        with subtests.test(text):
            assert problems_of(text)
