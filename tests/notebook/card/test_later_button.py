"""A postponed gate question in the live card: the run is suspended, and another card shows its continuation."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asserted_sentences import Snapshot
from pretend_browser import Browser
from waiting import wait_until

from agentnb import Agent, Plan, RunOptions, Store, ToolCall, Workflow
from agentnb.models import ScriptedModel
from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import OpenWidgets
from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY, close
from agentnb.policies.gates import Ask

pytestmark = pytest.mark.skipif(not HEARS_WHILE_BUSY, reason="ipykernel 6 hears no widget while a cell runs")
STORY = """
from agentnb import ask_person
from agentnb.policies.gates import Ask

def write(path: str) -> str:
    "Write a file."
    return f"wrote {path}"

def careful(call, run):
    return Ask(f"May {call.name} run?") if call.name == "write" else None
"""
CELL = "%%agent -m simulated:disciplined -t write --gate careful\n- first `write('a')`\n- second `write('b')`"


def asked(browser: Browser, code: str) -> str:
    """Run the cell until its card shows an open question; return its request."""
    request = browser.start_card(code)
    browser.greet()
    browser.until(lambda: any('data-do="suspend"' in str(one) for one in browser.said))
    return request


@pytest.mark.req("KX.5")
@pytest.mark.slow("two cells, each with a card that a page greets")
def test_later_button_suspends_the_run_and_an_answer_resumes_it(
    browser: Browser, story_kernel: Any, snapshot: Snapshot
) -> None:
    request = asked(browser, CELL)
    browser.client.execute("after = 'run'")
    assert browser.ask(do="suspend", key="q1") == ""
    browser.until(lambda: request in browser.ended)
    run_id = story_kernel.value("run.id")
    assert browser.printed == snapshot
    assert story_kernel.value("'after' in globals()") == "False", "Run All stops"
    saved = browser.shown[-1]
    line = f"Answer: %agent answer {run_id[-8:]} TEXT"
    assert line in saved["text/plain"] and "May write run?" in saved["text/plain"]
    assert "data-do=" not in saved["text/html"] and "May write run?" in saved["text/html"] and "You: " not in saved["text/html"]
    assert story_kernel.value("run.is_suspended, run.waiting[0].id") == "(True, 'q1')"

    request = asked(browser, f"%agent answer {run_id} approve")  # the replayed events did not end its card
    assert browser.ask(do="choose", key="q2", value='"approve"') == ""
    browser.until(lambda: request in browser.ended)
    assert story_kernel.value("run.id, run.status") == f"('{run_id}', 'completed')"
    assert "Answer: %agent" not in browser.shown[-1]["text/plain"]
    assert "process died" not in browser.shown[-1]["text/plain"]


class Place:
    """Remembers how a card was shown."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def show(self, widget: Any, meanwhile: dict[str, str]) -> None:
        self.calls.append("live")
        close(widget)

    def keep(self, run: dict[str, str]) -> None:
        self.calls.append("saved")


def test_suspension_ends_only_the_card_of_its_own_run(tmp_path: Path) -> None:
    def write() -> None: ...

    agent = Agent(ScriptedModel([ToolCall("write")]), tools=[write], gates=[lambda call, run: Ask("May it?")])
    run = agent.start("go", RunOptions(store=Store(tmp_path), suspend=True, can_ask=False)).result(30)
    assert run.is_suspended
    for events_before, shown in {0: "saved", len(run.events): "live"}.items():  # a resumed run replays all its events first
        place = Place()
        view = CardView(OpenWidgets(), blocks=True, place=place)
        for event in run.events:
            view(event)
        view.show(SimpleNamespace(run_id=run.id, events_before=events_before, board=None))  # type: ignore[arg-type]
        assert place.calls == [shown]


def test_unseen_question_of_a_step_suspends_the_run(tmp_path: Path, subtests: pytest.Subtests) -> None:
    async def weigh(by: str) -> str:
        """Weigh."""
        return by

    workflow = Workflow.from_yaml("workflow: [{id: colour, type: human, ask: Which?}]")
    plan = Plan.read("steps: [{type: tool, name: weigh, args: {}}]")
    asks: dict[str, Any] = {"human step": workflow.start, "plan": partial(plan.start, tools=[weigh])}
    for name, start in asks.items():
        with subtests.test(name):
            view = CardView(OpenWidgets(), blocks=True)
            live = start(options=RunOptions(watch=view, store=Store(tmp_path), suspend=True, can_ask=True))
            view.show(live)
            wait_until(lambda live=live: bool(live.run.waiting) or live.done)  # type: ignore[misc]
            view._give_up()
            run = live.result(30)
            assert (run.status, len(run.waiting), run.questions[0].outcome) == ("waiting_on_user", 1, "open")
