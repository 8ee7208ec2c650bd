"""An experiment in a real JupyterLab: one box with its buttons, no cards of runs, and a readable comparison."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from contrast import COLOURS, faint
from PIL import Image
from test_reload_in_lab import RESTART
from waiting import wait_until

pytestmark = pytest.mark.browser
STORY = Path(__file__).with_name("story.py")
SETUP = """%load_ext agentnb
from story import *
from agentnb import compare

rows = [{"id": f"t{n}", "prompt": f"- Note {n} with `wait('{'first' if n < 5 else 'rest'}')`"} for n in range(20)]"""
EXPERIMENT = """%%experiment
tasks: rows
variants: {without: off, with: matrix}
models: simulated:chatty?p=0.5&heed=0.5
agent: {tools: [wait], max_rounds: 6}
primary: rounds < 5
places: 40"""


def test_table_fills_in_without_a_card_and_reads_as_text(lab: Any) -> None:
    shutil.copy(STORY, lab.folder)
    lab.share([SETUP, EXPERIMENT, "compare(results, 'with', 'without')"])
    lab.run_above(1)
    lab.start(1)
    table = lab.cell(1).locator(".agentnb-exp").first
    head = table.locator(".agentnb-exp-head")
    wait_until(lambda: "of 40 runs" in head.inner_text())
    table.get_by_text("Running").first.wait_for()
    lab.allow("first")
    wait_until(lambda: 0 < int(head.inner_text().split(" of 40")[0].split()[-1]) < 40)
    wait_until(lambda: table.locator("progress").get_attribute("max") == "40")
    lab.shots("experiment-running")
    table.get_by_role("button", name="Pause").click()
    table.get_by_text(re.compile(r"Pausing: \d+ runs? finish")).wait_for()
    lab.shots("experiment-pausing")
    table.get_by_role("button", name="Resume").click()
    table.get_by_text("hidden until the end").wait_for()
    lab.allow("rest")
    table.get_by_text("40 of 40 runs").wait_for()
    lab.wait_done(1)
    wait_until(lambda: lab.cell(1).locator(".agentnb-exp").count() == 2)  # the table, and the results
    wait_until(lambda: lab.cell(1).locator(".agentnb-card, .agentnb-run").count() == 0)
    wait_until(lambda: lab.cell(1).locator(".agentnb-exp button").count() == 0)
    lab.run(2)
    comparison = lab.cell(2).locator(".agentnb-exp")
    comparison.get_by_text("Minimum detectable effect").first.wait_for()
    wait_until(lambda: bool(comparison.locator("a").first.get_attribute("href")))
    lab.shots("experiment-compared")
    for theme in ("Light", "Dark"):
        lab.theme(theme)
        for place in (1, 2):
            shown = lab.cell(place).locator(".agentnb-exp").first
            wait_until(lambda shown=shown: faint(shown.evaluate(COLOURS)) == [])
    lab.theme("Light")


@pytest.mark.nightly("by day tests of the box and of its messages stop it without a browser")
def test_experiment_box_can_be_stopped_after_a_page_reload(lab: Any) -> None:
    shutil.copy(STORY, lab.folder)
    setup = SETUP.replace("'first'", "'later'").replace("'rest'", "'later'")
    lab.share([setup, EXPERIMENT.replace("%%experiment", "%%experiment --background"), EXPERIMENT])
    lab.run_above(1)
    box = lab.cell(1).locator(".agentnb-exp")
    lab.start(1)
    box.get_by_text("40 under way").wait_for()
    lab.save()
    lab.reload()
    box.get_by_role("button", name="Stop").click()
    box.get_by_text("40 runs are missing").wait_for()
    assert "widget-view" not in json.dumps(lab.outputs(1))
    blocking = lab.cell(2).locator(".agentnb-exp")
    lab.start(2)
    blocking.get_by_text("40 under way").wait_for()
    lab.save()
    lab.reload(wait=False)
    lab.allow("later")
    blocking.get_by_text("40 of 40 runs").first.wait_for()
    wait_until(lambda: "widget-view" not in json.dumps(lab.outputs(2)))


def test_experiment_box_reports_that_its_kernel_was_restarted(lab: Any) -> None:
    shutil.copy(STORY, lab.folder)
    lab.share([SETUP.replace("'first'", "'never'").replace("'rest'", "'never'"), EXPERIMENT])
    lab.run_above(1)
    box = lab.cell(1).locator(".agentnb-exp")
    lab.start(1)
    box.get_by_text("40 under way").wait_for()
    lab.page.evaluate(RESTART)
    box.get_by_text("The kernel ended").wait_for()
    wait_until(lambda: box.get_by_role("button").count() == 0 and "widget-view" not in json.dumps(lab.outputs(1)))
    lab.shot("experiment-lost")
    lab.page.evaluate("() => window.restarted")


@pytest.mark.nightly("by day a restarted kernel is reported")
def test_pressing_stop_with_a_stuck_kernel_shows_a_message(lab: Any) -> None:
    shutil.copy(STORY, lab.folder)
    lab.share([SETUP.replace("'first'", "'unstuck'").replace("'rest'", "'unstuck'"), EXPERIMENT])
    lab.run_above(1)
    kernel = int(lab.value("__import__('os').getpid()"))
    box = lab.cell(1).locator(".agentnb-exp")
    lab.start(1)
    box.get_by_text("40 under way").wait_for()
    os.kill(kernel, signal.SIGSTOP)
    box.get_by_role("button", name="Stop").click()
    box.get_by_text("The kernel is not responding. Interrupt it with Kernel → Interrupt").wait_for()
    os.kill(kernel, signal.SIGCONT)
    box.get_by_text("40 runs are missing").wait_for()
    wait_until(lambda: box.get_by_text("not responding").count() == 0)


def ground_level(figure: Any) -> int:
    """The lightness of a corner of the figure, from 0 to 255."""
    return int(Image.open(BytesIO(figure.screenshot())).convert("L").getpixel((3, 3)))


@pytest.mark.nightly("by day tests of figures read the dark colours")
def test_figure_uses_dark_colours_on_a_dark_page(lab: Any) -> None:
    lab.share(["from agentnb import load_trace, plots", "plots.timeline(load_trace('complex-fails'))"])
    lab.run_above(1)
    lab.run(1)
    figure = lab.cell(1).locator("img[alt^='Timeline of a run']")
    figure.wait_for()
    for theme, is_dark in (("Dark", True), ("Light", False)):
        lab.theme(theme)
        wait_until(lambda is_dark=is_dark: (ground_level(figure) < 60) == is_dark)
        lab.shot(f"figure-{theme.lower()}", figure)
    lab.save()
    lab.open_untrusted("shared.ipynb")
    lab.theme("Dark")
    wait_until(lambda: not lab.trusts(1) and ground_level(figure) < 60)
    lab.shot("figure-untrusted")
    lab.theme("Light")
