"""The classic Notebook 7, a separate application from JupyterLab: cards, saved runs and the trace browser.

All tests that need it are in this file, so that only one worker starts it.
"""

from __future__ import annotations

from typing import Any

import pytest
from test_browser_of_traces import EXAMPLE, is_clean, until
from test_browser_of_traces import opened as traces_opened
from test_card_in_lab import GO, NAP, card, chip, ended, opened
from test_grounds import BLOCK, PROTOTYPE, click_stop
from test_reload_in_lab import kept, reopened, replies
from waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.nightly("by day in JupyterLab")]


def test_click_reaches_the_kernel_while_a_cell_blocks(classic: Any, kernels: Any) -> None:
    classic.open(classic.write("classic.ipynb", [PROTOTYPE, BLOCK], kernels("7.4.0")))
    classic.run(0)
    classic.start(1)
    click_stop(classic)
    classic.wait_done(1)
    wait_until(lambda: "heard" in classic.output(1).inner_text())
    assert classic.complaints() == []


def test_card_works_as_in_jupyterlab(classic: Any) -> None:
    index = opened(classic, "classic-card", NAP, GO)
    classic.start(index)
    chip(classic, index, "Running nap")
    card(classic, index).get_by_role("button", name="Stop").click()
    ended(classic, index, "Stopped by you")
    classic.wait_done(index)
    assert classic.value("run.status") == "'cancelled'"
    assert classic.complaints() == []


def test_run_that_spans_a_page_reload_is_saved_completely(classic: Any) -> None:
    index = opened(classic, "classic-reloaded", replies("hold", "classic"), GO)
    classic.start(index)
    chip(classic, index, "Running hold")
    classic.save()
    classic.reload(wait=False)
    classic.allow("classic")
    kept(classic, index)
    (run,) = reopened(classic, "classic-reloaded.ipynb", index)
    wait_until(lambda: "Done" in str(run.locator(".agentnb-chip").text_content()) and "Second." in run.text_content())
    assert classic.complaints() == []


def test_trace_browser_works_as_in_jupyterlab(classic: Any) -> None:
    live = traces_opened(classic, EXAMPLE)
    live.get_by_role("button", name="Next round").click()
    until(live.locator("[data-at]"), "Round 1 of 7")
    is_clean(classic)
