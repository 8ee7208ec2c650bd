"""The pages about experiments are current: cells run, and every built-in check and field of a comparison is named."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from made_results import results_from, results_of, row

from agentnb import Experiment, compare
from agentnb.experiments.form.yaml_reader import read_experiment
from agentnb.experiments.planning.experiment_checks import SHIPPED
from agentnb.experiments.results.values import task_means
from agentnb.experiments.views.comparison_facts import RATIO_NAMES, facts

DOCS = Path(__file__).parents[1] / "docs"
PAGE, COMPARISONS, DESIGNS = (
    (DOCS / f"{name}.md").read_text("utf-8") for name in ("experiments", "comparisons", "experiment-designs")
)
PAGES = PAGE + COMPARISONS + DESIGNS


def test_first_experiment_on_the_page_runs() -> None:
    python, cell, comparison = re.findall(r"```(?:python)?\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(python.removeprefix("%load_ext agentnb\n"), names)
    magic, body = cell.split("\n", 1)
    assert magic == "%%experiment --as exp"
    experiment = read_experiment(body, names)
    small = replace(experiment, tasks=experiment.tasks[:6], folder=False)
    results = small.run_sync(show=False)
    names |= {"compare": compare, "results": results}
    assert eval(comparison, names).tasks == 6


def test_checks_and_methods_named_on_the_page_exist() -> None:
    section = PAGE[PAGE.index("## Checks") : PAGE.index("## Reading")] + DESIGNS[DESIGNS.index("## Judges") :]
    assert set(SHIPPED) <= set(re.findall(r"`(\w+)`", section))
    for name in re.findall(r"`(?:await )?exp\.(\w+)\(", PAGES):
        assert callable(getattr(Experiment, name)), name
    comparison = compare(results_of({"a": [1, 0] * 4, "b": [0, 1] * 4}), "a", "b")
    for name in re.findall(r"`c\.(\w+)\(", PAGES):
        assert callable(getattr(comparison, name)), name


def test_each_number_of_a_comparison_is_explained() -> None:
    section = COMPARISONS[COMPARISONS.index("## Reading") : COMPARISONS.index("## Pairs")].lower()
    shown = compare(results_of({"a": [1, 0] * 20, "b": [0, None] * 20}), "a", "b")
    several = compare(results_of({"a": [1, 0] * 20, "b": [0, 1, 1, 0] * 10}, repeats=2), "a", "b")
    unknown = [row(arm, f"t{task}", None if task % 3 else arm == "a", loop_round=2) for arm in "ab" for task in range(30)]
    missing = compare(results_from(unknown), "a", "b")
    assert {"Left out", "Loops", "Missing values at their worst"} <= {fact.name for fact in facts(missing)}
    for fact in (*facts(shown), *facts(several), *facts(missing)):
        name = {"Means": "mean", "Time": "time", "Tasks": "tasks"}.get(fact.name, fact.name).lower()
        name = name.removeprefix("missing values ")
        assert name.partition(",")[0].removesuffix("s") in section, fact.name
    assert all(name.lower() in section for name in RATIO_NAMES.values())


def test_drawing_of_pairs_matches_an_actual_comparison() -> None:
    drawing = COMPARISONS[COMPARISONS.index("## Pairs") : COMPARISONS.index("difference: the mean")]
    drawn = re.findall(r"^    (t\d) +(\w) +(\d) +([01?]) [a-z ]+? +([01?]) [a-z]+ +(left out|[-+]?\d)", drawing, re.MULTILINE)
    rows = [
        row(arm, task, None if value == "?" else value == "1", int(repeat), model=model, seed=int(repeat))
        for task, model, repeat, *values, _ in drawn
        for arm, value in zip("ab", values, strict=True)
    ]
    comparison = compare(results_from(rows), "a", "b")
    pairs = [f"{unit.a[0] - unit.b[0]:+g}" if unit.is_paired else "left out" for unit in comparison.units]
    assert pairs == ["+0" if pair == "0" else pair for *_, pair in drawn] and len(pairs) == 8
    means = [a - b for a, b in zip(*task_means(comparison.units), strict=True)]
    assert means == [float(mean) for mean in re.findall(r"t\d ([-+][.\d]+)", drawing)]


def test_page_runs_agents_and_executes_experiments() -> None:
    assert re.findall(r"\b[Rr]uns? (?:it|the experiment)\b", PAGES) == []
