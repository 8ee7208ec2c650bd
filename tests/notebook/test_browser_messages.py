"""The trace browser in the kernel: its answers to messages of a page."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agentnb import load_trace
from agentnb.display.defaults import RUNS_IN_A_PAGE
from agentnb.interchange.files import Runs
from agentnb.notebook.browser import Browser


class Page:
    """Replaces the widget and keeps the last message of each kind."""

    key = "k"

    def __init__(self) -> None:
        self.last: dict[str, dict[str, Any]] = {}

    def send(self, message: dict[str, Any]) -> None:
        self.last[message["kind"]] = message


@pytest.fixture
def browser() -> Browser:
    trace_browser = Browser(Runs([load_trace("complex-fails"), load_trace("healthy"), load_trace("simple-fail")]))
    trace_browser._widget = Page()
    return trace_browser


def filtered(browser: Browser, **wanted: str) -> dict[str, dict[str, Any]]:
    browser._do(browser._list, {"id": "1", "wanted": wanted})
    assert browser._widget.last["heard"]["error"] == ""
    found: dict[str, dict[str, Any]] = browser._widget.last
    return found


def test_filter_never_leaves_an_unlisted_run_open(browser: Browser) -> None:
    browser._do(browser._open, {"id": "1", "place": 2})
    assert browser.run is browser.runs[2]
    sent = filtered(browser, finding="already_said")
    assert 'data-place="2"' not in sent["list"]["html"]
    place = sent["opened"]["place"]
    assert f'data-place="{place}"' in sent["list"]["html"] and browser.run is browser.runs[place]
    assert filtered(browser)["opened"]["place"] != 2, "the open run stays"


def test_pages_of_a_list_lead_to_every_run() -> None:
    run = load_trace("healthy")
    trace_browser = Browser(Runs([run] * (2 * RUNS_IN_A_PAGE + 30)))
    trace_browser._widget = Page()
    reached: list[int] = []
    first: int | None = 0
    while first is not None:
        trace_browser._do(trace_browser._list, {"id": "1", "wanted": {}, "first": first})
        sent = trace_browser._widget.last["list"]
        reached += map(int, re.findall(r'data-place="(\d+)"', sent["html"]))
        first = sent["after"]
    assert reached == [*range(len(trace_browser.runs))] and sent["told"] == "201 to 230 of 230 runs"
    assert sent["before"] == RUNS_IN_A_PAGE, "the way back"


def test_search_without_hits_shows_a_message_and_no_run(browser: Browser) -> None:
    browser._do(browser._open, {"id": "1", "place": 1})
    sent = filtered(browser, find="<b>nowhere")
    assert "No run contains “&lt;b&gt;nowhere”." in sent["list"]["html"] and sent["list"]["told"] == "0 runs, of 3"
    opened = sent["opened"]
    assert (opened["place"], opened["html"], opened["variable"], opened["rounds"]) == (None, "", "", 0) and browser.run is None
    browser._do(browser._hello, {"id": "2"})
    assert browser._widget.last["heard"]["error"] == "" and browser._widget.last["opened"]["html"] == ""
    assert filtered(browser)["opened"]["place"] == 1 and browser.run is browser.runs[1]
