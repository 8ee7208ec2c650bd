"""``--approve`` of cells, in a real kernel."""

from __future__ import annotations

import re
from typing import Any

import pytest

SETUP = '''
done = []

def write(path: str) -> str:
    """Write a file."""
    done.append(path)
    return f"wrote {path}"
'''
AGENT = "%%agent -m simulated:disciplined -t write --approve {mode} {more}\n- first `write('a')`\n- second `write('b')`"
WORKFLOW = "%%workflow -t write --approve {mode} {more}\nworkflow:\n  - {{type: tool, name: write, args: {{path: a}}}}"


@pytest.fixture(autouse=True)
def ready(kernel: Any) -> None:
    assert kernel.run(SETUP).status == "ok"


def test_background_cell_in_ask_mode_is_answered_from_another_cell(kernel: Any, subtests: pytest.Subtests) -> None:
    for cell, done in {AGENT: "['a', 'b']", WORKFLOW: "['a']"}.items():
        with subtests.test(cell):
            kernel.run("done.clear()")
            assert kernel.run(cell.format(mode="ask", more="--background"), attended=True).status == "ok"
            kernel.wait_for("run.status == 'waiting_on_user'")
            status = kernel.run("%agent status").printed
            assert kernel.value("done") == "[]" and re.search(r"%agent answer \w+ always in session: write", status)
            assert "continues with your answer" in kernel.run("%agent answer always").printed
            kernel.wait_for("not run.should_continue")
            assert kernel.value("done") == done and kernel.value("len(run.questions)") == "1"


def test_read_only_cell_only_reads_and_unknown_modes_are_refused(kernel: Any, subtests: pytest.Subtests) -> None:
    for cell in (AGENT, WORKFLOW):
        with subtests.test(cell):
            kernel.run("done.clear()")
            kernel.run(cell.format(mode="read-only", more="--rule 'write = deny' --rule write=allow"))
            assert kernel.value("done, run.settings['approve']") == "([], 'read_only')"
            assert kernel.value("run.invocation.approve, run.invocation.rules") == "('read_only', ('write = deny',))"
            refused = kernel.run(cell.format(mode="asks", more=""))
            assert refused.status == "error" and "must be one of auto, ask, never, read_only, got 'asks'" in refused.error
