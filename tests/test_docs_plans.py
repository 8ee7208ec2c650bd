"""docs/plans.md cannot go stale: its examples run and give what they say, and it names every type, field and place."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Any

from agentnb import Plan, Workflow
from agentnb.core.plans.plan_history import GENERATION
from agentnb.models import ScriptedModel
from agentnb.workflow.plans.actions import PLAN_ACTIONS
from agentnb.workflow.plans.plan_results import FIELDS
from agentnb.workflow.plans.plan_spec import MAX_STEPS, TYPES
from agentnb.workflow.plans.prompt_template import PLACES
from agentnb.workflow.tasks.spec import DEFAULT_PLANS

TEXT = (Path(__file__).parents[1] / "docs" / "plans.md").read_text(encoding="utf-8")
FIRST, SECOND = (dedent(one) for one in re.findall(r"(?:^    .*\n|^\n(?=    ))+", TEXT, re.MULTILINE))


def means(column: str, by: str) -> dict[str, float]:
    """Return the mean of a measure for each group."""
    return {"Adelie": 3700.7, "Gentoo": 5076.0} if (column, by) == ("body_mass_g", "species") else {}


def largest(values: dict[str, float]) -> str:
    """Return the name of the largest value."""
    return max(values, key=lambda name: values[name])


def ran(code: str, **more: Any) -> dict[str, Any]:
    """The names that an example sets, which is run as a script would."""
    script = code.replace("await ", "").replace(".run(", ".run_sync(")
    names: dict[str, Any] = {"Plan": Plan, "Workflow": Workflow, "means": means, "largest": largest, **more}
    exec(script, names)  # the page's own code
    return names


def test_the_first_example_gives_what_stands_beside_it() -> None:
    names = ran(FIRST)
    assert names["heaviest"].validate([means, largest]) == []
    assert f"# {names['run'].text!r}" in FIRST
    assert Plan.read(names["heaviest"].to_yaml("planner")) == names["heaviest"]


def test_the_example_of_the_planner_runs() -> None:
    model = ScriptedModel(['{"steps": [{"type": "tool", "name": "largest", "args": {"values": {"Gentoo": 1}}}]}', "Gentoo."])
    code = SECOND.replace('model="anthropic:NAME"', "model=model")
    assert code != SECOND
    run = ran(code, model=model)["run"]
    assert (run.text, len(run.plans), len(run.variables["results"])) == ("Gentoo.", 2, 1)


def test_every_type_field_place_and_action_is_named() -> None:
    for name in (*TYPES, *PLACES, *PLAN_ACTIONS, *FIELDS, GENERATION, f"{MAX_STEPS:,} steps", f"({DEFAULT_PLANS})"):
        assert re.search(rf"(?<!\w){re.escape(name)}(?!\w)", TEXT), name
