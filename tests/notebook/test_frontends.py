"""Frontends other than JupyterLab: plain IPython, nbconvert, papermill."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

TOOL = 'def add(a: int, b: int = 2) -> int:\n    """Add."""\n    return a + b\n'
CELL = "%%agent -m simulated:disciplined -t add\n- first `add(1)`\n"


def executed(folder: Path, *cells: str) -> Any:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3", timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


@pytest.mark.slow("starts IPython")
def test_plain_ipython_prints_lines(tmp_path: Path) -> None:
    code = f"get_ipython().run_line_magic('load_ext', 'agentnb')\n{TOOL}get_ipython().run_cell({CELL!r})\n"
    (tmp_path / "script.py").write_text(code)
    command = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", "script.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    assert "Step 1 of 1: first add(1)." in lines
    assert any("add(a=1)  ✓ ok" in line for line in lines)
    assert any(line.startswith("Done, not checked: 4 rounds, 1 tool call and 3 todo updates, 1 of 1 todo") for line in lines)
    assert "<div" not in done.stdout and "\x1b" not in done.stdout.replace("\x1b[22;0t", "").replace("\x1b]0;", "")


def test_executed_notebook_contains_the_run_as_text_and_html(tmp_path: Path) -> None:
    notebook = executed(tmp_path, "%load_ext agentnb", TOOL, CELL)
    (shown,) = notebook.cells[2].outputs  # the answer is in it, and not displayed a second time
    assert shown.output_type == "display_data"
    assert shown.data["text/plain"].startswith("Done, not checked: 4 rounds, 1 tool call and 3 todo updates, 1 of 1 todo")
    assert "agentnb-run" in shown.data["text/html"]
    assert "add: 3" in shown.data["text/plain"]
    assert not any("widget" in mime for output in notebook.cells[2].outputs for mime in output.get("data", {}))


def test_run_all_stops_at_a_failing_cell(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError) as caught:
        executed(tmp_path, "%load_ext agentnb", "%%agent -t nothing\nDo it.", "open('reached', 'w')")
    assert "UnknownTool: There is no tool 'nothing'" in str(caught.value)
    assert not (tmp_path / "reached").exists()
