"""Repository instructions in the system prompt."""

from __future__ import annotations

from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from scripted_runs import add

from agentnb.agent.agent import Agent
from agentnb.agent.start import pending_run
from agentnb.core.messages import ToolCall
from agentnb.guidance.prompts import prompt
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.run_options import RunOptions

SECTION = "## Repository Instructions\n\nBe kind."


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository outside the current folder."""
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (root / "inner").mkdir()
    (root / "AGENTS.md").write_text("\nBe kind.\n")
    return root


@pytest.mark.req("R2.38", "KX.7")
def test_system_prompt_order_is_base_instructions_and_tool_note(repo: Path) -> None:
    without_tools = Agent(ScriptedModel([]), work_dir=repo).first_request("go").system
    assert without_tools == f"{prompt('system')}\n\n{SECTION}\n\n{prompt('no_tools')}"
    with_tools = Agent(ScriptedModel([]), tools=[add], work_dir=repo).first_request("go").system
    assert with_tools == f"{prompt('system')}\n\n{SECTION}"


@pytest.mark.req("R2.38", "KX.7")
def test_instructions_follow_a_custom_system_prompt(repo: Path) -> None:
    agent = Agent(ScriptedModel([]), tools=[add], system=" Be brief. ", work_dir=repo)
    assert agent.first_request("go").system == f"Be brief.\n\n{SECTION}"
    assert Agent(ScriptedModel([]), tools=[add], system="", work_dir=repo).first_request("go").system == SECTION


@pytest.mark.req("R2.37")
def test_missing_instructions_add_no_section(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text(" \n")
    assert Agent(ScriptedModel([]), tools=[add]).first_request("go").system == prompt("system")


@pytest.mark.req("R2.37")
def test_instructions_come_from_the_work_dir(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot
) -> None:
    (tmp_path / "CLAUDE.md").write_text("Of the current folder.")
    agent = Agent(ScriptedModel([]), tools=[add], system="Base.")
    assert agent.first_request("go").system == snapshot
    monkeypatch.chdir(repo / "inner")
    assert agent.first_request("go").system == f"Base.\n\n{SECTION}"
    of_the_agent = Agent(ScriptedModel([]), tools=[add], system="Base.", work_dir=tmp_path)
    assert "Of the current folder." in of_the_agent.first_request("go").system
    of_the_options = pending_run(of_the_agent, "go", RunOptions(work_dir=repo))
    assert of_the_options.first_request().system == f"Base.\n\n{SECTION}"


@pytest.mark.req("R2.37", "KX.7")
def test_run_sends_the_instructions_it_started_with(repo: Path) -> None:
    def change() -> str:
        """Change the instructions."""
        (repo / "AGENTS.md").write_text("Be rude.")
        return "Done."

    model = ScriptedModel([ToolCall("change", {}), "Done."])
    run = Agent(model, tools=[change], system="Base.").run_sync("go", work_dir=repo)
    assert [request.system for request in model.requests] == [f"Base.\n\n{SECTION}"] * 2
    assert run.events[0].system == f"Base.\n\n{SECTION}"  # type: ignore[union-attr]
    later = ScriptedModel(["Yes."])
    Agent(later, tools=[change], system="Base.").run_sync("and now?", work_dir=repo, continue_from=run)
    assert later.requests[0].system.endswith("Be rude.")


@pytest.mark.req("R2.37")
def test_agent_can_disable_instructions(repo: Path) -> None:
    agent = Agent(ScriptedModel([]), tools=[add], system="Base.", work_dir=repo, instructions=False)
    assert agent.first_request("go").system == "Base."
