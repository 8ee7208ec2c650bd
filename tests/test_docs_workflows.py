"""docs/workflows.md and tasks.md cannot go stale: their examples run and give what they say, and they name every key."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

from agentnb import Agent, Run, Workflow, tables
from agentnb.models import ScriptedModel
from agentnb.workflow.files.workflow_reader import OF_FILES
from agentnb.workflow.form.spec import KINDS
from agentnb.workflow.tasks.task_file import OF_FILES as OF_TASK_FILES

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "workflows.md").read_text(encoding="utf-8")
TASKS = (DOCS / "tasks.md").read_text(encoding="utf-8")
BLOCKS = [dedent(one).strip("\n") + "\n" for one in re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT + TASKS, re.MULTILINE)]
REPLIES: dict[str, Any] = {
    "generator": ["Low water is at six."],
    "translator": ["Basse mer.", "Basse mer à six heures.", "Basse mer vers six heures."],
    "judge": ['{"is_approved": false, "note": "the hour"}', '{"is_approved": true}'],
}


def block(beginning: str) -> str:
    """The example that begins so."""
    return next(one for one in BLOCKS if one.startswith(beginning))


def first(text: str = "", **replies: Any) -> Run:
    return Workflow.from_yaml(text or block("agents:")).run_sync("Low water", replies={**REPLIES, **replies}, show=False)


def test_the_first_example_gives_what_stands_below_it() -> None:
    run, told = first(), block("run.text")
    assert told.splitlines()[0].endswith(f"# {run.text!r}")
    assert f"# {run.steps['translation']['runs']}" in told and f"# {dict(run.back_edges)}" in told
    rows = [f"{step} {iteration}" for step, iteration in tables.steps(run)[["step", "iteration"]].itertuples(index=False)]
    assert told.split("a row for each attempt: ")[1].removesuffix(", ...\n") == ", ".join(rows[:5])


def test_the_condition_that_gives_up_ends_the_loop_before_its_limit() -> None:
    never = ['{"is_approved": false}'] * 3
    text = re.sub(r'condition: ".*"', lambda _: block("condition:").strip(), block("agents:"))
    run = first(text, judge=never)
    assert (run.status, run.text) == ("completed", "Basse mer vers six heures.")


def test_the_example_of_the_kinds_of_steps_runs() -> None:
    said: list[Any] = []

    def fetch(station: str) -> str:
        """Fetch a table."""
        return f"table of {station}"

    def publish(texts: list[str]) -> str:
        """Publish."""
        said.extend(texts)
        return "done"

    agents = {name: Agent(ScriptedModel(())) for name in ("planner", "writer")}
    declared = block("inputs:").split("agents:")[0]
    workflow = Workflow.from_yaml(f"{declared}workflow:\n{block('- id: facts')}", agents=agents, tools=[fetch, publish])
    replies = {"planner": ['{"list": ["low water", "wind"]}'], "writer": ["One", "Two"]}
    run = workflow.run_sync(replies=replies, answer=lambda question: "now", show=False)
    assert (run.text, said) == ("done", ["One", "Two"])


def test_inputs_and_the_task_file_can_be_read() -> None:
    spec = Workflow.from_yaml(block("inputs:") + "workflow: [{type: agent, name: translator}]\n").spec
    assert spec.inputs == {"station": "brest", "language": "French"}
    assert Workflow.from_yaml(block("init:").split("\nwf =")[0]).tasks is not None


def test_every_key_of_a_file_and_every_type_of_step_has_its_row() -> None:
    rows = set(re.findall(r"^\| `([\w ]+)`", TEXT, re.MULTILINE))
    assert {*OF_FILES} <= rows and {*KINDS} <= rows
    assert all(re.search(rf"\b{key}:", TASKS) for key in OF_TASK_FILES), OF_TASK_FILES
