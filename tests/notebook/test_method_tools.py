"""Methods and library functions as tools of cells and commands, but not of files."""

from __future__ import annotations

from typing import Any

import pytest
from asserted_sentences import Snapshot

SETUP = """
import json
import pandas as pd
from pathlib import Path
from agentnb import Experiment, ToolCall
from agentnb.models import ScriptedModel
sales = pd.DataFrame({"amount": [1, 2], "describe": [3, 4]})
Path("sales.csv").write_text("amount\\n7\\n")
def cut_off(run):
    'Leave of its log what was there after a round, as when the process dies then.'
    path = Path(f'.agentnb/runs/{run.id}.jsonl')
    lines = path.read_bytes().splitlines(keepends=True)
    end = next(place for place, line in enumerate(lines, 1) if line.startswith(b'{"kind":"round_finished"'))
    path.write_bytes(b''.join(lines[:end]))
def results(run):
    return [(one.is_error, one.text) for one in run.rounds[0].results]
"""
CALLS = (
    "model = ScriptedModel([[ToolCall('describe', {}), ToolCall('read_csv', {'filepath_or_buffer': 'sales.csv'})], 'Done.'])"
)


def test_cell_calls_methods_and_library_functions_without_asking(kernel: Any) -> None:
    kernel.run(CALLS)
    cell = kernel.run("%%agent -m model -t sales.describe pd.read_csv -p minimal -g off\nGo.")
    assert cell.status == "ok", cell.error
    assert kernel.value("[one[0] for one in results(run)]") == "[False, False]"
    assert "mean" in kernel.value("results(run)[0][1]") and "7" in kernel.value("results(run)[1][1]")


def test_tools_command_shows_why_library_parameters_are_missing(kernel: Any) -> None:
    printed = kernel.run("%agent tools sales.describe pd.read_csv").printed
    assert "Missing: include has no type hint: any value is accepted" in printed
    assert "Missing: converters is not offered to the model" in printed


def test_workflow_cell_accepts_methods_by_plain_name(kernel: Any) -> None:
    cell = kernel.run("%%workflow -t sales.describe\nworkflow:\n  - {id: a, type: tool, name: describe}")
    assert cell.status == "ok", cell.error
    assert kernel.value("run.status") == "completed"


def test_recovery_names_the_methods_as_they_were_typed(kernel: Any, snapshot: Snapshot) -> None:
    kernel.run(CALLS)
    kernel.run("%%agent -m model -t sales.describe pd.read_csv -p minimal -g off -o dead\nGo.")
    kernel.run("cut_off(dead)\nmodel = ScriptedModel(['Done.'])")
    run_id = kernel.value("dead.id")
    cell = kernel.run(f"%agent recover {run_id} -m model")
    assert cell.error == snapshot("defined", RUN=run_id)
    kernel.run("kept = sales; del sales")
    assert kernel.run(f"%agent recover {run_id} -m model").error == snapshot("undefined", RUN=run_id)
    kernel.run("sales = kept")
    cell = kernel.run(f"%agent recover {run_id} -m model -t sales.describe pd.read_csv -o dead")
    assert cell.status == "ok", cell.error
    assert kernel.value("dead.status") == "completed"
    kernel.run("model = ScriptedModel(['More.'])")
    printed = kernel.run("%%agent -m model --continue dead\nMore.").printed
    assert "-t sales.describe pd.read_csv" in printed


def test_workflow_files_and_texts_reject_dotted_names(kernel: Any, subtests: pytest.Subtests) -> None:
    for name, (cell, expected) in {
        "tool step": (
            "%%workflow -t sales.describe\nworkflow:\n  - {id: a, type: tool, name: sales.describe}",
            "there is no tool sales_describe. Did you mean describe?",
        ),
        "agent": (
            "%%workflow -t sales.describe\nagents:\n  a: {tools: [sales.describe]}\nworkflow:\n  - {type: agent, name: a}",
            "there is no tool sales_describe. Did you mean describe?",
        ),
        "task file": (
            "%%workflow -t sales.describe\nstage:\n  main:\n    look:\n      action: sales.describe",
            "there is neither an action sales.describe nor a tool sales_describe. Did you mean describe?",
        ),
        "experiment": (
            "%%experiment\ntasks: [{id: a, prompt: Go}]\nvariants: [off, matrix]\nagent: {tools: [sales.describe]}",
            "There is no tool 'sales.describe'",
        ),
    }.items():
        with subtests.test(name):
            done = kernel.run(cell)
            assert done.status == "error" and expected in done.error
