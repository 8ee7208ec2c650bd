"""The panel in a real JupyterLab: start runs without a cell, watch them, open older ones."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from waiting import wait_until

from agentnb.notebook.panel import MAX_LISTED_RUNS
from agentnb.tools.builtin.builtin_names import GROUPS

pytestmark = pytest.mark.browser

SETUP = """%load_ext agentnb
import time
from pathlib import Path
def add(a: int, b: int = 2) -> int:
    'Add two numbers.'
    return a + b
def nap(seconds: int) -> str:
    'Sleep.'
    time.sleep(seconds)
    return 'slept'
def hold() -> str:
    'Wait until the test allows it.'
    while not Path('panel-stopped').exists():
        time.sleep(0.01)
    return 'held'"""
OLDER = "%%agent -m simulated:disciplined -t add\nthe older one\n- `add(40)`"
PANEL = "import agentnb\nagentnb.panel()"
FOCUSED = """() => {
    const focused = document.activeElement;
    return focused.dataset.run ? 'run' : focused.labels?.[0]?.innerText || focused.innerText;
}"""
"""Describe the focused element in words."""
KEY = "sk-ant-" + "abc123" * 6


def opened(lab: Any, *cells: str) -> Any:
    """Open a notebook with the panel; return its form."""
    lab.open(lab.write("panel.ipynb", [SETUP, *cells, PANEL]))
    lab.run_all()
    form = lab.page.get_by_role("region", name="Start a run")
    form.wait_for()
    return form


def runs(lab: Any) -> Any:
    return lab.page.get_by_role("region", name="Runs").locator("[data-run]")


def until(lab: Any, element: Any, text: str) -> None:
    element.filter(has_text=text).first.wait_for()


def is_clean(lab: Any) -> None:
    """Check for errors of cells or page, tracebacks, keys and sideways scrolling."""
    assert lab.errors() == [] and lab.complaints() == []
    shown = lab.page.locator(".agentnb-panel-whole")
    wait_until(lambda: "Traceback" not in shown.inner_text() and KEY not in shown.inner_text())
    parts = "[one, ...one.querySelectorAll('.agentnb-panel-part, .agentnb-runs-line')]"
    wide = f"one => {parts}.every(part => part.scrollWidth <= part.clientWidth)"
    wait_until(lambda: lab.page.locator(".agentnb-panel-whole").evaluate(wide))


def test_panel_starts_and_watches_a_run_and_opens_older_ones(lab: Any) -> None:
    form = opened(lab, OLDER)
    form.get_by_label("Prompt").click()
    lab.page.keyboard.type("- Add with `add(1)`")  # typed at machine speed and started at once: nothing typed is missing
    form.get_by_role("checkbox", name="add").check()
    form.get_by_label("Model").fill("simulated:disciplined")
    form.get_by_label("Prompt").focus()
    lab.page.keyboard.type(" once")
    lab.page.keyboard.press("Control+Enter")
    page = lab.page.get_by_role("region", name="Run", exact=True)
    until(lab, page, "add: 3")
    until(lab, runs(lab).nth(0), "Done")
    wait_until(lambda: "`add(1)` once" in runs(lab).nth(0).inner_text() and "the older one" in runs(lab).nth(1).inner_text())
    wait_until(lambda: form.get_by_label("Prompt").input_value() == "- Add with `add(1)` once")
    assert lab.value("run.prompt") == "'- Add with `add(1)` once'"
    runs(lab).nth(1).click()
    until(lab, page, "add: 42")
    wait_until(
        lambda: (
            runs(lab).nth(1).get_attribute("aria-current") == "true" and runs(lab).nth(0).get_attribute("aria-current") is None
        )
    )
    lab.shot("panel-light-1400")
    is_clean(lab)


def test_panel_starts_and_stops_runs_while_the_kernel_is_busy(lab: Any) -> None:
    form = opened(lab)
    busy = lab.write_last("while 'run' not in globals():\n    time.sleep(0.05)\nrun.status")
    lab.start(busy)
    lab.page.wait_for_function(f"() => {lab_kernel()}.status === 'busy'")
    form.get_by_label("Prompt").fill("- `hold()`\n- `nap(600)`")
    form.get_by_label("Model").fill("simulated:disciplined")
    for name in ("hold", "nap"):
        form.get_by_role("checkbox", name=name).check()
    form.get_by_role("button", name="Start").click()
    card = lab.page.get_by_role("region", name="Agent run")
    card.get_by_role("button", name="Stop").click()
    lab.allow("panel-stopped")
    until(lab, lab.page.get_by_role("region", name="Run", exact=True), "Stopped by you")
    until(lab, runs(lab).nth(0), "Stopped by you")
    lab.wait_done(busy)
    wait_until(lambda: "cancelled" in lab.output(busy).inner_text())
    is_clean(lab)


@pytest.mark.nightly("by day a form shows errors at its fields")
def test_form_error_is_beside_the_button_and_keeps_the_input(lab: Any) -> None:
    form = opened(lab)
    before = runs(lab).count()
    form.get_by_label("Prompt").fill("Say hello")
    form.get_by_label("Model").fill(f"anthropic:{KEY}")
    form.get_by_role("button", name="Start").click()
    alert = form.get_by_role("alert")
    alert.filter(has_text="key").wait_for()
    wait_until(lambda: KEY not in alert.inner_text() and "\n" not in alert.inner_text())
    form.get_by_label("Model").fill("no_such_variable")
    form.get_by_role("button", name="Start").click()
    alert.filter(has_text="The variable no_such_variable is not defined").wait_for()
    wait_until(lambda: form.get_by_label("Prompt").input_value() == "Say hello" and runs(lab).count() == before)
    form.get_by_label("Model").fill("")
    form.get_by_role("button", name="Start").click()
    until(lab, runs(lab).nth(0), "Say hello")
    until(lab, lab.page.get_by_role("region", name="Run", exact=True), "Done")
    wait_until(lambda: alert.inner_text() == "" and runs(lab).count() == min(before + 1, MAX_LISTED_RUNS))
    is_clean(lab)


@pytest.mark.nightly("by day tests of the panel send its input")
def test_reloaded_page_keeps_input_and_offers_new_functions(lab: Any) -> None:
    form = opened(lab)
    form.get_by_label("Prompt").fill("half a thought")
    form.get_by_role("checkbox", name="nap").check()
    lab.page.wait_for_timeout(1_000)
    lab.save()
    lab.reload()
    form = lab.page.get_by_role("region", name="Start a run")
    form.wait_for()
    wait_until(lambda: form.get_by_label("Prompt").input_value() == "half a thought")
    wait_until(lambda: form.get_by_role("checkbox", name="nap").is_checked())
    defined = lab.write_last("def later() -> int:\n    'Defined later.'\n    return 1")
    lab.run(defined)
    form.get_by_label("Prompt").focus()
    form.get_by_role("checkbox", name="later").wait_for()
    wait_until(lambda: form.get_by_role("checkbox", name="nap").is_checked())


def test_panel_is_usable_by_keyboard_and_at_any_width(lab: Any) -> None:
    form = opened(lab, OLDER)
    form.get_by_label("Prompt").focus()
    names = []
    for _ in range(9 + len(GROUPS)):
        lab.page.keyboard.press("Tab")
        names.append(lab.page.evaluate(FOCUSED))
    in_order = ["Model", "Guidance", "add", "nap", "hold", *GROUPS, "Start", "Refresh", "run"]
    assert [name.strip() for name in names[: len(in_order)]] == in_order
    runs(lab).nth(0).focus()
    lab.page.keyboard.press("Enter")
    until(lab, lab.page.get_by_role("region", name="Run", exact=True), "add: 42")
    listed, started = (lab.page.get_by_role("region", name=name) for name in ("Runs", "Start a run"))
    wait_until(lambda: listed.bounding_box()["x"] > started.bounding_box()["x"] + started.bounding_box()["width"])
    for theme in ("Light", "Dark"):
        lab.theme(theme)
        for width in (700, 1400):
            lab.width(width)
            lab.shot(f"panel-{theme.lower()}-{width}")
            is_clean(lab)
    lab.width(700)
    wait_until(lambda: listed.bounding_box()["x"] == started.bounding_box()["x"])


@pytest.mark.nightly("by day tests of the saved panel read the hint")
def test_notebook_shows_a_hint_and_the_run_without_kernel(lab: Any) -> None:
    form = opened(lab)
    form.get_by_label("Prompt").fill("- `nap(600)`")
    form.get_by_label("Model").fill("simulated:disciplined")
    form.get_by_role("checkbox", name="nap").check()
    form.get_by_role("button", name="Start").click()
    until(lab, lab.page.get_by_role("region", name="Agent run"), "Running nap")
    os.kill(int(lab.value("__import__('os').getpid()")), signal.SIGKILL)
    lab.page.locator(".jp-Dialog button", has_text="Ok").click()
    until(lab, lab.output(1), "run this cell to show it again")
    until(lab, lab.output(1).locator(".agentnb-run"), "The kernel was restarted or died.")
    lab.wait_idle()
    lab.save()
    (output,) = lab.stored("panel.ipynb")["cells"][1]["outputs"]
    assert (output["output_type"], set(output["data"])) == ("execute_result", {"text/html", "text/plain"})
    assert output["execution_count"] == 2
    assert lab.complaints() == []


def lab_kernel() -> str:
    return "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
