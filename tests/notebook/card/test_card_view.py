"""The live card in a real kernel, with messages as a browser sends them: none can break it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from asserted_sentences import Snapshot
from pretend_browser import LEFT, Browser
from waiting import wait_until

from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY

pytestmark = pytest.mark.skipif(not HEARS_WHILE_BUSY, reason="ipykernel 6 hears no widget while a cell runs")
STORY = """
from agentnb import ToolCall
from agentnb.models import ScriptedModel
import asyncio

async def doze(seconds: float) -> str:
    "Sleep on the event loop."
    await asyncio.sleep(seconds)
    return "dozed"

def essay() -> str:
    "Much text."
    return "\\n".join(f"line {number}" for number in range(3000))

def write(*titles):
    todos = [{"id": n, "title": t, "description": t, "status": "not-started"} for n, t in enumerate(titles, 1)]
    return ToolCall("todo_operations", {"operation": "write", "todoList": todos})
"""
GO = """%%agent -m model -t doze essay -p minimal
Go."""


@pytest.fixture(autouse=True)
def nothing_left(story_kernel: Any) -> Iterator[None]:
    """Check that no card leaves anything in the kernel once the browser has gone."""
    yield
    # The page learns of a closed widget before the kernel has dropped it.
    wait_until(lambda: story_kernel.value(f"len({LEFT}), len(get_ipython().kernel.comm_manager.comms)") == "(0, 0)")


def dozing(browser: Browser, first: str = "write('Sleep', 'Wake')", seconds: float = 600) -> str:
    """Start a run that dozes in its second round; return its request."""
    browser.run(f"model = ScriptedModel([{first}, ToolCall('doze', {{'seconds': {seconds}}}), 'Up again.'])")
    request = browser.start_card(GO)
    browser.greet()
    browser.until(lambda: any(one.get("say") == "Running doze" for one in browser.said))
    return request


def stopped(browser: Browser, request: str) -> None:
    """Stop the run and wait for its cell to end, like a browser that then shows the saved form."""
    assert browser.ask(do="stop") == ""
    browser.until(lambda: request in browser.ended)
    browser.send({"do": "gone", "page": "page"})
    browser.until(lambda: browser.cards[-1] in browser.closed)


@pytest.mark.req("R3.37")
def test_connecting_page_gets_the_full_card_then_changes(browser: Browser) -> None:
    request = dozing(browser)
    whole = browser.greet()
    assert [one["index"] for one in whole["rounds"]] == [0, 1]
    assert "Todos 0 of 2" in whole["slots"]["todos"] and "Running doze" in whole["slots"]["chip"]
    count = len(browser.said)
    assert browser.ask(do="tick", key="1") == ""
    browser.until(lambda: any("todos" in one.get("slots", {}) for one in browser.said[count:]))
    frames = [one for one in browser.said if one["kind"] == "frame"]
    last = whole["seq"]
    for one in frames[frames.index(whole) + 1 :]:
        assert one["seq"] == last + 1 or one.get("whole")
        last = one["seq"]
    browser.send({"do": "resync"})
    browser.until(lambda: browser.said[-1].get("whole", False))
    assert "Todos 1 of 2" in browser.said[-1]["slots"]["todos"]
    stopped(browser, request)


def test_each_click_is_carried_out_and_acknowledged(browser: Browser, story_kernel: Any, snapshot: Snapshot) -> None:
    request = dozing(browser)
    assert browser.ask(do="pause") == ""
    assert browser.ask(do="resume") == ""
    assert browser.ask(do="say", text="Hurry up") == ""
    assert browser.ask(do="add", text="Yawn") == ""
    assert browser.ask(do="move", key="3", before="1") == ""
    assert browser.ask(do="move", key="1", before=None) == ""
    assert browser.ask(do="tick", key="3") == ""
    assert browser.ask(do="tick", key="3") == ""  # reopened, as the list at the end shows
    assert browser.ask(do="remove", key="2") == ""
    assert browser.ask(do="saw", round=1, key="saw:1") == ""
    fill = next(message for message in browser.said if message["kind"] == "fill")
    assert fill["key"] == "saw:1" and "Go." in fill["html"]
    stopped(browser, request)
    assert story_kernel.value("[(t.id, t.title, t.status) for t in run.todos]") == snapshot


NONSENSE = [
    {"do": "move", "key": "1", "before": "not a number"},
    {"do": "move", "key": "99", "before": None},
    {"do": "move", "key": "1", "before": "99"},
    {"do": "move"},
    {"do": "move", "key": [1], "before": {}},
    {"do": "tick", "key": "99"},
    {"do": "tick", "key": None},
    {"do": "tick", "key": "9" * 5_000},
    {"do": "remove", "key": "x"},
    {"do": "remove", "key": "-1"},
    {"do": "add"},
    {"do": "add", "text": "   "},
    {"do": "say"},
    {"do": "say", "text": ""},
    {"do": "saw", "round": 999},
    {"do": "saw", "round": -1},
    {"do": "saw", "round": "<script>"},
    {"do": "saw"},
    {"do": "all"},
    {"do": "answer", "key": "none", "text": "yes"},
    {"do": "choose", "key": "none", "value": "not json"},
    {"do": "decline", "key": "none"},
    {"do": "choose"},
    {"do": "dance"},
    {"do": ""},
    {"do": None},
    {"do": ["stop"]},
    {"do": {"stop": 1}},
    {},
]


def test_invalid_message_gets_an_error_and_changes_nothing(browser: Browser, story_kernel: Any, snapshot: Snapshot) -> None:
    request = dozing(browser)
    for message in NONSENSE:
        assert browser.ask(**message), message
    assert browser.ask(do="all", call="no such call", key="all:x") == ""
    stopped(browser, request)
    assert "Traceback" not in browser.printed and "Exception" not in browser.printed, browser.printed
    assert story_kernel.value("[(t.id, t.title, t.status) for t in run.todos]") == snapshot


NO_MESSAGES = [
    *(None, "stop", 5, ["stop"], [], True),
    {"do": "hello", "page": {"a": 1}},
    {"do": "gone", "page": [1]},
    {"do": "fold", "key": {"a": 1}, "open": "perhaps"},
    *({"do": "gone"}, {"do": "hello"}, {"do": "fold"}),
]


def test_malformed_message_is_ignored(browser: Browser, snapshot: Snapshot) -> None:
    request = dozing(browser)
    for content in NO_MESSAGES:
        browser.send(content)
    assert browser.ask(do="add", text="Still here") == ""
    browser.send({"do": "gone", "page": {"a": 1}})
    stopped(browser, request)
    assert browser.printed == snapshot


def test_huge_and_hostile_text_is_shown_as_plain_text(browser: Browser, story_kernel: Any) -> None:
    request = dozing(browser)
    assert browser.ask(do="say", text="<b>" + "long " * 100_000 + "</b>") == ""
    assert browser.ask(do="add", text="<script>alert(1)</script>\x00\u202e" + "x" * 100_000) == ""
    browser.until(lambda: any("&lt;script&gt;" in one.get("slots", {}).get("todos", "") for one in browser.said))
    frames = [message for message in browser.said if "todos" in message.get("slots", {})]
    assert "<script>" not in frames[-1]["slots"]["todos"] and len(frames[-1]["slots"]["todos"]) < 10_000
    stopped(browser, request)
    assert "Traceback" not in browser.printed
    assert story_kernel.value("run.todos[-1].title.count('x')") == "100000"


MOODY = """
from agentnb import Agent
from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import OpenWidgets

class Moody:
    "A board that fails from some time on."
    fails = False
    todos = ()
    def read(self):
        if self.fails:
            raise ValueError("not <b>today</b>")
        return self.todos
    def change(self, update):
        self.todos = update(self.read())
        return self.todos

open_widgets, board = OpenWidgets(), Moody()
model = ScriptedModel([write("Sleep"), ToolCall("doze", {"seconds": 600}), "Up again."])
"""
GO_MOODY = """
view = CardView(open_widgets, blocks=False)
live = Agent(model, tools=[doze], todos=board, policy="minimal").start("Go", watch=view)
view.show(live)
"""


def test_failing_custom_board_does_not_stop_the_card(browser: Browser) -> None:
    browser.run(MOODY)
    browser.start_card(GO_MOODY)
    browser.greet()
    browser.until(lambda: any(one.get("say") == "Running doze" for one in browser.said))
    browser.run("board.fails = True")
    assert "Sleep" in browser.greet()["slots"]["todos"]
    assert "custom board" in browser.ask(do="tick", key="1")
    assert browser.ask(do="pause") == ""
    assert browser.ask(do="stop") == ""
    browser.until(lambda: any("Stopped by you" in one.get("text/plain", "") for one in browser.shown))
    browser.send({"do": "gone", "page": "page"})
    browser.until(lambda: browser.cards[-1] in browser.closed)
    assert browser.printed == ""


def test_click_after_the_end_reports_that_the_run_ended(browser: Browser, story_kernel: Any) -> None:
    browser.run("model = ScriptedModel([ToolCall('essay', {}), ToolCall('doze', {'seconds': 0.5}), 'Up again.'])")
    request = browser.start_card(GO)
    browser.greet()
    browser.greet("another page")
    browser.until(lambda: request in browser.ended)
    for message in ({"do": "stop"}, {"do": "tick", "key": "1"}, {"do": "saw", "round": 0}, {"do": "all", "call": "x"}):
        browser.ask(**message)
    assert "has ended" in browser.ask(do="pause")
    assert "has ended" in browser.ask(do="say", text="Wait")
    ended = browser.greet()
    assert ended["kind"] == "ended" and "Up again." in ended["html"]
    for page in ("page", "another page"):
        browser.send({"do": "gone", "page": page})
    browser.until(lambda: browser.cards[-1] in browser.closed)
    assert browser.printed == ""


def test_reloaded_page_gets_the_final_card_to_save(browser: Browser) -> None:
    for restored in (True, False):
        request = dozing(browser)
        known = len(browser.said)
        browser.send({"do": "hello", "page": "page", "restored": restored})
        browser.until(lambda known=known: any(one.get("whole") for one in browser.said[known:]))  # type: ignore[misc]
        assert browser.ask(do="stop") == ""
        browser.until(lambda request=request: request in browser.ended)  # type: ignore[misc]
        ends = [one for one in browser.said if one["kind"] == "ended"]
        assert len(ends) == restored  # the other page gets an updated output
        for one in ends:
            assert "Stopped by you" in one["html"] and "Stopped by you" in one["text"]
            assert "%agent load" in one["unsaved"] and one["unsaved"] not in one["html"]
        browser.send({"do": "gone", "page": "page"})
        browser.until(lambda: browser.cards[-1] in browser.closed)


def test_notebook_opened_after_the_end_gets_the_final_card(browser: Browser) -> None:
    request = dozing(browser)
    browser.run_beside("from agentnb.notebook.card import view as card_view\ncard_view.UNSEEN = 0.1")
    browser.send({"do": "gone", "page": "page"})
    assert browser.ask(do="stop") == ""
    browser.until(lambda: request in browser.ended)
    browser.listen(0.2)
    browser.run("card_view.UNSEEN = 10.0")
    assert "Stopped by you" in browser.greet("opened again")["html"]
    for page in ("opened again", "page"):  # a repeated greeting of the first page may arrive only after the cell
        browser.send({"do": "gone", "page": page})
    browser.until(lambda: browser.cards[-1] in browser.closed)


LATE = """
import threading
from agentnb import Agent, ask_person
from agentnb.notebook.card import actions as card_actions, view as card_view
from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import OpenWidgets

open_widgets = OpenWidgets()

class Late:
    "Hands on what happens only once it may."
    def __init__(self, view):
        self.view, self.may = view, threading.Event()
    def __call__(self, item):
        self.may.wait()
        self.view(item)

def shown(model, before=True, **named):
    "A run and its card, which is shown before its first event came."
    view = CardView(open_widgets, blocks=False, **named)
    late = Late(view)
    live = Agent(model, tools=[doze], policy="minimal").start("Go", watch=late)
    view.show(live)
    late.may.set()
    return live, view
"""


def let_go(browser: Browser) -> None:
    browser.run("for one in list(open_widgets._widgets): open_widgets.let_go(one)")
    browser.until(lambda: browser.cards[-1] in browser.closed)


def test_card_shown_before_the_first_event_still_starts(browser: Browser) -> None:
    browser.run(LATE)
    browser.run("card_view.UNSEEN = 0.3")
    browser.start_card("live, view = shown(ScriptedModel([ToolCall('doze', {'seconds': 600}), 'Up.']))")
    browser.until(lambda: any(one.get("say") == "Running doze" for one in browser.said))
    browser.until(lambda: browser.cards[-1] in browser.closed)  # nobody greeted, so it was given up
    browser.run("card_view.UNSEEN = 10.0; live.stop()")
    browser.until(lambda: any("Stopped by you" in one.get("text/plain", "") for one in browser.shown))


def test_slow_drawing_does_not_block_run_or_card(browser: Browser, story_kernel: Any) -> None:
    browser.run(LATE)
    browser.run("may, sent_request = threading.Event(), card_actions.sent_request")
    browser.run("card_actions.sent_request = lambda run, index: may.wait() and sent_request(run, index)")
    browser.start_card("live, view = shown(ScriptedModel([write('Sleep'), ToolCall('doze', {'seconds': 600}), 'Up.']))")
    browser.greet()
    browser.until(lambda: any(one.get("say") == "Running doze" for one in browser.said))
    browser.send({"do": "saw", "round": 1, "key": "saw:1", "id": "later"})
    assert browser.ask(do="tick", key="1") == ""  # done on the run's event loop
    browser.until(lambda: any("Todos 1 of 1" in one.get("slots", {}).get("todos", "") for one in browser.said))
    assert not any(one["kind"] == "fill" for one in browser.said)
    browser.run("may.set(); card_actions.sent_request = sent_request")
    browser.until(lambda: any(one.get("id") == "later" for one in browser.said))
    assert [one["key"] for one in browser.said if one["kind"] == "fill"] == ["saw:1"]
    assert browser.ask(do="stop") == ""
    browser.until(lambda: any("Stopped by you" in one.get("text/plain", "") for one in browser.shown))
    let_go(browser)
    assert browser.printed == ""


def test_requests_stay_in_the_card_until_the_run_reads_them(browser: Browser) -> None:
    request = dozing(browser)
    assert browser.ask(do="say", text="Hurry up") == ""
    assert browser.ask(do="pause") == ""
    browser.until(lambda: any("Pausing" in one.get("slots", {}).get("controls", "") for one in browser.said))
    whole = browser.greet()
    assert "Hurry up" in whole["slots"]["asked"]
    assert browser.ask(do="say", text="  ") != ""
    assert browser.greet()["slots"]["asked"].count("You: ") == 1
    stopped(browser, request)


def test_sending_to_a_closed_widget_raises_no_error(browser: Browser) -> None:
    browser.run(LATE)
    browser.start_card("live, view = shown(ScriptedModel([ToolCall('doze', {'seconds': 600}), 'Up.']))")
    browser.greet()
    browser.run("view._widget.send = lambda message: 1 / 0")
    browser.run("view._hear(view._widget, {'do': 'dance', 'id': 1}, []); live.stop()")
    browser.until(lambda: any("Stopped by you" in one.get("text/plain", "") for one in browser.shown))
    let_go(browser)
    assert browser.printed == ""


def test_undrawable_run_is_kept_as_text(browser: Browser) -> None:
    browser.run(LATE)
    browser.run("run_html, card_view.run_html = card_view.run_html, lambda *given, **named: 1 / 0")
    browser.start_card("live, view = shown(ScriptedModel([ToolCall('doze', {'seconds': 0.4}), '<b>Up</b>.']))")
    browser.greet()
    browser.until(lambda: any(one.get("text/plain", "").startswith("Done") for one in browser.shown))
    kept = browser.shown[-1]
    assert kept["text/html"].startswith("<pre") and "&lt;b&gt;Up&lt;/b&gt;" in kept["text/html"]
    assert browser.greet()["kind"] == "ended"
    assert "could not be drawn" in browser.printed
    browser.run("card_view.run_html = run_html")
    let_go(browser)
