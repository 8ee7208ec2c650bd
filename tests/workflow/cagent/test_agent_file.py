"""Agent files of docker/cagent run as workflow files; other keys are reported with their line."""

from __future__ import annotations

from pathlib import Path

import pytest
from asserted_sentences import Snapshot

from agentnb import Workflow
from agentnb.errors import WorkflowProblems
from agentnb.testing import LoopbackServer
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.form.workflow_spec import AgentStep, ParallelStep, WorkflowSpec

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
    return [str(warning) for warning in read_workflow(text).warnings]


def problems_of(text: str) -> list[str]:
    with pytest.raises(WorkflowProblems) as caught:
        read_workflow(text)
    return [str(problem) for problem in caught.value.problems]


def steps_of(spec: WorkflowSpec) -> list[str]:
    return [step.agent for step in spec.steps if isinstance(step, AgentStep)]


def test_cagent_models_and_toolsets_are_mapped_to_agentnb() -> None:
    spec = read_workflow(SEQUENCE)
    assert {name: agent.model for name, agent in spec.agents.items()} == {
        "writer": "openai:gpt-x?max_tokens=900",
        "editor": "openai:gpt-x",
    }
    assert spec.agents["editor"].tools == ("files",)
    assert spec.warnings == ()


def test_agent_name_alone_is_accepted_as_a_step() -> None:
    block = read_workflow(SEQUENCE).steps[1]
    assert isinstance(block, ParallelStep)
    assert [step.agent for step in block.steps if isinstance(step, AgentStep)] == ["writer", "editor"]
    assert problems_of(SEQUENCE.replace("[writer, editor]", "[writer, edtor]"))


def test_file_without_a_workflow_runs_its_root_agent() -> None:
    spec = read_workflow(ROOT)
    assert steps_of(spec) == ["root"]
    assert (spec.agents["root"].sub_agents, spec.agents["helper"].description) == (("helper",), "Looks things up.")
    [problem] = problems_of(ROOT.replace("root:", "leader:"))
    assert "no steps configured" in problem


def test_cagent_support_does_not_affect_other_files(subtests: pytest.Subtests) -> None:
    cases = {
        "a workflow of agentnb": "agents: {a: {instruction: Go., odd: 1}}\nworkflow: [{type: agent, name: a}]",
        "agents that are no mapping": "version: 1\nagents: [a]\nworkflow: [{type: agent, name: a}]",
    }
    for name, text in cases.items():
        with subtests.test(name):
            assert 'unknown key "' in problems_of(text)[0]
    spec = read_workflow("agents: {a: {model: openai/gpt-x}}\nworkflow: [{type: agent, name: a}]")
    assert spec.agents["a"].model == "openai:gpt-x"


def test_unsupported_keys_are_warnings_and_misspelt_keys_problems(snapshot: Snapshot) -> None:
    more = "welcome_message: Hello, commands: {fix: Fix it.}, rag: [papers], max_iterations: 7, instruction:"
    text = f"rag: {{papers: {{}}}}\ninclude: other\n{ROOT}".replace("instruction:", more, 1)
    assert warnings_of(text) == snapshot("warnings")
    assert read_workflow(text).agents["root"].limits == {"max_rounds": 7}
    more = "limits: {budget: 0.5}, tools: think, deny: bash, max_iterations:"
    own = read_workflow(f"permissions: {{deny: think}}\n{text.replace('max_iterations:', more)}").agents["root"]
    assert (own.limits, own.tools, own.deny) == ({"max_rounds": 7, "budget": 0.5}, ("think", "shell"), ("bash", "think"))
    assert problems_of(text.replace("welcome_message", "instructions").replace("include", "limit")) == snapshot("problems")


def test_unsupported_keys_that_would_change_a_run_are_refused(snapshot: Snapshot) -> None:
    text = ROOT.replace("{description:", "{hooks: {pre_tool_use: []}, handoffs: [root], description:")
    assert problems_of(text) == snapshot


def test_run_log_contains_the_agent_file_verbatim(tmp_path: Path) -> None:
    workflow = Workflow.from_yaml(SEQUENCE)
    run = workflow.run_sync("Go.", replies={"writer": ["One.", "Two."], "editor": ["Three."]}, show=False)
    assert run.settings["workflow"]["text"] == SEQUENCE
    assert Workflow.of_run(run).spec.agents == workflow.spec.agents


def test_workflow_step_runs_an_agent_file(tmp_path: Path) -> None:
    (tmp_path / "agents.yaml").write_text(ROOT)
    (tmp_path / "outer.yaml").write_text("workflow: [{id: inner, type: workflow, file: agents.yaml}]")
    run = Workflow.from_yaml(tmp_path / "outer.yaml").run_sync("Go.", replies={"root": ["Done."]}, show=False)
    assert run.text == "Done."


def test_cagent_files_run_unchanged_against_the_strict_server(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for name, text, requests in (("a workflow", SEQUENCE, 3), ("a root agent", ROOT, 1)):
        with subtests.test(name), LoopbackServer(["Done."], repeat=True) as server:
            for provider, path in (("OPENAI", "/v1"), ("ANTHROPIC", "")):
                monkeypatch.setenv(f"{provider}_API_KEY", "no-key-of-anybody")
                monkeypatch.setenv(f"{provider}_BASE_URL", f"{server.url}{path}")
            run = Workflow.from_yaml(text).run_sync("Go.", model="anthropic:claude-x", show=False)
            assert ("Done." in run.text, len(server.requests), server.problems) == (True, requests, [])
