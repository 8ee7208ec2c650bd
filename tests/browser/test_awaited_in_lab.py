"""Runs that Python code in a cell starts, in a real JupyterLab: cards, nested runs, and one line for many."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from test_approval_in_lab import IN_SIGHT
from waiting import wait_until

pytestmark = pytest.mark.browser
STORY = Path(__file__).with_name("story.py")
SETUP = """%load_ext agentnb
from story import *
import asyncio
from agentnb import Agent, ask_person

inner = Agent(Slow([[ToolCall('load_penguins', {'path': 'p.csv'})], [ToolCall('wait', {'what': 'inner'})],
                    'Three species: **Adelie**, Chinstrap and Gentoo.']),
              [load_penguins, wait], name='reader', guidance='off', todos=False)

async def read(question: str) -> str:
    \"\"\"Have another agent read the file.\"\"\"
    return (await inner.run(question)).text"""


def shared(lab: Any, *cells: str) -> int:
    shutil.copy(STORY, lab.folder)
    lab.share([SETUP, *cells])
    lab.run_above(len(cells))
    return len(cells)


def card_says(lab: Any, index: int, text: str) -> None:
    lab.cell(index).locator(".agentnb-card [data-slot=chip]", has_text=text).wait_for()


def kept_says(lab: Any, index: int, text: str) -> None:
    lab.cell(index).locator(".agentnb-run .agentnb-chip", has_text=text).first.wait_for()


def test_awaited_run_has_a_live_card_and_one_line_result(lab: Any) -> None:
    index = shared(
        lab,
        "asks = ToolCall('ask_person', {'question': 'Which?', 'options': ['red', 'blue']})\n"
        "agent = Agent(Slow([['One more word. ' * 400, asks], 'Red it is.']), "
        "[ask_person], guidance='off', todos=False)\nawait agent.run('Ask me for a colour.')",
    )
    lab.start(index)
    card_says(lab, index, "Waiting for you")
    lab.shots("awaited-asks")
    red = lab.cell(index).get_by_role("button", name="red")
    for width in (700, 1400):
        lab.width(width)
        wait_until(lambda: red.evaluate(IN_SIGHT))
    red.click()
    kept_says(lab, index, "Done")
    lab.wait_done(index)
    lab.shots("awaited-done")
    lab.cell(index).locator(".agentnb-quiet", has_text="Done").filter(has_text="shown above").wait_for()
    wait_until(lambda: lab.cell(index).locator(".agentnb-answer").count() == 1)


@pytest.mark.nightly("by day an awaited run is shown, and cards with nested runs are drawn")
def test_nested_run_is_shown_in_its_call_live_and_saved(lab: Any) -> None:
    index = shared(
        lab,
        "outer = Slow([ToolCall('read', {'question': 'Which species are in p.csv?'}), 'There are three.'])",
        "%%agent -m outer -t read\nWhich species are there?",
    )
    lab.start(index)
    nested = lab.cell(index).locator(".agentnb-nested")
    nested.get_by_text("Running wait").wait_for()
    lab.shots("nested-live")
    nested.locator("summary").first.click()
    nested.get_by_text("load_penguins").wait_for()
    lab.shots("nested-live-open")
    lab.allow("inner")
    kept_says(lab, index, "Done")
    lab.wait_done(index)
    lab.shots("nested-done")
    lab.cell(index).locator(".agentnb-nested").get_by_text("Adelie").wait_for()


@pytest.mark.nightly("by day tests of the kernel draw the line")
def test_eight_concurrent_runs_share_one_expandable_line(lab: Any) -> None:
    index = shared(
        lab,
        "def one(n):\n"
        "    replies = [ToolCall('wait', {'what': f'eight-{n % 2}'}), ValueError('broken') if n == 7 else 'Done.']\n"
        "    return Agent(Slow(replies), [wait], guidance='off', todos=False)\n"
        "runs = await asyncio.gather(*[one(n).run(f'Look at part {n}.') for n in range(8)])",
    )
    lab.start(index)
    line = lab.cell(index).locator(".agentnb-run")
    line.get_by_text("8 running").wait_for()
    wait_until(lambda: lab.cell(index).locator(".agentnb-card").count() == 0)
    lab.allow("eight-0")
    line.get_by_text("4 done, 4 running").wait_for()
    lab.shots("eight-live")
    lab.allow("eight-1")
    line.get_by_text("7 done, 1 failed").wait_for()
    lab.wait_done(index)
    lab.shots("eight-done")
    line.locator("summary").click()
    line.get_by_text("Look at part 7.").wait_for()
    lab.shots("eight-done-open")


def test_run_that_asks_among_many_gets_a_card(lab: Any) -> None:
    index = shared(
        lab,
        "def one(n):\n"
        "    asks = [ToolCall('ask_person', {'question': 'Which?', 'options': ['red', 'blue']})]\n"
        "    return Agent(Slow([*(asks if n == 5 else []), 'Done.']), [ask_person], guidance='off', todos=False)\n"
        "runs = await asyncio.gather(*[one(n).run(f'Look at part {n}.') for n in range(6)])",
    )
    lab.start(index)
    card_says(lab, index, "Waiting for you")
    lab.cell(index).locator(".agentnb-run").get_by_text("5 done, 1 waiting").wait_for()
    lab.shots("one-asks")
    lab.cell(index).get_by_role("button", name="red").click()
    lab.cell(index).get_by_text("6 done").wait_for()
    lab.wait_done(index)
    lab.wait_idle()
    lab.wait_for_value("len(__import__('ipywidgets').widget._instances)", "0")
    assert lab.complaints() == []
