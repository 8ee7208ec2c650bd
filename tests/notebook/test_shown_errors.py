"""Errors of agentnb raised by Python code in a cell: the user's frames without internal ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from package_paths import OWN_FRAMES

SETUP = """
from agentnb import Agent, load_trace, tables
from agentnb.models import ScriptedModel
from agentnb.detect.run import Run

def mine(value):
    return load_trace(value)
"""


def shown(cell: Any) -> str:
    """Return the traceback without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", cell.error)


def test_error_for_the_person_has_no_frames_of_agentnb(kernel: Any, subtests: pytest.Subtests) -> None:
    for code, error in {
        "mine('complex-fail')": "StoreError: complex-fail cannot be read",
        "Agent('simulated:disciplined', tools=['f'])": "UnknownTool: tools= contains the string 'f'",
        "Agent(ScriptedModel([])).run_sync('Go.', store='nothing')": "SettingsError: store='nothing' is not a store",
        "await Agent('simulated:disciplined').run('')": "SettingsError: ",
    }.items():
        with subtests.test(code):
            cell = kernel.run(code)
            text = shown(cell)
            assert cell.status == "error" and error in text and OWN_FRAMES not in text
            assert code in text and ("return load_trace(value)" in text) == ("mine" in code)
            assert "During handling" not in text and "direct cause" not in text


def test_verbose_errors_show_all_frames(kernel: Any) -> None:
    kernel.run("%xmode Verbose")
    text = shown(kernel.run("mine('complex-fail')"))
    kernel.run("%xmode Context")
    assert f"{OWN_FRAMES}interchange/files.py" in text and "StoreError: complex-fail cannot be read" in text


def test_cause_in_user_code_is_kept(kernel: Any) -> None:
    code = "from agentnb import Workflow\ndef breaks() -> str:\n    'Breaks.'\n    raise KeyError('mine')\n"
    code += "Workflow.from_yaml('workflow: [{id: a, type: tool, name: breaks}]', tools=[breaks]).run_sync()"
    text = shown(kernel.run(code))
    assert "WorkflowError" in text and OWN_FRAMES not in text and "raise KeyError('mine')" in text


def test_bugs_in_agentnb_keep_their_frames(kernel: Any) -> None:
    text = shown(kernel.run("Run.from_events([1])"))
    assert "Run.from_events([1])" in text and OWN_FRAMES in text


def test_unloading_leaves_errors_to_ipython(kernel: Any) -> None:
    kernel.run("%unload_ext agentnb")
    assert f"{OWN_FRAMES}interchange/files.py" in shown(kernel.run("mine('complex-fail')"))
    kernel.run("%load_ext agentnb")


def test_run_variable_before_any_run_raises_a_clear_error(kernel: Any) -> None:
    cell = kernel.run("run")
    assert cell.status == "ok" and "No %%agent cell has run yet" in cell.printed
    kernel.run("run = 5")
    assert kernel.run("run").result["text/plain"] == "5"
    kernel.run("del run")
    assert "File" in kernel.run("run nothing.py").error + kernel.run("run nothing.py").printed
