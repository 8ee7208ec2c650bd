"""The live box of an experiment, in a real kernel: its buttons are heard while its cell blocks, and none is saved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pretend_browser import Browser
from test_experiment_cell import HELD, SETUP

pytestmark = pytest.mark.slow("a real kernel")


@pytest.fixture
def browser(kernel: Any) -> Iterator[Browser]:
    """A browser that listens, beside a kernel with the held tasks."""
    kernel.run(SETUP)
    browser = Browser(kernel)
    yield browser
    browser.close()


def press(browser: Browser, action: str) -> None:
    """Press a button until it is heard."""
    browser.said.clear()
    browser.insist({"do": action}, lambda: {"heard": action} in browser.said)


def shows(browser: Browser, part: str, words: str) -> None:
    """Wait until a part of the box has these words."""
    browser.until(lambda: any(words in state.get("frame", {}).get("parts", {}).get(part, "") for state in browser.states))


def test_buttons_work_while_the_cell_blocks(browser: Browser) -> None:
    request = browser.start_card(f"%%experiment -o found\n{HELD}")
    press(browser, "hello")
    shows(browser, "progress", "8 under way")
    assert "application/vnd.jupyter.widget-view+json" in browser.shown[-1] and "<button" not in browser.shown[-1]["text/html"]
    press(browser, "pause")
    shows(browser, "note", "Pausing: 8 runs finish first.")
    shows(browser, "controls", 'data-do="resume"')
    press(browser, "resume")
    browser.states.clear()
    shows(browser, "controls", 'data-do="pause"')
    press(browser, "stop")
    shows(browser, "progress", "Stopping")
    browser.run_beside("go.set()")
    browser.until(lambda: request in browser.ended)
    kept = [bundle for bundle in browser.shown if "Stopped" in bundle.get("text/html", "")][-1]
    assert "application/vnd.jupyter.widget-view+json" not in kept and "<button" not in kept["text/html"]
    assert "The results are in" in kept["text/html"] and kept["text/plain"].endswith("The results are in found")
    assert browser.states[-1]["frame"]["over"] is True
