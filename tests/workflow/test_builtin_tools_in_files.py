"""Built-in tools in workflow files."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentnb import Workflow
from agentnb.errors import SettingsError

STEP = "workflow: [{type: tool, name: NAME, args: {path: notes.txt}}]"
TASK = "stage: {main: {one: {action: NAME, input: {path: notes.txt}}}}"


def read_file(path: str) -> str:
    """Mine."""
    return "mine"


@pytest.fixture(autouse=True)
def notes() -> None:
    Path("notes.txt").write_text("low water")


def test_steps_and_actions_may_name_built_in_tools(subtests: pytest.Subtests) -> None:
    for text in (STEP, TASK):
        with subtests.test(text):
            assert "low water" in Workflow.from_yaml(text.replace("NAME", "read_file")).run_sync().text


def test_tools_of_the_caller_take_precedence(subtests: pytest.Subtests) -> None:
    for text in (STEP, TASK):
        with subtests.test(text):
            assert "mine" in Workflow.from_yaml(text.replace("NAME", "read_file"), tools=[read_file]).run_sync().text


def test_dotted_names_are_refused_in_files(subtests: pytest.Subtests) -> None:
    agent = "agents: {a: {tools: [NAME], replies: [Done.]}}\nworkflow: [{type: agent, name: a}]"
    for text in (STEP, TASK, agent):
        with subtests.test(text), pytest.raises(SettingsError, match=r"pd[._]read_csv"):
            Workflow.from_yaml(text.replace("NAME", "pd.read_csv")).run_sync()
