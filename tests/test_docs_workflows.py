"""docs/workflows.md and plans.md are current: their examples give their documented output, and they name every key and type."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

from agentnb import Agent, Plan, Run, Workflow, tables
from agentnb.core.plans.plan_history import GENERATION
from agentnb.models import ScriptedModel
from agentnb.workflow.defaults import DEFAULT_PLANS, MAX_PLAN_STEPS
from agentnb.workflow.files.workflow_reader import OF_FILES
from agentnb.workflow.form.workflow_spec import KINDS
from agentnb.workflow.plans.plan_results import FIELDS
from agentnb.workflow.plans.plan_spec import TYPES
from agentnb.workflow.plans.planner import PLAN_ACTIONS
from agentnb.workflow.plans.prompt_template import PLACES
from agentnb.workflow.tasks.task_file import OF_FILES as OF_TASK_FILES
from agentnb.workflow.tasks.task_spec import ALWAYS_KNOWN

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "workflows.md").read_text(encoding="utf-8")
PLANS = (DOCS / "plans.md").read_text(encoding="utf-8")
BLOCKS = [dedent(one).strip("\n") + "\n" for one in re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, re.MULTILINE)]
REPLIES: dict[str, Any] = {
    "generator": ["Low water is at six."],
    "translator": ["Basse mer.", "Basse mer à six heures.", "Basse mer vers six heures."],
    "judge": ['{"is_approved": false, "note": "the hour"}', '{"is_approved": true}'],
}


def block(beginning: str) -> str:
    """Return the example with this beginning."""
    return next(one for one in BLOCKS if one.startswith(beginning))


def first(text: str = "", **replies: Any) -> Run:
    return Workflow.from_yaml(text or block("agents:")).run_sync("Low water", replies={**REPLIES, **replies}, show=False)


def test_first_example_produces_the_output_below_it() -> None:
    run, told = first(), block("run.text")
    assert told.splitlines()[0].endswith(f"# {run.text!r}")
    assert f"# {run.steps['translation']['runs']}" in told and f"# {dict(run.back_edges)}" in told
    rows = [f"{step} {iteration}" for step, iteration in tables.steps(run)[["step", "iteration"]].itertuples(index=False)]
    assert told.split("a row for each attempt: ")[1].removesuffix(", ...\n") == ", ".join(rows[:5])


def test_give_up_condition_ends_the_loop_before_its_limit() -> None:
    never = ['{"is_approved": false}'] * 3
    text = re.sub(r'condition: ".*"', lambda _: block("condition:").strip(), block("agents:"))
    run = first(text, judge=never)
    assert (run.status, run.text) == ("completed", "Basse mer vers six heures.")


def test_step_kinds_example_runs() -> None:
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


def test_example_inputs_and_task_file_can_be_read() -> None:
    spec = Workflow.from_yaml(block("inputs:") + "workflow: [{type: agent, name: translator}]\n").spec
    assert spec.inputs == {"station": "brest", "language": "French"}
    assert Workflow.from_yaml(block("init:").split("\nwf =")[0]).tasks is not None


def test_file_keys_and_step_types_all_have_a_row() -> None:
    rows = set(re.findall(r"^\| `([\w ]+)`", TEXT, re.MULTILINE))
    assert {*OF_FILES} <= rows and {*KINDS} <= rows
    assert all(re.search(rf"\b{key}\b:?", TEXT) for key in OF_TASK_FILES), OF_TASK_FILES


def test_page_has_at_most_1800_words() -> None:
    assert len(TEXT.split()) <= 1_800


def test_cells_of_the_plans_page_run_in_order() -> None:
    model = ScriptedModel(['{"steps": [{"type": "tool", "name": "largest", "args": {"values": {"Gentoo": 1}}}]}', "Gentoo."])
    names: dict[str, Any] = {"model": model}
    texts = []
    for cell in re.findall(r"```python\n(.*?)```", PLANS, re.DOTALL):
        script = cell.replace("await ", "").replace(".run(", ".run_sync(").replace('model="anthropic:NAME"', "model=model")
        exec(script, names)  # the page's own code
        texts.append(names["run"].text if "run" in names else "")
    heaviest, run = names["heaviest"], names["run"]
    assert heaviest.validate([names["means"], names["largest"]]) == []
    assert f"run.text  # {texts[1]!r}\n" in PLANS
    assert Plan.read(heaviest.to_yaml("planner")) == heaviest
    assert (run.text, len(run.plans), len(run.variables["results"])) == ("Gentoo.", 2, 1)


def test_pages_name_plan_types_fields_places_and_actions() -> None:
    of_plans = (*TYPES, *PLACES, *PLAN_ACTIONS, *FIELDS, GENERATION, f"{MAX_PLAN_STEPS:,} steps", f"({DEFAULT_PLANS})")
    for name in (*of_plans, *ALWAYS_KNOWN):
        assert re.search(rf"(?<!\w){re.escape(name)}(?!\w)", TEXT + PLANS), name
