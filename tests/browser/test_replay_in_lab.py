"""The replay button of a failed run in a real JupyterLab: the effect of a click."""

from __future__ import annotations

from typing import Any

import pytest
from waiting import wait_until

pytestmark = pytest.mark.browser
SETUP = """%load_ext agentnb
from agentnb import ToolCall
from agentnb.models import ScriptedModel
from agentnb.notebook.card import replay_button
from agentnb.rerun.replay import replay
replayed = []

def noted(run, **settings):
    replayed.append(run.id)
    return replay(run, **settings)

def broken(run, **settings):
    raise ValueError("no <b>rules</b>")

replay_button.replay = noted
def look(at: str) -> str:
    "Look."
    return "nothing"
model = ScriptedModel([*[ToolCall("look", {"at": f"place {n}"}) for n in range(6)], "Done."])
"""
CELL = "%%agent -m model -t look -g off -p minimal --max-rounds 5\nFind it."
COMMAND = "Show what guidance would have changed: %replay run -g matrix -p matrix"


@pytest.fixture
def card(lab: Any) -> Any:
    """Return the card of a run that reached its limit."""
    lab.share([SETUP, CELL])
    lab.run_all()
    card = lab.output(1).locator(".agentnb-run")
    card.wait_for()
    return card


def test_clicking_replays_a_failed_run_and_shows_the_outcome(lab: Any, card: Any) -> None:
    button = card.get_by_role("button", name="Show what guidance would have changed")
    button.wait_for()
    wait_until(lambda: "%replay" not in card.inner_text())
    assert lab.value("len(replayed)") == "0"
    button.click()
    card.get_by_text("With the guidance matrix: The run ended after 5 rounds (max_rounds).").wait_for()
    wait_until(lambda: card.inner_text().count("%replay run -g matrix -p matrix") == 1)
    wait_until(lambda: not button.is_visible())
    assert lab.value("replayed == [run.id]") == "True"
    lab.write_last("run")
    lab.start_active()  # the same run shown again has the same text
    lab.output(2).get_by_text("With the guidance matrix: The run ended").wait_for()
    assert COMMAND in "".join(lab.outputs(1)[0]["data"]["text/plain"])
    assert "button" not in "".join(lab.outputs(1)[0]["data"]["text/html"])
    assert lab.errors() == [] and lab.complaints() == []


def test_open_run_in_the_trace_browser_has_the_button(lab: Any, card: Any) -> None:
    lab.write_last("from agentnb.interchange.files import Runs\nfound = Runs([run])\nfound")
    lab.start_active()
    opened = lab.page.get_by_role("region", name="Trace browser").locator("[data-run]")
    opened.get_by_role("button", name="Show what guidance would have changed").click()
    opened.get_by_text("With the guidance matrix: The run ended").wait_for()
    wait_until(lambda: 'replay(found[0], guidance="matrix", policy="matrix").sentence' in opened.inner_text())
    assert lab.errors() == [] and lab.complaints() == []


def test_failed_replay_shows_one_line_in_the_card(lab: Any, card: Any) -> None:
    lab.value("1", "replay_button.replay = broken")
    button = card.get_by_role("button", name="Show what guidance would have changed")
    button.click()
    card.get_by_text("Failed: ValueError: no <b>rules</b>").wait_for()
    lab.value("1", "replay_button.replay = noted")
    button.click()
    card.get_by_text("With the guidance matrix: The run ended").wait_for()
    assert lab.errors() == [] and lab.complaints() == []


@pytest.mark.nightly("by day tests of the saved card read the command")
def test_card_without_a_kernel_names_the_command(fresh_lab: Any) -> None:
    lab = fresh_lab
    lab.open(lab.write("replayed.ipynb", [SETUP, CELL]))
    lab.run_all()
    card = lab.output(1).locator(".agentnb-run")
    card.get_by_role("button", name="Show what guidance would have changed").wait_for()
    lab.end_kernels()
    card.get_by_text(COMMAND).wait_for()
    wait_until(lambda: card.get_by_role("button", name="Show what guidance would have changed").count() == 0)
