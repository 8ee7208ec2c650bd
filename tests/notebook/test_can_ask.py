"""Availability of a person during a cell, and runs without one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient

from agentnb.notebook import frontend as module
from agentnb.notebook.frontend import can_ask

ASKS = """
from agentnb import ToolCall, ask_person
from agentnb.models import ScriptedModel

model = ScriptedModel([ToolCall("ask_person", {"question": "Which?"}), lambda request: request.messages[-1].parts[0].text])
"""


@pytest.mark.parametrize(
    ("stdin", "blocks", "hears", "can"),
    [
        (True, True, True, True),
        (True, True, False, False),
        (True, False, False, True),
        (False, True, True, False),
        (False, False, True, False),
    ],
)
def test_kernel_can_ask_only_if_it_can_receive_answers(
    stdin: bool, blocks: bool, hears: bool, can: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HEARS_WHILE_BUSY", hears)
    shell = SimpleNamespace(kernel=SimpleNamespace(_allow_stdin=stdin))
    assert can_ask(shell, blocks=blocks) is can


@pytest.mark.parametrize("blocks", [True, False])
def test_terminal_can_ask_only_when_not_blocking(blocks: bool) -> None:
    assert can_ask(SimpleNamespace(), blocks=blocks) is not blocks


@pytest.mark.req("KX.5")
@pytest.mark.parametrize("options", ["", " --background"])
def test_model_in_an_unattended_notebook_learns_that_nobody_answers(tmp_path: Path, options: str) -> None:
    wait = "import time\nwhile run.should_continue:\n    time.sleep(0.01)\nprint(run.text)"
    sources = ["%load_ext agentnb", ASKS, f"%%agent -m model -t ask_person{options}\nGo.", wait]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, kernel_name="python3", timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert "No person is attached" in notebook.cells[-1].outputs[0].text
