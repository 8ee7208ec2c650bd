"""The path of a new user, in a real JupyterLab."""

from __future__ import annotations

from typing import Any

import pytest
from waiting import wait_until

pytestmark = pytest.mark.browser

OWN = '''def count_letters(word: str) -> int:
    """Count the letters of a word.

    Args:
        word: any word
    """
    return len(word)'''


NAP = """%load_ext agentnb
import time
def nap(seconds: int) -> str:
    'Sleep.'
    time.sleep(seconds)
    return 'slept'"""


def test_quickstart_runs_with_a_custom_tool_and_cell(lab: Any) -> None:
    lab.open("01_quickstart.ipynb")
    lab.run_all()
    assert lab.errors() == []
    wait_until(lambda: lab.page.locator(".agentnb-run").count() >= 2)
    wait_until(lambda: lab.page.locator(".agentnb-answer").count() >= 1)
    wait_until(lambda: lab.page.locator(".jp-OutputArea img").count() >= 1)  # the plot that a tool drew
    lab.write_last(OWN)
    lab.start_active()
    lab.wait_idle()
    index = lab.write_last("%%agent -m simulated:disciplined -t count_letters\n- Count with `count_letters('penguin')`")
    lab.start_active()
    lab.cell(index).locator(".agentnb-answer").wait_for(timeout=60_000)
    wait_until(lambda: "count_letters: 7" in lab.cell(index).inner_text())


@pytest.mark.nightly("by day test_card_in_lab interrupts one")
def test_interrupt_ends_a_sync_tool_and_the_next_cell_works(lab: Any) -> None:
    lab.open("01_quickstart.ipynb")
    lab.write_last(NAP)
    lab.start_active()
    lab.wait_idle()
    index = lab.write_last("%%agent -m simulated:disciplined -t nap\n- `nap(600)`")
    lab.start_active()
    lab.cell(index).locator(".agentnb-chip", has_text="Running nap").wait_for(timeout=60_000)
    lab.command("notebook:interrupt-kernel")
    lab.cell(index).get_by_text("the run was stopped and its log closed").wait_for(timeout=60_000)
    wait_until(lambda: "Stopped by you" in lab.cell(index).inner_text())
    index = lab.write_last("%%agent -m simulated:disciplined\nhello")
    lab.start_active()
    lab.cell(index).get_by_text("not a language model").first.wait_for(timeout=60_000)
