"""Files of docker/cagent are read as workflow files, and what they hold besides is noted with its line."""

from __future__ import annotations

import pytest

from agentnb.errors import WorkflowProblems
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.form.spec import AgentStep, ParallelStep, WorkflowSpec

SEQUENCE = """\
version: "4"
metadata: {author: somebody}
models:
  small: {provider: openai, model: gpt-x, max_tokens: 900}
agents:
  writer: {model: small, description: Writes., instruction: Write one sentence.}
  editor: {model: openai/gpt-x, toolsets: [{type: filesystem}]}
workflow:
  - {type: agent, name: writer}
  - {type: parallel, id: both, steps: [writer, editor]}
"""
ROOT = """\
agents:
  root: {model: anthropic/claude-x, instruction: Answer., sub_agents: [helper], toolsets: [{type: shell}]}
  helper: {description: Looks things up.}
"""


def warnings_of(text: str) -> list[str]:
    return [str(one) for one in read_workflow(text).warnings]


def problems_of(text: str) -> list[str]:
    with pytest.raises(WorkflowProblems) as caught:
        read_workflow(text)
    return [str(one) for one in caught.value.problems]


def steps_of(spec: WorkflowSpec) -> list[str]:
    return [step.agent for step in spec.steps if isinstance(step, AgentStep)]


def test_models_and_toolsets_of_a_workflow_become_those_of_agentnb() -> None:
    spec = read_workflow(SEQUENCE)
    assert {name: agent.model for name, agent in spec.agents.items()} == {
        "writer": "openai:gpt-x?max_tokens=900",
        "editor": "openai:gpt-x",
    }
    assert spec.agents["editor"].tools == ("files",)
    assert spec.warnings == ()


def test_a_step_may_be_the_name_of_its_agent() -> None:
    block = read_workflow(SEQUENCE).steps[1]
    assert isinstance(block, ParallelStep)
    assert [step.agent for step in block.steps if isinstance(step, AgentStep)] == ["writer", "editor"]
    assert problems_of(SEQUENCE.replace("[writer, editor]", "[writer, edtor]"))


def test_a_file_without_a_workflow_runs_its_root_agent() -> None:
    spec = read_workflow(ROOT)
    assert steps_of(spec) == ["root"]
    assert (spec.agents["root"].sub_agents, spec.agents["helper"].description) == (("helper",), "Looks things up.")
    assert problems_of(ROOT.replace("root:", "leader:")) == [
        "line 1: workflow: no steps configured. Such as: workflow: [{type: agent, name: writer}]"
    ]
