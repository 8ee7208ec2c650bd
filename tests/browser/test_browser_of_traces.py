"""The trace browser in a real JupyterLab: search, filter, step, findings, save, reopen; and two runs side by side."""

from __future__ import annotations

import json
from typing import Any

import pytest
from contrast import COLOURS, faint
from measuring import watching
from pages import Lab
from waiting import wait_until

pytestmark = pytest.mark.browser

MADE = """from agentnb import ToolCall, diff
from agentnb.core.log.events import Origin
from agentnb.interchange.files import Runs
from agentnb.interchange.conversion.run_writer import RunWriter
def made(number):
    writer = RunWriter(Origin('by_hand', 'made.json', str(number), task=f't{number}', trial='1'), model='m')
    writer.say(f'Task {number}: <img src=x onerror=alert(1)>')
    for step in range(12):
        said = f'Step {step + 1} of task {number}' if step > 1 else 'First a look.'
        writer.reply(said, [ToolCall('dig', {'at': number if step == 5 else step})])
        writer.result('', 'stone ' * 60, is_error=step == 7)
    writer.reply(f'The answer of task {number}.')
    return writer.finish() if number % 2 == 0 else writer.finish(None)
"""
TRACES = MADE + "found = Runs([*map(made, range(230))])\nfound"
EXAMPLE = "%traces complex-fails"
GREET_AGAIN = """() => new Promise(done => {
    const {story} = document.querySelector('.agentnb-browser-replaced').agentnbBrowser;
    story.model.on('msg:custom', message => message.kind === 'opened' && done());
    story.greet();
})"""
"""Simulates a slow page, which greets until it is answered and gets as many answers."""
DIFF = "diff(made(0), made(1))"
"""Equal in two rounds, different words in three, then a different call."""


def opened(lab: Any, *cells: str) -> Any:
    """Return the browser that the last cell shows."""
    lab.share(["%load_ext agentnb", *cells])
    lab.run_all()
    return live_in(lab)


def live_in(lab: Any) -> Any:
    region = lab.page.get_by_role("region", name="Trace browser")
    region.wait_for()
    region.locator("[data-variable]").first.wait_for()
    return region


def until(part: Any, text: str) -> None:
    part.filter(has_text=text).first.wait_for()


def bottom(part: Any) -> float:
    box = part.bounding_box()
    return float(box["y"] + box["height"])


def is_clean(lab: Any) -> None:
    assert lab.errors() == [] and lab.complaints() == []


def test_runs_are_found_filtered_paged_and_opened(lab: Any) -> None:
    live = opened(lab, TRACES)
    told, rows = live.get_by_role("status"), live.locator("[data-place]")
    wait_until(lambda: told.inner_text() == "1 to 100 of 230 runs" and rows.count() == 100)
    wait_until(lambda: not live.get_by_label("Any format").is_visible())  # all are of one
    wait_until(lambda: "Task 0: <img" in live.locator("[data-run]").inner_text())
    following = live.get_by_role("button", name="Next runs")
    wait_until(lambda: bottom(following) <= bottom(live.locator("[data-list]")))  # in sight above 100 rows
    following.click()
    until(told, "101 to 200 of 230 runs")
    wait_until(lambda: lab.page.evaluate("() => document.activeElement.dataset.place") == "100")
    live.get_by_label("Any state").select_option("interrupted")
    until(told, "1 to 100 of 115 runs, of 230")
    until(live.locator("[data-variable]"), "found[1]")  # the open run was none of these
    live.get_by_label("Find in all runs").press_sequentially('"step 3 of task 77"')
    until(told, "1 run, of 230")
    rows.click()
    until(live.locator("[data-variable]"), "found[77]")
    wait_until(lambda: "The trace ends before the run does." in live.locator("[data-run]").inner_text())
    wait_until(lambda: "%agent" not in live.inner_text())
    live.get_by_role("button", name="Clear").click()
    until(told, "1 to 100 of 230 runs")
    is_clean(lab)


@pytest.mark.nightly("by day the list is opened by clicks")
def test_keys_navigate_runs_and_rounds_except_in_fields(lab: Any) -> None:
    live = opened(lab, TRACES)
    keys, at = lab.page.keyboard, live.locator("[data-at]")
    live.locator("[data-place]").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        keys.press(key)
    wait_until(lambda: lab.page.evaluate("() => document.activeElement.dataset.place") == "1")
    keys.press("Enter")
    until(live.locator("[data-variable]"), "found[1]")
    for key, wanted in (("n", "Round 1 of 13"), ("n", "Round 2 of 13"), ("n", "Round 3 of 13"), ("p", "Round 2 of 13")):
        keys.press(key)
        until(at, wanted)
    find = live.get_by_label("Find in all runs")
    find.press_sequentially("n p x")
    wait_until(lambda: at.inner_text() == "Round 2 of 13")
    find.press_sequentially("nowhere")
    until(live.get_by_role("status"), "0 runs, of 230")
    until(live.locator("[data-list]"), "No run contains “n p xnowhere”.")
    wait_until(lambda: live.locator("[data-run]").inner_text() == "" and at.inner_text() == "")
    find.fill("")
    until(live.locator("[data-variable]"), "found[1]")
    wait_until(lambda: lab.cell(1).locator(".jp-InputArea").count() == 1)  # x would have cut the cell
    is_clean(lab)


def test_failures_findings_and_search_words_are_navigable(lab: Any) -> None:
    live = opened(lab, EXAMPLE)
    wait_until(lambda: not live.get_by_label("Find in all runs").is_visible())  # it is the only one
    pane, at = live.locator("[data-run]"), live.locator("[data-at]")
    finding = pane.locator(".agentnb-finding").first
    wait_until(lambda: "nearly repeats that of round 3" in finding.inner_text())
    finding.get_by_role("link", name="4").first.click()
    until(at, "Round 4 of 7")
    live.get_by_role("button", name="Next failure or warning").click()
    until(at, "Round 4 of 7")
    live.get_by_role("button", name="Next failure or warning").click()
    until(at, "Round 5 of 7")
    lab.note_reached()
    pane.get_by_role("link", name="↑ finding 1").last.click()
    lab.wait_reached("1.")
    live.get_by_label("Find in this run").fill("radiators")
    lab.page.keyboard.press("Enter")
    until(live.locator(".agentnb-tools .agentnb-hint"), "1 of")
    is_clean(lab)


def test_repeated_initialization_keeps_the_reading_position(lab: Any) -> None:
    live = opened(lab, EXAMPLE)
    live.locator("[data-run] .agentnb-finding").first.get_by_role("link", name="4").first.click()
    until(live.locator("[data-at]"), "Round 4 of 7")
    lab.page.evaluate(GREET_AGAIN)
    live.get_by_role("button", name="Next round").click()
    until(live.locator("[data-at]"), "Round 5 of 7")
    is_clean(lab)


def test_opening_runs_causes_no_layout_shift(lab: Any) -> None:
    live = opened(lab, TRACES)
    with watching(lab.page) as watched:
        for place in (3, 0, 2):
            live.locator(f"[data-place='{place}']").click()
            until(live.locator("[data-variable]"), f"found[{place}]")
    assert watched.moved("agentnb") == []
    wait_until(lambda: live.bounding_box()["height"] <= 760)


@pytest.mark.nightly("by day test_saved_in_lab saves cards")
def test_saved_trace_browser_works_with_and_without_a_kernel(lab: Lab, subtests: pytest.Subtests) -> None:
    lab.open(lab.write("traces.ipynb", ["%load_ext agentnb", TRACES]))
    lab.run_all()
    live = live_in(lab)
    live.locator("[data-place='4']").click()
    until(live.locator("[data-variable]"), "found[4]")
    lab.save()
    (output,) = lab.outputs(1)
    assert set(output["data"]) == {"text/html", "text/plain"} and "widget" not in json.dumps(output)
    with subtests.test("a page that is loaded again shows it as it was"):
        lab.reload()
        live = live_in(lab)
        wait_until(lambda: live.locator("[data-variable]").inner_text() == "found[4]")
        live.locator("[data-place='6']").click()
        until(live.locator("[data-variable]"), "found[6]")
        lab.save()
    with subtests.test("a kernel that has gone leaves the saved form"):
        lab.end_kernels()
        saved = lab.page.locator(".agentnb-browser")
        saved.wait_for()
        wait_until(lambda: "Run this cell again" in saved.inner_text() and live.count() == 0)
    with subtests.test("a copy that is not trusted shows the same"):
        lab.open_untrusted("traces.ipynb")
        saved = lab.page.locator(".agentnb-browser")
        saved.wait_for()
        wait_until(lambda: "Task 6:" in saved.locator(".agentnb-browser-run").inner_text())
        saved.locator("summary").first.click()
        saved.locator(".agentnb-compact-answer").first.wait_for()
    is_clean(lab)


@pytest.mark.nightly("by day the contrast of the styles is computed")
def test_every_word_is_readable_in_both_themes_and_widths(lab: Any, subtests: pytest.Subtests) -> None:
    live = opened(lab, MADE + "Runs([*map(made, range(9))])")
    lab.write_last(DIFF)
    lab.start_active()
    side_by_side = lab.page.locator(".agentnb-diff")
    side_by_side.wait_for()
    for theme in ("Light", "Dark"):
        lab.theme(theme)
        for width in (1400, 700):
            lab.width(width)
            for name, part in (("browser", live), ("diff", side_by_side)):
                with subtests.test(name, theme=theme, width=width):
                    part.scroll_into_view_if_needed()
                    wait_until(lambda: faint(part.evaluate(COLOURS)) == [])
                    wait_until(lambda: part.evaluate("one => one.scrollWidth <= one.clientWidth"))
                    lab.shot(f"{name}-{theme}-{width}", lab.page)


def test_difference_view_is_side_by_side_and_links_to_rounds(lab: Any) -> None:
    lab.share(["%load_ext agentnb", MADE + DIFF])
    lab.run_all()
    shown = lab.page.locator(".agentnb-diff")
    shown.wait_for()
    wait_until(lambda: "They diverge at round 6 of a and round 6 of b" in shown.inner_text())
    wait_until(lambda: "rounds 1 to 2 are alike" in shown.inner_text())
    link = shown.locator(".agentnb-why").get_by_role("link").last
    wait_until(
        lambda: shown.locator(f"[id='{str(link.get_attribute('href')).removeprefix('#')}']").inner_text().startswith("Round\n6")
    )

    def distance() -> tuple[float, float]:
        """Return the offset of the second column from the first: to the right, and down."""
        first, second = (shown.locator(".agentnb-diff-column").nth(place).bounding_box() for place in (0, 1))
        return second["x"] - first["x"], second["y"] - first["y"]

    wait_until(lambda: distance()[0] > 0 == distance()[1])
    lab.width(700)
    wait_until(lambda: distance()[1] > 0 == distance()[0])
    is_clean(lab)
