"""``%%experiment`` in a real kernel: its bodies, its table, and how it is steered."""

from __future__ import annotations

from typing import Any

import pytest
from real_kernel import Kernel

SETUP = '''
from agentnb import Experiment, compare

def note(text: str) -> str:
    """Note a text.

    Args:
        text: The text.
    """
    return f"noted {text}"

def called(run) -> bool:
    return any(one.records for one in run.rounds)

rows = [{"id": f"t{n}", "prompt": f"- Note {n} with `note(\\"{n}\\")`"} for n in range(6)]
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


@pytest.fixture(scope="module", autouse=True)
def ready(kernel: Any) -> None:
    assert kernel.run(SETUP).status == "ok"


def tables(cell: Any) -> list[dict[str, str]]:
    bundles = [one["data"] for one in cell.outputs if one["type"] in ("display_data", "update_display_data")]
    return [one for one in bundles if "agentnb-exp" in one.get("text/html", "")]


def test_yaml_cell_runs_names_of_the_notebook_and_keeps_results(kernel: Any) -> None:
    cell = kernel.run(f"%%experiment -o found --as exp\n{YAML}")
    assert cell.status == "ok", cell.error
    print(cell.result["text/plain"])
    print([one["text/plain"] for one in tables(cell)])
    assert kernel.value("type(found).__name__, len(found.rows), type(exp).__name__") == "('Results', 12, 'Experiment')"
