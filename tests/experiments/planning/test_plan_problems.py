"""Plans that are refused before anything runs, with all problems at once."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from small_experiments import CHATTY, check_line, rows, small, was_called

from agentnb import Agent, Experiment, Workflow
from agentnb.errors import ExperimentProblems, SettingsError
from agentnb.experiments.planning.experiment_tasks import fill_in
from agentnb.models.scripted import ScriptedModel


def problems(experiment: Experiment) -> tuple[str, ...]:
    with pytest.raises(ExperimentProblems) as refused:
        experiment.check()
    return refused.value.problems


def reads_area(run: Any, row: Any) -> bool:
    return bool(row["area"])


def endless(run: Any) -> bool:
    while True:
        pass


class Unpriced:
    name = "own:unpriced"

    async def stream(self, request: Any) -> Any:
        yield


def columns(**lacking: str) -> list[dict[str, Any]]:
    """Return 8 tasks; t2 and later lack a column."""
    return [{**row, **(lacking if place < 2 else {})} for place, row in enumerate(rows(8))]


def raises(run: Any) -> bool:
    raise ValueError("no such thing")


def test_each_problem_is_refused_with_advice(subtests: pytest.Subtests, snapshot: Any) -> None:
    same = {"a": "matrix", "b": {"guidance": "matrix"}}
    flow = Workflow.from_yaml("workflow:\n  - type: tool\n    name: check_line\n    args: {name: a}\n", tools=[check_line])
    cases: dict[str, Experiment] = {
        "no tasks": Experiment([], {"a": "off"}, models=[CHATTY]),
        "two tasks of one id": Experiment([*rows(2), *rows(1)], {"a": "off"}, models=[CHATTY]),
        "a row without an id": Experiment([{"prompt": "Go"}], {"a": "off"}, models=[CHATTY]),
        "a row without a prompt": Experiment([{"id": "x"}], {"a": "off"}, models=[CHATTY]),
        "a column that the row lacks": Experiment([{"id": "x", "prompt": "See {{ area }}"}], {"a": "off"}, models=[CHATTY]),
        "a column that the template names": small(2, {"a": {"prompt": "{{ tone }} {{ prompt }}"}}),
        "a column that a check reads": small(2, checks=[reads_area]),
        "a column that later rows lack": Experiment(columns(area="north"), {"a": "off"}, models=[CHATTY], checks=[reads_area]),
        "a template's column that later rows lack": Experiment(
            columns(tone="Kindly"), {"a": {"prompt": "{{tone}}: {{\tprompt }}"}}, models=[CHATTY]
        ),
        "a check that never returns": small(2, checks=[endless], check_seconds=0.25),
        "five thousand rows without an id": Experiment(pd.DataFrame({"prompt": ["Go"] * 5_000}), {"a": "off"}, models=[CHATTY]),
        "a path for tasks": Experiment("runs", {"a": "off"}, models=[CHATTY]),
        "a task function that fails": Experiment([lambda seed: {}[seed]], {"a": "off"}, models=[CHATTY]),
        "no variants": Experiment(rows(1), {}, models=[CHATTY]),
        "equal variants": small(2, same),
        "an unknown set": small(2, {"a": "matrx"}),
        "an unknown setting": small(2, {"a": {"polcy": "minimal"}}),
        "no variant at all": small(2, {"a": 5}),
        "an unknown primary": small(2, primary="anwered"),
        "a primary with a swapped sign": small(2, primary="rounds =< 5"),
        "a check that raises": small(2, checks=[raises]),
        "an expectation of nothing": small(2, checks=["lops == 0"]),
        "a budget without a price": small(2, models=[Unpriced()], budget=1.0),
        "an unknown model": small(2, models=["simulated:nobody"]),
        "a missing key": small(2, models=["anthropic:m"]),
        "no model": Experiment(rows(1), {"a": "off"}),
        "a repeat that is none": small(
            2, repeats=0, places=0, seed="x", seeds="other", executor="cloud", budget=-1, check_seconds=None
        ),
        "a workflow for recorded runs": Experiment({"traces": "healthy", "at_round": 2}, {"w": flow}, models=[CHATTY]),
        "a setting that a fork keeps": Experiment(
            {"traces": "healthy", "at_round": 2}, {"w": {"system": "Be"}}, models=[CHATTY], agent={"model": CHATTY}
        ),
        "a round that is not there": Experiment({"traces": "healthy", "at_round": 99}, {"a": "off"}, models=[CHATTY]),
    }
    for name, experiment in cases.items():
        with subtests.test(name):
            assert list(problems(experiment)) == snapshot(name)


def test_column_missing_from_all_rows_is_one_problem() -> None:
    frame = pd.DataFrame({"prompt": ["Go"] * 5_002, "area": ["north", None] * 2_501})
    found = [*problems(Experiment(frame, {"a": "off"}, models=[CHATTY]))]
    assert len(found) == 1 and "4,997 more: the row has no column id" in found[0]


def test_all_problems_are_reported_at_once() -> None:
    found = problems(Experiment([*rows(1), *rows(1)], {"a": "off", "b": "off"}, models=[CHATTY], primary="nothing"))
    assert len(found) == 3


def test_plan_problems_are_reported_before_any_model_call() -> None:
    model = ScriptedModel(["never"], repeat=True)
    experiment = Experiment([*rows(1), *rows(1)], {"a": "off"}, models=[model], folder=False)
    with pytest.raises(ExperimentProblems):
        experiment.run_sync(show=False)
    assert model.requests == []


def test_equal_variants_are_allowed_in_an_aa_experiment() -> None:
    results = small(2, {"a": "matrix", "b": {"guidance": "matrix"}}, aa=True).run_sync(show=False)
    assert len(results.rows) == 4


def test_variants_may_differ_only_in_their_permission_rules() -> None:
    agent = {"tools": [check_line]}
    variants: dict[str, Any] = {"free": {}, "asks": {"permissions": {"check_line": "ask"}}}
    variants["denied"] = {"permissions": {"check_line": "deny"}}
    Experiment(rows(2), variants, models=[CHATTY], agent=agent).check()
    twice = {"a": variants["denied"], "b": dict(variants["denied"])}
    assert problems(Experiment(rows(2), twice, models=[CHATTY], agent=agent))


def test_tasks_may_be_data_frames_lists_or_functions() -> None:
    def drawn(seed: int) -> dict[str, Any]:
        return {"prompt": f"- Check `check_line('{seed}')`", "number": seed}

    frame = pd.DataFrame([{"id": 1, "prompt": "See {{ area }}", "area": "north", "cluster": "a"}, {"id": 2, "prompt": "Go"}])
    tasks = Experiment(frame, {"a": "off"}, models=[CHATTY])._read.tasks
    assert [(task.id, task.cluster) for task in tasks] == [("1", "a"), ("2", "")] and "area" not in tasks[1].row
    experiment = Experiment([drawn], {"a": Agent(CHATTY, tools=[check_line])}, repeats=2, primary=was_called, folder=False)
    seeds = {row.seed for row in experiment.run_sync(show=False).rows}
    assert len(seeds) == 2


def test_columns_are_substituted_and_other_braces_are_unchanged() -> None:
    row = {"city": "Kiel", "home city": "Bonn", "text": "{{ city }}", "a.b": "dot"}
    spellings = ("{{city}}", "{{ city }}", "{{  city\t}}", "{{\ncity}}", "{{city\u00a0}}")
    assert [fill_in(text, row) for text in spellings] == ["Kiel"] * len(spellings)
    assert fill_in("{{home city}} {{text}} {{a.b}}", row) == "Bonn {{ city }} dot"
    assert fill_in("{{ user.name }} {{}} {{#if x}} { city }", row) == "{{ user.name }} {{}} {{#if x}} { city }"
    for lacking in (row, {"cities": None}, {"cities": float("nan")}):
        with pytest.raises(SettingsError, match=r"uses \{\{ cities \}\}"):
            fill_in("{{cities}}", lacking)
