"""What the browser says to a card leaves the cell that runs alone: its hooks, and the figure that a tool is drawing."""

from __future__ import annotations

from typing import Any

import pytest
from pretend_browser import Browser

from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY

DRAWS = """
import time
from pathlib import Path
import matplotlib.pyplot as plt
fired = []
get_ipython().events.register("post_execute", lambda: fired.append(1))

def draw() -> str:
    'Draw, until the browser has spoken.'
    fired.clear()
    plt.plot([1, 2, 3])
    while not Path("spoken").exists():
        time.sleep(0.01)
    plt.title("still the same figure")
    return f"{len(plt.get_fignums())} figure, {len(plt.gca().lines)} line, hooks fired {len(fired)} times"
"""


@pytest.mark.skipif(not HEARS_WHILE_BUSY, reason="ipykernel 6 hears no widget while a cell runs")
def test_a_figure_that_a_tool_draws_is_left_alone_while_the_card_is_spoken_to(kernel: Any) -> None:
    browser = Browser(kernel)
    try:
        browser.run(DRAWS)
        request = browser.start_card("%%agent -m simulated:disciplined -t draw\n- Draw with `draw()`")
        browser.greet()
        for _ in range(10):
            browser.send({"do": "fold", "key": "x", "open": True})
            assert browser.ask(do="dance") != ""  # heard, and refused
        (kernel.folder / "spoken").touch()
        browser.until(lambda: request in browser.ended)
    finally:
        browser.close()
    assert "1 figure, 1 line, hooks fired 0 times" in kernel.value("run.text")
