"""Reading aids in JupyterLab: stepping through failures, search, copying, and the details switch."""

from __future__ import annotations

from typing import Any

import pytest
from test_card_in_lab import card, chip, ended, shared
from waiting import wait_until

pytestmark = [pytest.mark.browser, pytest.mark.nightly("by day test_saved_in_lab and test_card_in_lab")]
FAILING = """
def compare(column: str) -> str:
    "Compare."
    if column.startswith("no"):
        raise ValueError(f"no column {column}")
    return "All is well with " + column
calls = [ToolCall("compare", {"column": name}) for name in ("no1", "mass", "no2", "bill")]
model = Slow([*[[f"Part {n}.", call] for n, call in enumerate(calls)], THEN])
"""
GO = "%%agent -m model -t compare nap\nGo."
NAP = "ToolCall('nap', {'seconds': 600})"
IN_SIGHT = """one => {
    const list = one.closest('[data-rounds]')?.getBoundingClientRect() ?? {top: 0, bottom: innerHeight};
    const {top, bottom} = one.getBoundingClientRect();
    return top >= list.top - 1 && bottom <= list.bottom + 1;
}"""


def test_running_card_links_to_its_failures_and_finds_words(lab: Any) -> None:
    index = shared(lab, FAILING.replace("THEN", NAP), GO)
    lab.start(index)
    chip(lab, index, "Running nap")
    shown = card(lab, index)
    wait_until(lambda: shown.locator("[data-slot=trouble] .agentnb-wrong").first.inner_text() == "2 failed calls: rounds 1, 3")
    lab.note_reached()
    shown.get_by_role("button", name="Next failure").click()
    lab.wait_reached("no1")
    shown.get_by_role("button", name="Next failure").click()
    lab.wait_reached("no2")
    shown.locator(".agentnb-to-round", has_text="1").first.click()
    lab.wait_reached("Part 0.")
    wait_until(lambda: shown.locator(".agentnb-round").first.evaluate(IN_SIGHT))
    field = shown.get_by_label("Find in this run")
    field.fill("is well with")
    shown.locator(".agentnb-tools", has_text="found").wait_for()
    lab.note_reached()
    field.press("Enter")
    lab.wait_reached("is well with")
    wait_until(lambda: lab.page.evaluate("() => CSS.highlights.get('agentnb-found').size") >= 2)
    shown.get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    assert lab.complaints() == []


FOUND = """
from agentnb import Agent, detect, load_trace
@detect.detector(severity="notice")
def dug(run):
    return "Dug again" if len(run.rounds) > 1 else None
calls = [[f"Part {n}.", ToolCall("compare", {"column": f"bill{n}"})] for n in range(3)]
agent = Agent(Slow([*calls, ToolCall("nap", {"seconds": 600})]), [compare, nap], detect=dug)
"""


def test_finding_links_work_without_script_and_in_running_cards(lab: Any) -> None:
    index = shared(lab, FAILING.replace("THEN", NAP) + FOUND, "load_trace('complex-fails')", "await agent.run('Dig.')")
    lab.run(index - 1)
    saved = lab.cell(index - 1).locator(".agentnb-run")
    saved.get_by_role("link", name="7").first.click()  # no live card has loaded the script yet
    saved.locator("[data-round='6']").wait_for()
    saved.get_by_role("link", name="↑ finding 1").last.click()
    wait_until(lambda: saved.locator(".agentnb-finding").is_visible())
    lab.start(index)
    chip(lab, index, "Running nap")
    live = card(lab, index)
    wait_until(
        lambda: (
            live.locator("[data-slot=findings]").inner_text().split("\n")[1:] == ["▲ 1. Dug again · round 2, again in round 3"]
        )
    )
    lab.go_to(live.locator(".agentnb-finding").last.get_by_role("link").first, "Part 1.")
    lab.go_to(live.get_by_role("link", name="↑ finding 1").first, "1. Dug")
    live.get_by_role("button", name="Stop").click()
    ended(lab, index, "Stopped by you")
    assert lab.complaints() == []


def test_saved_card_gets_its_buttons_on_hover(lab: Any) -> None:
    lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    index = shared(lab, FAILING.replace("THEN", "'**All** is compared.'"), GO)
    lab.run(index)
    ended(lab, index, "Done")
    run = lab.cell(index).locator(".agentnb-run")
    run.hover()
    run.get_by_role("button", name="Copy answer").click()
    run.get_by_text("Copied").wait_for()
    wait_until(lambda: lab.page.evaluate("() => navigator.clipboard.readText()") == "All is compared.")
    run.get_by_role("button", name="Copy the id").click()
    lab.page.wait_for_function(f"async () => await navigator.clipboard.readText() === {lab.value('run.id')}")
    lab.go_to(run.locator(".agentnb-to-round", has_text="3"), "Part 2.")
    assert "#agentnb" not in lab.page.url
    assert lab.complaints() == []


def test_details_switch_is_remembered_for_the_next_card(lab: Any) -> None:
    index = shared(lab, FAILING.replace("THEN", NAP), GO)
    for pressed in (False, True):
        lab.run(index - 1)
        lab.start(index)
        chip(lab, index, "Running nap")
        shown = card(lab, index)
        shown.locator(f"[data-details][aria-pressed={str(pressed).lower()}]").wait_for()
        wait_until(lambda: shown.locator(".agentnb-saw > summary").last.is_visible() is pressed)
        if not pressed:
            shown.get_by_role("button", name="Show guidance").click()
            shown.locator(".agentnb-saw > summary").last.wait_for()
        shown.get_by_role("button", name="Stop").click()
        ended(lab, index, "Stopped by you")
        lab.wait_done(index)
    wait_until(lambda: lab.output(index).locator("[data-fold=rounds] .agentnb-saw").count() > 0)
    assert lab.complaints() == []
