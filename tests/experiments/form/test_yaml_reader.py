"""Experiments in YAML: names are looked up and never executed, and all problems are reported with their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb import Agent, GuidanceSet, Matrix, within
from agentnb.errors import ExperimentProblems
from agentnb.experiments.form.yaml_reader import KEYS, is_yaml_experiment, read_experiment
from agentnb.models.destinations.destination import FileModelName
from agentnb.models.scripted import ScriptedModel

MODEL = "simulated:disciplined"


def note(text: str) -> str:
    """Note a text."""
    return text


def called(run: Any) -> bool:
    return bool(run.rounds)


def make_task(seed: int) -> dict[str, str]:
    return {"prompt": f"- Note {seed}"}


def careful(call: Any, run: Any) -> None:
    """A gate."""


HERE: dict[str, Any] = {
    "rows": [{"id": "a", "prompt": "One"}, {"id": "b", "prompt": "Two"}],
    "note": note,
    "both": [note],
    "called": called,
    "make_task": make_task,
    "careful": careful,
    "gentle": GuidanceSet.from_markdown("gentle", "Go on, please."),
    "agent": Agent(MODEL),
    "strict": Matrix(workflow_mode=True),
    "mine": ScriptedModel(["Done."]),
    "_hidden": note,
}
LEAST = "tasks: rows\nvariants: {a: off, b: matrix}\n"


def read(text: str, **more: Any) -> Any:
    return read_experiment(text, HERE, **more)


def test_names_are_looked_up_according_to_their_key() -> None:
    exp = read(
        """
tasks: [make_task, {id: c, prompt: Three}]
variants:
  off: off
  mine: gentle
  policy: strict
  other: agent
  settings: {guidance: gentle, policy: minimal, tools: [both], gates: careful, prompt: "Please: {{ prompt }}"}
models: [mine, "simulated:chatty?p=0.5"]
agent: {tools: note, max_rounds: 4}
primary: called
checks: [answered, {within: {cost: 0.5, rounds: 3}}, "rounds < 4"]
repeats: 2
budget: 1.5
folder: false
seeds: independent
""",
    )
    assert exp.tasks == [make_task, {"id": "c", "prompt": "Three"}]
    assert exp.variants["mine"] is HERE["gentle"] and exp.variants["policy"] is HERE["strict"]
    assert exp.variants["other"] is HERE["agent"] and exp.variants["off"].name == "off"
    settings = exp.variants["settings"]
    assert settings["guidance"] is HERE["gentle"] and settings["tools"] == [note] and settings["gates"] == [careful]
    assert settings["prompt"] == "Please: {{ prompt }}" and settings["policy"] == "minimal"
    assert exp.models == [HERE["mine"], "simulated:chatty?p=0.5"]
    assert exp.agent == {"tools": [note], "max_rounds": 4}
    assert exp.primary is called and exp.checks == ["answered", within(cost=0.5, rounds=3), "rounds < 4"]
    assert (exp.repeats, exp.budget, exp.folder, exp.seeds) == (2, 1.5, False, "independent")


def test_minimal_experiment_needs_only_tasks_and_variants() -> None:
    exp = read(LEAST)
    assert exp.tasks is HERE["rows"] and [one.name for one in exp.variants.values()] == ["off", "matrix"]
    assert exp.models is None and exp.repeats == 1


def test_guidance_sets_of_the_session_can_be_named() -> None:
    sets = {"short": GuidanceSet.from_markdown("short", "Go on.")}
    exp = read("tasks: rows\nvariants: [off, short]\nagent: {guidance: short}\n", sets=sets)
    assert exp.variants["short"] is sets["short"] is exp.agent["guidance"]


def test_all_problems_are_listed_with_their_lines(snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    cases = {
        "names": """tasks: row
variants:
  a: matrx
  b: {guidence: matrix, tools: [notes], gates: carefull}
  c: {guidance: gentl}
primary: caled
agent: agnt
""",
        "keys": "variant: {a: off}\nrepeat: 3\n",
        "a private name": LEAST + "agent: {tools: _hidden2}\n",
        "no mapping": "- tasks",
        "a tag": "tasks: !!python/object/apply:os.system ['true']\nvariants: {a: off}\n",
        "no YAML": "tasks: [\nvariants: {a: off}\n",
        "a check of another kind": LEAST + "checks: [rows, {without: 3}, {within: {price: 3}}]\n",
        "tasks without traces": LEAST.replace("rows", "{id: a}"),
    }
    for name, text in cases.items():
        with subtests.test(name), pytest.raises(ExperimentProblems) as raised:
            read(text)
        assert str(raised.value) == snapshot(name)


def test_model_names_are_marked_as_untrusted_only_in_files(tmp_path: Path) -> None:
    text = LEAST + "models: ['openai:x?url=https://models.example.org', mine]\nagent: {model: 'simulated:planner'}\n"
    of_file, of_cell = read(text, path=tmp_path / "exp.yaml"), read(text)
    for name in (of_file.models[0], of_file.agent["model"]):
        assert isinstance(name, FileModelName) and name.folder == str(tmp_path)
    assert of_file.models[1] is HERE["mine"]
    assert not any(isinstance(name, FileModelName) for name in (*of_cell.models, of_cell.agent["model"]))


def test_yaml_is_distinguished_from_python(subtests: pytest.Subtests) -> None:
    cases = {
        LEAST: True,
        "variants: {a: off}": True,
        "tasks: rows\nvariant: {a: off}": True,
        "tasks: [\nvariants: x": True,
        "exp = Experiment(rows, {})\nexp": False,
        "Experiment(rows, {'a': 'off'})": False,
        "x: int = 3": False,
        "rows: list = []\nExperiment(rows, {})": False,
        "": False,
    }
    for text, is_yaml in cases.items():
        with subtests.test(text):
            assert is_yaml_experiment(text) is is_yaml


def test_yaml_keys_are_the_keywords_of_experiment() -> None:
    assert KEYS[:4] == ("tasks", "variants", "models", "repeats") and "executor" in KEYS and "_original" not in KEYS
