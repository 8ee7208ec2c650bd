"""Source code of a report: it makes the same table again."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judges import judge_of_calls
from markdown_it import MarkdownIt
from small_experiments import check_line, rows

from agentnb import Agent, Experiment, GuidanceSet, RandomGuidance, within
from agentnb.detect.run import Run
from agentnb.examples import path as example
from agentnb.experiments.form.yaml_reader import read_experiment
from agentnb.experiments.results.experiment_results import Results
from agentnb.interchange.files import load_trace

PERSONA = "simulated:chatty?p=0.5&heed=0.5"
CELL = """
tasks: rows  # six
variants: {without: "off", with: matrix}
models: simulated:chatty
agent: {tools: check_line}
folder: false
"""
LEAST = 2
pytestmark = pytest.mark.usefixtures("unpainted")
COLUMNS = ["task", "variant", "model", "repeat", "seed", "status", "rounds", "tokens"]


def code_in(path: Path) -> list[str]:
    return [token.content for token in MarkdownIt().parse(path.read_text("utf-8")) if token.type == "fence"]


def table(results: Results) -> Any:
    return results.table()[COLUMNS].sort_values(COLUMNS[:4]).reset_index(drop=True)


def test_report_code_reproduces_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variants = {
        "own": GuidanceSet("own", {"text": "Call the tool."}),
        "agent": Agent(PERSONA, tools=[check_line], max_rounds=3),
    }
    experiment = Experiment(
        rows(6),
        variants,
        models=[PERSONA],
        agent={"tools": [check_line], "max_rounds": 4},
        checks=[within(rounds=3), "rounds < 4"],
        seed=3,
        repeats=2,
        folder=False,
    )
    results = experiment.run_sync(show=False)
    (code,) = code_in(results.report(tmp_path / "paper.md"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    again = names["exp"].run_sync(show=False)
    assert table(again).equals(table(results))
    assert set(again.table().columns) == set(results.table().columns)


def test_report_code_recreates_judges_and_random_guidance(tmp_path: Path) -> None:
    judge, model = judge_of_calls()
    variants = {"off": "off", "drawn": RandomGuidance({"off": 0.25, GuidanceSet("own", {"text": "Call it."}): 0.75})}
    experiment = Experiment(rows(6), {name: {"guidance": given} for name, given in variants.items()}, PERSONA, primary=judge)
    results = replace(experiment, agent={"tools": [check_line]}, folder=False).run_sync(show=False)
    text = results.report(tmp_path / "paper.md").read_text("utf-8").replace("\\", "")
    (code,) = code_in(tmp_path / "paper.md")
    given = ast.parse(code).body[-1].value.keywords  # type: ignore[attr-defined]  # an assignment of a call
    code_of = {one.arg: ast.unparse(one.value) for one in given}
    assert code_of["primary"] == f"Judge(model={model.name!r}, rubric={judge.rubric!r}, name='judge')"
    assert f"judge is a verdict of the model {model.name}." in text and "| Judging | $0 |" in text
    names: dict[str, Any] = {}
    exec(code.partition("\n\n")[0], names)
    exec("from agentnb import GuidanceSet, RandomGuidance", names)
    assert eval(code_of["variants"], names) == {name: {"guidance": given} for name, given in variants.items()}
    assert "drawn by run among off (0.25), own (0.75)" in text


def test_report_code_defines_values_used_by_its_functions(tmp_path: Path) -> None:
    least = 3

    def is_long(run: Run) -> bool:
        return max(least, LEAST) < len(run.text) and json.dumps(run.id) != "" and ast is not None

    results = Experiment(rows(6), {"a": "off"}, PERSONA, primary=is_long, folder=False).run_sync(show=False)
    (code,) = code_in(path := results.report(tmp_path / "paper.md"))
    names: dict[str, Any] = {"ast": ast}
    exec(code.partition("exp = ")[0], names)
    run = load_trace(example("healthy"))
    assert (names["least"], names["LEAST"], names["is_long"](run)) == (least, LEAST, is_long(run))
    assert "Define first, as in the notebook or module of the experiment: ast." in path.read_text("utf-8")


def test_report_contains_the_yaml_cell_verbatim(tmp_path: Path) -> None:
    text = CELL.strip()
    results = read_experiment(text, {"rows": rows(6), "check_line": check_line}).run_sync(show=False)
    cell, definitions = code_in(results.report(tmp_path / "paper.md"))
    assert cell == f"%%experiment\n{text}\n"
    assert "def check_line(name: str) -> str:" in definitions


def test_names_the_report_code_cannot_define_are_listed(tmp_path: Path) -> None:
    class Own:
        name = "own:model"

        async def stream(self, request: Any) -> Any:
            raise RuntimeError("no luck")
            yield

    tasks = [*rows(6)]
    results = Experiment(tasks, {"a": {"model": Own()}, "b": {"model": PERSONA}}, folder=False).run_sync(show=False)
    text = results.report(tmp_path / "paper.md").read_text("utf-8")
    assert "Define first, as in the notebook or module of the experiment: the model own:model" in text
