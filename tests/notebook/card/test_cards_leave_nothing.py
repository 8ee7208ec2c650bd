"""Cards leave no widgets and no comms in a kernel, whether a browser shows them or not."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pretend_browser import LEFT, Browser
from property_settings import size

from agentnb.notebook.card.widget import MAX_LEFT_OPEN

VIEW = "application/vnd.jupyter.widget-view+json"
STORY = """
import asyncio, os, signal, threading
from agentnb import ToolCall, ask_person
from agentnb.core.log.events import TextDelta
from agentnb.core.messages import Message, Text
from agentnb.models import Reply
from agentnb.models import ScriptedModel
from agentnb.notebook.card import view as card_view

async def doze(seconds: float) -> str:
    "Sleep on the event loop."
    await asyncio.sleep(seconds)
    return "dozed"

def go(count, seconds=0.01):
    for _ in range(count):
        get_ipython().user_ns["model"] = ScriptedModel([ToolCall("doze", {"seconds": seconds}), "Done."])
        get_ipython().run_cell_magic("agent", "-m model -t doze nap -p minimal -g off", "Go.")

def interrupted_after(seconds, code):
    # Python throws an interrupt away that comes while it is tidying up, before the magic owns it: a person presses again.
    over = threading.Event()
    def press():
        time.sleep(seconds)
        while not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            over.wait(2)
    try:
        threading.Thread(target=press, daemon=True).start()
        get_ipython().user_ns["model"] = ScriptedModel([ToolCall(*code), "Done."])
        get_ipython().run_cell_magic("agent", "-m model -t doze nap -p minimal -g off", "Go.")
    finally:
        over.set()
"""
LET_GO = """
from agentnb.notebook.cells.notebook_runs import cell_runs
from agentnb.notebook.ipython_extension import session_of
left = cell_runs(get_ipython(), session_of(get_ipython())).open_widgets
for one in list(left._widgets):
    left.let_go(one)
"""
COUNT = f"len({LEFT}), len(get_ipython().kernel.comm_manager.comms)"


@pytest.fixture(autouse=True)
def patience(story_kernel: Any) -> None:
    """Give up unseen cards soon."""
    story_kernel.run("card_view.UNSEEN = 0.1")


def nothing_is_left(kernel: Any) -> None:
    latest = time.monotonic() + 20
    while kernel.value(COUNT) != "(0, 0)":
        assert time.monotonic() < latest, kernel.value(COUNT)
        time.sleep(0.02)


@pytest.mark.slow("sixty runs and their cards")
def test_many_unseen_cards_leave_nothing_behind(story_kernel: Any) -> None:
    cell = story_kernel.run("card_view.UNSEEN = 1000; go(30)", attended=True)
    assert (cell.status, cell.error) == ("ok", "")
    assert sum(VIEW in output.get("data", {}) for output in cell.outputs) > 20  # the others had already ended
    assert int(story_kernel.value(f"len({LEFT})")) <= 2 * MAX_LEFT_OPEN
    assert story_kernel.run(LET_GO).status == "ok"
    story_kernel.run("card_view.UNSEEN = 0.1")
    assert story_kernel.run(f"go({size(30, nightly=270)})", attended=True).status == "ok"
    nothing_is_left(story_kernel)


def test_card_is_not_created_when_nobody_watches(story_kernel: Any) -> None:
    cell = story_kernel.run("go(3, 0.05)")
    assert cell.status == "ok"
    assert not any(VIEW in output.get("data", {}) for output in cell.outputs)
    assert cell.shown.startswith("Done")
    assert story_kernel.value(COUNT) == "(0, 0)"


def test_card_that_no_browser_shows_becomes_plain_html(story_kernel: Any) -> None:
    cell = story_kernel.run("go(1, 0.6)", attended=True)
    widgets = [place for place, bundle in enumerate(cell.displays) if VIEW in bundle]
    assert widgets == [0]
    assert any("Running doze" in bundle["text/html"] for bundle in cell.displays[1:])
    assert cell.shown.startswith("Done")
    nothing_is_left(story_kernel)


@pytest.mark.slow("eleven cells, one after the other")
def test_vanished_browser_leaves_a_limited_number_of_cards(story_kernel: Any) -> None:
    story_kernel.run("card_view.UNSEEN = 0.3")
    browser = Browser(story_kernel)
    for _ in range(MAX_LEFT_OPEN + 3):
        request = browser.start_card("go(1, 0.3)")
        browser.greet("a page that is closed by force")
        browser.until(lambda request=request: request in browser.ended)
    browser.listen(0.5)
    assert int(story_kernel.value(f"len({LEFT})")) == 2 * MAX_LEFT_OPEN
    browser.close()
    assert story_kernel.run(LET_GO).status == "ok"
    nothing_is_left(story_kernel)


@pytest.mark.slow("twelve cells, each interrupted a little later")
@pytest.mark.parametrize("tool", ["nap", "doze"])
def test_interrupt_at_any_moment_leaves_nothing_behind(story_kernel: Any, tool: str) -> None:
    story_kernel.run("from agentnb.runtime.host import process_end; process_end.NOTICE = 0.0")  # its kernel stays alive
    count = size(12, nightly=40)
    for place in range(count):
        cell = story_kernel.run(f"interrupted_after({0.08 * place / count}, ('{tool}', {{'seconds': 600}}))", attended=True)
        is_too_early = "frame_info.lineno" in cell.printed  # for IPython to format its traceback
        assert cell.status == "error" and (is_too_early or "Interrupt" in cell.error), cell.error
    nothing_is_left(story_kernel)
    assert story_kernel.run("go(1)", attended=True).status == "ok"
    nothing_is_left(story_kernel)


ASKS = """
def asks(*before):
    model = ScriptedModel([*before, ToolCall("ask_person", {"question": "Which one?"}), "On I go."])
    get_ipython().user_ns["model"] = model
    get_ipython().run_cell_magic("agent", "-m model -t doze ask_person -p minimal -g off", "Go.")
"""


@pytest.mark.req("KX.5")
@pytest.mark.parametrize("before", ["", "ToolCall('doze', {'seconds': 0.6})"])
def test_unseen_question_is_declined_before_and_after_card_closes(story_kernel: Any, before: str) -> None:
    story_kernel.run(ASKS)
    cell = story_kernel.run(f"asks({before})", attended=True)
    assert (cell.status, cell.error) == ("ok", "")
    assert "gave no answer" in story_kernel.value("run.rounds[-2].results[0].text")
    assert cell.shown.startswith("Done")
    assert story_kernel.value("run.questions[0].by") == "nobody"
    nothing_is_left(story_kernel)


GATED = """
from agentnb.policies.gates import Ask
def careful(call, run):
    return Ask("May it?")
model = ScriptedModel([ToolCall("doze", {"seconds": 0})])
"""


@pytest.mark.req("KX.5")
def test_unseen_gate_question_suspends_the_run(story_kernel: Any) -> None:
    assert story_kernel.run(GATED).status == "ok"
    cell = story_kernel.run("%%agent -m model -t doze --gate careful\nGo.", attended=True)
    assert (cell.status, cell.error) == ("ok", "")
    assert story_kernel.value("run.is_suspended") == "True"
    assert "Answer: %agent answer" in cell.shown
    assert "nobody could answer here" in cell.shown and "you chose Later" not in cell.shown
    nothing_is_left(story_kernel)


STREAMS = """
class Slow:
    name = "scripted:slow"
    async def stream(self, request):
        yield TextDelta("Early words ")
        await asyncio.sleep(0.5)
        yield TextDelta("and late ones.")
        await asyncio.sleep(0.2)
        yield Reply(Message("assistant", (Text("Early words and late ones."),)))
model = Slow()
"""


def test_text_streamed_while_a_card_closes_is_kept(story_kernel: Any) -> None:
    assert story_kernel.run(STREAMS).status == "ok"
    cell = story_kernel.run("%%agent -m model\nGo.", attended=True)
    assert cell.status == "ok", cell.error
    streaming = [bundle["text/html"] for bundle in cell.displays if "late ones" in bundle["text/html"]]
    assert "Early words and late ones." in streaming[0]
    nothing_is_left(story_kernel)
