"""What the browser says to a card leaves the cell that runs alone: its hooks, and the figure that a tool is drawing."""

from __future__ import annotations

from typing import Any

from pretend_browser import Browser

DRAWS = """
import time
import matplotlib.pyplot as plt
fired = []
get_ipython().events.register("post_execute", lambda: fired.append(1))

def draw() -> str:
    'Draw slowly.'
    fired.clear()
    plt.plot([1, 2, 3])
    time.sleep(1.5)
    plt.title("still the same figure")
    return f"{len(plt.get_fignums())} figure, {len(plt.gca().lines)} line, hooks fired {len(fired)} times"
"""


def test_a_figure_that_a_tool_draws_is_left_alone_while_the_card_is_spoken_to(kernel: Any) -> None:
    browser = Browser(kernel)
    try:
        browser.run(DRAWS)
        request = browser.start_card("%%agent -m simulated:disciplined -t draw\n- Draw with `draw()`")
        browser.greet()
        while request not in browser.ended:
            browser.send({"do": "fold", "key": "x", "open": True})
            browser.listen(0.1)
    finally:
        browser.close()
    assert "1 figure, 1 line, hooks fired 0 times" in kernel.value("run.text")
