"""``%%experiment`` in a real kernel: its bodies, its table and its commands."""

from __future__ import annotations

from typing import Any

import pytest
from asserted_sentences import Snapshot
from waiting import wait_until

SETUP = '''
import threading
from dataclasses import replace
from agentnb import Experiment, compare
from agentnb.notebook.experiments import progress_box

def note(text: str) -> str:
    """Note a text.

    Args:
        text: The text.
    """
    return f"noted {text}"

def called(run) -> bool:
    return any(one.records for one in run.rounds)

def stuck(run) -> bool:
    print("checking")
    while (run.tags or "here" in globals()) and not go.wait(0.001):
        pass
    return True

progress_box.PULSE = 0.1
go = threading.Event()

def held(text: str) -> str:
    """Note a text when the gate is open.

    Args:
        text: The text.
    """
    go.wait(60)
    return text

rows = [{"id": f"t{n}", "prompt": f"- Note {n} with `note(\\"{n}\\")`"} for n in range(6)]
held_rows = [{"id": f"t{n}", "prompt": f"- Hold {n} with `held(\\"{n}\\")`"} for n in range(6)]
'''
YAML = """
tasks: rows
variants:
  without: off
  with: {guidance: matrix}
models: simulated:disciplined
agent: {tools: [note], max_rounds: 4}
primary: called
folder: false
"""

HELD = YAML.replace("[note]", "[held]").replace("tasks: rows", "tasks: held_rows")


def tables(cell: Any) -> list[dict[str, str]]:
    """Return the states of the experiment's table, oldest first."""
    bundles = [one["data"] for one in cell.outputs if one["type"] in ("display_data", "update_display_data")]
    return [one for one in bundles if "agentnb-exp" in one.get("text/html", "")]


def wait_for(kernel: Any, line: str, told: str) -> str:
    """Run a line until it prints this; return its output."""
    found: list[str] = []
    wait_until(lambda: found.append(kernel.run(line).printed) is None and told in found[-1])
    return found[-1]


def background(kernel: Any, name: str = "found") -> None:
    """Start an experiment of 12 runs whose tool waits for a gate."""
    kernel.run("go.clear()")
    cell = kernel.run(f"%%experiment --background -o {name}\n{HELD}")
    assert cell.status == "ok", cell.error


def test_yaml_cell_uses_notebook_names_and_keeps_results(kernel: Any, snapshot: Snapshot) -> None:
    cell = kernel.run(f"%%experiment -o found --as exp\n{YAML}")
    assert cell.status == "ok", cell.error
    assert kernel.value("type(found).__name__, len(found.rows), type(exp).__name__") == "('Results', 12, 'Experiment')"
    experiment_id = kernel.value("exp.id")
    assert cell.result["text/plain"] == snapshot(ID=experiment_id)
    assert kernel.run("%agent status").printed.startswith(f"Experiment {experiment_id}: ended: 12 of 12 runs, $0\n")
    assert "agentnb-exp" in cell.result["text/html"]


def test_progress_table_replaces_cards_of_single_runs(kernel: Any, snapshot: Snapshot) -> None:
    cell = kernel.run(f"%%experiment\n{YAML}", attended=True)
    states = tables(cell)
    assert len([output for output in cell.outputs if output["type"] == "display_data"]) == 1 and len(states) >= 2
    assert states[0]["text/plain"] == snapshot("first", ID=kernel.value("results.plan.id"))
    assert states[-1]["text/plain"] == snapshot("last", ID=kernel.value("results.plan.id"))
    assert "Ended" in states[-1]["text/html"] and "<progress" in states[-1]["text/html"]


def test_experiment_at_the_end_of_a_python_cell_runs(kernel: Any) -> None:
    code = """
seen = "from the cell"

def in_cell(run) -> bool:
    return bool(run.text)

Experiment(rows, {"off": "off", "matrix": "matrix"}, "simulated:disciplined", primary=in_cell, checks=[called], folder=False)
"""
    cell = kernel.run(f"%%experiment\n{code}")
    assert cell.status == "ok", cell.error
    assert kernel.value("seen, results.primary, len(results.rows)") == "('from the cell', 'in_cell', 12)"


def test_body_without_an_experiment_is_refused(kernel: Any, snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    cases = {
        "empty": "",
        "a value": "3 + 4",
        "a statement": "x = 3",
        "problems of YAML": "tasks: rowz\nvariants:\n  a: off\n  b: {guidanc: matrix}\n",
        "an unknown set": "tasks: rows\nvariants: {a: off, b: matrx}\n",
        "problems of the experiment": YAML.replace("simulated:disciplined", "simulated:nobody"),
    }
    for name, body in cases.items():
        with subtests.test(name):
            cell = kernel.run(f"%%experiment\n{body}")
            assert (cell.status, cell.error, tables(cell)) == ("error", snapshot(name), [])
    assert "SyntaxError" in kernel.run("%%experiment\nthis is no code").error
    assert "ZeroDivisionError" in kernel.run("%%experiment\n1 / 0").error


def test_guidance_cell_writes_a_set_for_a_variant(kernel: Any) -> None:
    kernel.run("%%guidance short\nGo on.")
    cell = kernel.run(f"%%experiment --as exp --design\n{YAML.replace('{guidance: matrix}', 'short')}")
    assert cell.status == "ok", cell.error
    assert kernel.value("exp.variants['with'].name") == "short"
    named = kernel.run("Experiment(rows, ['short', 'off'], 'simulated:disciplined', folder=False).design()")
    assert named.status == "ok", named.error


def test_design_option_shows_the_design_without_running(kernel: Any) -> None:
    cell = kernel.run(f"%%experiment -o untouched --design\n{YAML}")
    assert cell.result["text/plain"].startswith("Design · 6 tasks x 2 variants = 12 runs")
    assert tables(cell) == [] and kernel.value("'untouched' in globals()") == "False"


def test_background_experiment_can_be_controlled_from_other_cells(kernel: Any, snapshot: Snapshot) -> None:
    background(kernel)
    experiment_id = kernel.value("found.id")
    assert wait_for(kernel, "%agent status", "8 running").splitlines()[0] == snapshot("status", ID=experiment_id)
    assert kernel.run("%agent pause").printed == snapshot("pause", ID=experiment_id)
    assert "paused: 0 of 12 runs" in kernel.run("%agent status").printed
    assert kernel.run("%agent resume").printed == snapshot("resume", ID=experiment_id)
    assert kernel.run(f"%agent stop {experiment_id[:5]}").printed == snapshot("stop", ID=experiment_id)
    kernel.run("go.set()")
    wait_until(lambda: kernel.value("type(found).__name__") == "Results")
    assert kernel.value("found.missing > 0, found.is_covered") == "(True, True)"
    assert "No live runs match" in kernel.run(f"%agent stop {experiment_id}").error


def test_stop_all_stops_experiments_and_runs(kernel: Any) -> None:
    background(kernel, "first")
    background(kernel, "second")
    stopped = kernel.run("%agent stop --all").printed
    assert stopped.count("Stopping experiment") == 2 and "Still live" not in stopped
    kernel.run("go.set()")
    wait_until(lambda: kernel.value("type(first).__name__, type(second).__name__") == "('Results', 'Results')")
    assert "Nothing is running" in kernel.run("%agent stop --all").error


def test_stop_without_id_stops_the_newest_and_names_others(kernel: Any) -> None:
    background(kernel, "first")
    background(kernel, "second")
    first = kernel.value("first.id")
    stopped = kernel.run("%agent stop").printed
    assert f"Still live: experiment {first}" in stopped
    kernel.run("go.set()")
    wait_until(lambda: kernel.value("type(first).__name__, type(second).__name__") == "('Results', 'Results')")
    assert kernel.value("len(first.rows), second.missing > 0") == "(12, True)"


@pytest.mark.slow("two ways to wait, each interrupted and run again")
def test_interrupt_stops_the_experiment_and_the_next_cell_continues(kernel: Any, subtests: pytest.Subtests) -> None:
    text = HELD.replace("folder: false", "folder: NAME")
    cells = {
        "the magic": "%%experiment --as exp\n" + text.replace("NAME", "one"),
        "awaited": "results = await exp.run()",
    }
    for name, cell in cells.items():
        with subtests.test(name):
            kernel.run(f"go.clear()\nif 'exp' in globals(): exp = replace(exp, folder={name!r})")
            cut = kernel.run(cell, lambda seen: any("8 running" in one["text/plain"] for one in tables(seen)))
            assert cut.status == "error" and tables(cut)[-1]["text/plain"].partition(": ")[2].startswith("stopped: ")
            assert "Stopped" in tables(cut)[-1]["text/html"]
            assert name != "the magic" or kernel.value("len(results.rows), results.plan.id == exp.id") == "(0, True)"
            kernel.run("go.set()")
            again = kernel.run(cell)
            assert again.status == "ok", again.error
            assert kernel.value("len(results.rows), results.missing") == "(12, 0)"


@pytest.mark.slow("three ways to wait for a check, each interrupted")
def test_interrupt_ends_a_check_that_never_returns(kernel: Any, subtests: pytest.Subtests) -> None:
    kernel.run("results = 'of another'")
    text = YAML.replace("primary: called", "primary: stuck")
    for name, cell in {
        "of a run, in the magic": f"%%experiment --as checked\n{text}",
        "of a run, awaited": "results = await checked.run()",
        "of the example": f"here = True\nget_ipython().run_cell_magic('experiment', '', {text!r})",
    }.items():
        with subtests.test(name):
            kernel.run("go.clear()")
            at = 1 if "example" in name else 2
            cut = kernel.run(cell, lambda seen, at=at: seen.printed.count("checking") >= at)
            assert cut.status == "error" and kernel.value("1 + 1") == "2"
            held = "results.plan.id == checked.id, len(results.rows), results.missing"
            assert kernel.value(held) == "(True, 0, 12)"
            kernel.run("go.set()")


def test_every_kind_of_experiment_view_is_displayed(kernel: Any) -> None:
    kernel.run(f"%%experiment --as exp\n{YAML}")
    kinds = {
        "results": "Results",
        "compare(results, 'with', 'without')": "'with' minus 'without'",
        "compare(results)": "'with' minus 'without'",
        "exp.design()": "Design",
        "await exp.pilot(2)": "Pilot",
    }
    for expression, expected in kinds.items():
        result = kernel.run(expression).result
        assert result["text/plain"].startswith(expected) and "agentnb-exp" in result["text/html"], expression
    assert "compare(results, 'with'" in kernel.run("results").result["text/plain"]
    assert "compare(RESULTS, 'with'" in kernel.run("exp.results()").result["text/plain"]
