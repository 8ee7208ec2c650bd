"""docs/experiments.md cannot go stale: its cells run, and it names every check that ships and what a comparison has."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from made_results import results_of

from agentnb import Experiment, compare
from agentnb.experiments.form.yaml_reader import read_experiment
from agentnb.experiments.planning.checks import SHIPPED
from agentnb.experiments.views.comparison_facts import RATIO_NAMES, facts

PAGE = (Path(__file__).parents[1] / "docs" / "experiments.md").read_text("utf-8")


def test_its_first_experiment_runs() -> None:
    python, cell = re.findall(r"```(?:python)?\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(python, names)
    magic, body = cell.split("\n", 1)
    assert magic == "%%experiment --as exp"
    experiment = read_experiment(body, names)
    small = replace(experiment, tasks=experiment.tasks[:6], folder=False)
    results = small.run_sync(show=False)
    assert compare(results, "with", "without").tasks == 6


def test_every_check_and_method_that_it_names_is_there() -> None:
    section = PAGE[PAGE.index("## Checks") : PAGE.index("## Reading")]
    assert set(SHIPPED) <= set(re.findall(r"`(\w+)`", section))
    for name in re.findall(r"`(?:await )?exp\.(\w+)\(", PAGE):
        assert callable(getattr(Experiment, name)), name
    comparison = compare(results_of({"a": [1, 0] * 4, "b": [0, 1] * 4}), "a", "b")
    for name in re.findall(r"`c\.(\w+)\(", PAGE):
        assert callable(getattr(comparison, name)), name


def test_each_number_of_a_comparison_is_explained() -> None:
    section = PAGE[PAGE.index("## Reading") :].lower()
    shown = compare(results_of({"a": [1, 0] * 20, "b": [0, None] * 20}), "a", "b")
    several = compare(results_of({"a": [1, 0] * 20, "b": [0, 1, 1, 0] * 10}, repeats=2), "a", "b")
    for fact in (*facts(shown), *facts(several)):
        name = {"Means": "mean", "Time": "time", "Tasks": "tasks"}.get(fact.name, fact.name).lower()
        assert name.partition(",")[0].removesuffix("s") in section, fact.name
    assert all(name.lower() in section for name in RATIO_NAMES.values())
