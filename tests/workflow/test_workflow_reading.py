"""Workflow files become steps: ids, defaults, short forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.form.step_tree import StepTree
from agentnb.workflow.form.workflow_spec import (
    AgentStep,
    ConditionStep,
    GotoStep,
    HumanStep,
    MapStep,
    OnError,
    ParallelStep,
    Retry,
    ToolStep,
    WorkflowSpec,
    WorkflowStep,
)

EXAMPLES = Path(__file__).parent / "examples"
AGENTS = "agents:\n  writer: {instruction: Write.}\n  editor: {instruction: Edit.}\n"


def example(name: str) -> WorkflowSpec:
    return read_workflow((EXAMPLES / name).read_text(encoding="utf-8"), name)


def read(steps: str, **options: Any) -> WorkflowSpec:
    return read_workflow(f"{AGENTS}workflow:\n{steps}", **options)


def paths(spec: WorkflowSpec) -> list[str]:
    return [step.step.path for step in StepTree(spec.steps).all]


def test_every_example_is_read_with_the_expected_warnings(subtests: pytest.Subtests) -> None:
    files = [path for path in EXAMPLES.glob("*.yaml") if not path.name.endswith(".run.yaml") and path.stem != "problems"]
    assert len(files) == 8
    for path in files:
        with subtests.test(path.name):
            warnings = read_workflow(path.read_text(encoding="utf-8"), path.name).warnings
            assert [warning.code for warning in warnings] == (["W_DEFERRED_CONDITION"] if path.stem == "qa-loop" else [])


def test_qa_loop_example_is_read_completely() -> None:
    spec = example("qa-loop.yaml")
    assert [type(step) for step in spec.steps] == [AgentStep, AgentStep, ConditionStep, AgentStep]
    check = spec.steps[2]
    assert isinstance(check, ConditionStep)
    assert check.condition == "{{ $steps.qa.output.is_approved }}"
    assert [(step.kind, step.id) for step in check.true_] == [("agent", "publisher")]
    (back,) = check.false_
    assert isinstance(back, GotoStep)
    assert (back.id, back.target) == ("back_to_trans", "trans")
    assert spec.agents["qa_agent"].structured_output is not None
    assert set(spec.agents["qa_agent"].structured_output) == {"type", "properties", "required"}
    assert (spec.source, spec.max_loop_iterations) == ("qa-loop.yaml", 100)
    assert spec.steps[0].line == 24


@pytest.mark.req("R4.1", "R4.17", "K4.9")
def test_overrides_take_precedence_over_the_workflow_and_defaults() -> None:
    assert example("loop-limit.yaml").max_loop_iterations == 2
    steps = "  steps: [{type: agent, name: writer}]\n"
    assert read(f"  max_loop_iterations: 5\n{steps}").max_loop_iterations == 5
    assert read(steps).max_loop_iterations == 100


@pytest.mark.req("K4.5")
def test_step_without_an_id_is_named_by_agent_or_kind() -> None:
    spec = read(
        """
  - {type: agent, name: writer}
  - {type: agent, name: writer}
  - {id: editor, type: agent, name: writer}
  - {type: agent, name: editor}
  - type: condition
    condition: "{{ $steps.writer.output }}"
    true: {type: agent, name: writer}
  - type: parallel
    steps:
      - {type: agent, name: writer}
      - {type: parallel, steps: [{type: tool, name: look.up}, {id: parallel_1, type: agent, name: writer}]}
  - type: condition
    condition: "{{ $steps.writer_2.output }}"
  - {goto: end}
"""
    )
    assert paths(spec) == [
        "writer",
        "writer_2",
        "editor",
        "editor_2",
        "condition_1",
        "writer_3",
        "parallel_2",
        "parallel_2/writer_4",
        "parallel_2/parallel_3",
        "parallel_2/parallel_3/look_up",
        "parallel_2/parallel_3/parallel_1",
        "condition_2",
        "goto_1",
    ]


@pytest.mark.req("R4.16", "K4.2")
def test_branch_may_be_a_list_a_step_or_goto() -> None:
    spec = read(
        """
  - {id: draft, type: agent, name: writer}
  - id: check
    type: condition
    condition: "{{ $steps.draft.output }}"
    true: {goto: again}
    false:
      - {type: agent, name: editor}
      - {id: draft, type: agent, name: writer}
  - id: again
    type: condition
    condition: "{{ $steps.draft.output }}"
    true: [{id: back_to_draft, type: agent, name: writer}]
    false: [{id: back_to_basics, type: agent, name: writer}]
  - id: third
    type: condition
    condition: "{{ $steps.draft.output }}"
    true: {id: back_to_draft}
"""
    )
    check, again, third = spec.steps[1:]
    assert isinstance(check, ConditionStep)
    assert isinstance(again, ConditionStep)
    assert isinstance(third, ConditionStep)
    assert [(step.kind, step.id) for step in (*check.true_, *check.false_)] == [
        ("goto", "goto_1"),
        ("agent", "editor"),
        ("goto", "goto_2"),
    ]
    assert [
        step.target for step in (*check.true_, *check.false_, *again.true_, *third.true_) if isinstance(step, GotoStep)
    ] == [
        "again",
        "draft",
        "draft",
        "draft",
    ]
    assert [(step.kind, step.id) for step in (*again.true_, *again.false_)] == [
        ("goto", "back_to_draft"),
        ("agent", "back_to_basics"),
    ]
    assert len(set(paths(spec))) == len(paths(spec))


@pytest.mark.req("R4.2", "R4.3", "R4.27")
def test_each_kind_of_step_is_read_with_all_its_keys() -> None:
    spec = read(
        """
  - {id: a, type: agent, name: writer, prompt: "Of {{ $prompt }}", context: none, timeout: 2.5, end: false,
     retry: {max_attempts: 2, backoff: exponential, initial_delay_seconds: 0, max_delay_seconds: 9, multiplier: 3, on: timeout},
     on_error: {continue: {x: 1}}}
  - {id: b, type: agent, name: writer, context: [a], on_error: {goto: 0}}
  - {id: c, type: tool, name: search, args: {q: "{{ $steps.a.output }}", n: 3}, on_error: {continue: null}}
  - {id: d, type: human, ask: "Which?", choices: [one, 2], timeout: 60}
  - {id: e, type: human, ask: "Fill in", form: {type: object, properties: {n: {type: integer}}}}
  - {id: f, type: human, ask: "Sure?", confirm: true}
  - {id: g, type: map, over: "{{ $steps.c.output }}", max_concurrency: 3,
     step: {type: agent, name: writer, prompt: "{{ $item }}"}}
  - {id: h, type: map, over: [1, 2], step: {id: sub, type: tool, name: search}}
  - {id: i, type: workflow, file: other.yaml, prompt: "{{ $prompt }}", inputs: {n: "{{ $index }}"}}
  - {id: j, type: parallel, max_concurrency: 2, steps: [{type: agent, name: writer}]}
""".replace("{{ $index }}", "{{ $inputs.n }}"),
        is_logged=True,
    )
    a, b, c, d, e, f, g, h, i, j = spec.steps
    assert isinstance(a, AgentStep)
    assert (a.agent, a.prompt, a.context, a.timeout, a.line) == ("writer", "Of {{ $prompt }}", "none", 2.5, 6)
    assert a.retry == Retry(
        max_attempts=2, backoff="exponential", initial_delay_seconds=0, max_delay_seconds=9, multiplier=3, on=("timeout",)
    )
    assert a.on_error == OnError(continues=True, continue_with={"x": 1})
    assert isinstance(b, AgentStep)
    assert (b.context, b.on_error) == (("a",), OnError(goto=0))
    assert isinstance(c, ToolStep)
    assert (c.tool, c.args) == ("search", {"q": "{{ $steps.a.output }}", "n": 3})
    assert c.on_error == OnError(continues=True, continue_with=None)
    assert isinstance(d, HumanStep)
    assert (d.ask, d.choices, d.form, d.confirm) == ("Which?", ("one", 2), None, False)
    assert isinstance(e, HumanStep)
    assert e.form == {"type": "object", "properties": {"n": {"type": "integer"}}}
    assert isinstance(f, HumanStep)
    assert f.confirm is True
    assert isinstance(g, MapStep)
    assert (g.over, g.max_concurrency, g.step.path) == ("{{ $steps.c.output }}", 3, "g/writer")
    assert isinstance(h, MapStep)
    assert (h.over, h.max_concurrency, h.step.path) == ([1, 2], 8, "h/sub")
    assert isinstance(i, WorkflowStep)
    assert (i.file, i.prompt, i.inputs) == ("other.yaml", "{{ $prompt }}", {"n": "{{ $inputs.n }}"})
    assert isinstance(j, ParallelStep)
    assert (j.max_concurrency, [step.path for step in j.steps]) == (2, ["j/writer_2"])


def test_agents_limits_and_inputs_are_read() -> None:
    spec = read_workflow(
        """
agents:
  one:
    model: simulated:disciplined
    instruction: |
      Write.
    tools: [search, fetch]
    guidance: off
    policy: minimal
    limits: {max_rounds: 4, budget: 0.5, on_limit: raise}
    structured_output: {type: object, properties: {schema: {type: string}}}
    replies: [Hello, {error: timeout}]
  two:
workflow:
  limits: {budget: 2, max_seconds: 60}
  inputs: {lang: fr, deep: {n: 1}}
  steps:
    - {type: agent, name: one, prompt: "{{ $inputs.deep.n }}"}
    - {type: agent, name: two}
""",
        "w.yaml",
    )
    one, two = spec.agents.values()
    assert (one.name, one.line, one.model, one.instruction) == ("one", 3, "simulated:disciplined", "Write.\n")
    assert (one.tools, one.guidance, one.policy) == (("search", "fetch"), "off", "minimal")
    assert one.limits == {"max_rounds": 4, "budget": 0.5, "on_limit": "raise"}
    assert one.structured_output == {"type": "object", "properties": {"schema": {"type": "string"}}}
    assert one.replies == ("Hello", {"error": "timeout"})
    assert (two.name, two.instruction, two.structured_output) == ("two", "", None)
    assert spec.limits == {"budget": 2, "max_seconds": 60}
    assert spec.inputs == {"lang": "fr", "deep": {"n": 1}}


def test_python_agents_replace_declared_ones_and_need_no_declaration() -> None:
    steps = '  - {id: j, type: agent, name: judge}\n  - {type: agent, name: writer, prompt: "{{ $steps.j.output.ok }}"}'
    spec = read_workflow(f"{AGENTS}workflow:\n{steps}", agents=("judge",))
    assert (len(spec.steps), spec.warnings) == (2, ())


def test_workflow_may_be_written_as_json() -> None:
    text = '{"workflow": [{"type": "condition", "condition": "true", "true": {"goto": "end"}}]}'
    (step,) = read_workflow(text).steps
    assert isinstance(step, ConditionStep)
    assert [one.kind for one in step.true_] == ["goto"]
