"""A finished card in a browser: its size, its legibility, and its links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from contrast import COLOURS, faint
from finished_runs import finished_runs
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_notebook, new_output
from waiting import wait_until

from agentnb import load_trace
from agentnb.display.card.html import run_html
from agentnb.display.card.run_page import page_html
from agentnb.display.markdown.markdown import markdown_html

pytestmark = [pytest.mark.browser, pytest.mark.nightly("by day test_saved_in_lab and the tests of display")]
MOST = 700
"""Maximum height in pixels of a finished card without figures and with a short answer."""
GROUNDS = {"light": ("#fff", "rgba(0, 0, 0, .87)"), "dark": ("#111", "rgba(255, 255, 255, .87)")}
"""Background of outputs and text colour in JupyterLab."""
IN_SIGHT = """one => {
    const { top, bottom } = one.getBoundingClientRect();
    return one.checkVisibility() && bottom > 0 && top < innerHeight;
}"""
OPEN = "() => document.querySelectorAll('details').forEach(one => { one.open = true; })"
MIXED = re.compile(r"color:color-mix\([^;]*;")
"""Tags and attributes that JupyterLab drops from an untrusted notebook."""


def show(page: Any, html: str, folder: Path, ground: str = "light") -> None:
    """Load the page with only this card on this background."""
    colour, ink = GROUNDS[ground]
    style = f"body {{ margin: 0; background: {colour}; color: {ink}; font: 14px sans-serif }} p {{ margin: 0 0 1em }}"
    file = folder / "card.html"
    file.write_text(f'<!doctype html><meta charset="utf-8"><style>{style}</style><body>{html}', encoding="utf-8")
    page.goto(file.as_uri())


def shown(browser: Any, html: str, folder: Path) -> Any:
    """Open a page with this card."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    show(page, html, folder)
    return page


def check_every_word(page: Any, folder: Path, subtests: pytest.Subtests, name: str, html: str) -> None:
    """Check that every word is readable on light and dark backgrounds, in trusted and untrusted notebooks."""
    for ground in GROUNDS:
        for trust, form in {"trusted": html, "not trusted": MIXED.sub("", html)}.items():
            with subtests.test(name, ground=ground, trust=trust):
                show(page, form, folder, ground)
                page.evaluate(OPEN)
                colours = page.locator(".agentnb-run").evaluate(COLOURS)
                assert len(colours) >= 5 and faint(colours) == []


def test_finished_card_has_a_bounded_height_whatever_happened(browser: Any, tmp_path: Path, subtests: pytest.Subtests) -> None:
    page = browser.new_page()
    for name, run in finished_runs().items():
        show(page, run_html(run), tmp_path)
        for width in (1400, 700):
            with subtests.test(name, width=width):
                page.set_viewport_size({"width": width, "height": 900})
                card = page.locator(".agentnb-run")
                wait_until(lambda: card.bounding_box()["height"] <= MOST and card.bounding_box()["width"] == width)
                wait_until(lambda: page.evaluate("() => document.documentElement.scrollWidth") <= width)
    page.context.close()


ROOM = """run => {
    const block = run.parentElement.parentElement.appendChild(document.createElement('div'));
    const room = block.getBoundingClientRect().width;
    block.remove();
    return room;
}"""
"""Width of the output that holds a card, without the 20 px that JupyterLab leaves at its end."""


def test_exported_card_is_as_wide_as_its_cell(browser: Any, tmp_path: Path, subtests: pytest.Subtests) -> None:
    card = new_output("display_data", data={"text/html": run_html(finished_runs()["six failed calls"])})
    notebook = new_notebook(cells=[new_code_cell("%%agent\nWhich is the heaviest?", execution_count=1, outputs=[card])])
    page = browser.new_page()
    for template in ("lab", "classic", "basic"):
        html, _ = HTMLExporter(template_name=template).from_notebook_node(notebook)
        file = tmp_path / f"{template}.html"
        file.write_text(html, encoding="utf-8")
        page.goto(file.as_uri(), wait_until="domcontentloaded")  # offline: the page requests MathJax
        run = page.locator(".agentnb-run")
        for width in (700, 1400):
            with subtests.test(template, width=width):
                page.set_viewport_size({"width": width, "height": 900})
                wait_until(
                    lambda: (
                        run.bounding_box()["width"] == pytest.approx(run.evaluate(ROOM), abs=2)
                        and run.evaluate(ROOM) > width / 2
                    )
                )
                wait_until(lambda: page.evaluate("() => document.documentElement.scrollWidth") <= width)
    page.context.close()


def test_formula_is_rendered_and_its_hidden_parts_take_no_space(browser: Any, tmp_path: Path) -> None:
    page = shown(browser, markdown_html("$\\frac{a}{b}$ and $\\frac{a+1}{b+2}$"), tmp_path)
    over, under = page.locator("mfrac").first.locator("mi").all()
    wait_until(lambda: over.bounding_box()["y"] + over.bounding_box()["height"] <= under.bounding_box()["y"] + 2)
    wait_until(lambda: "/" not in page.locator("p").inner_text())
    wait_until(lambda: page.locator("p").text_content() == "a/b  and (a+1)/(b+2) ")
    wait_until(lambda: [one.bounding_box()["width"] for one in page.locator("mpadded").all()] == [0] * 5)
    page.context.close()


def test_words_are_not_broken_in_the_middle_of_lines(browser: Any, tmp_path: Path) -> None:
    page = shown(
        browser, "<style>pre { word-break: break-all }</style>" + run_html(finished_runs()["six failed calls"]), tmp_path
    )
    breaks = "run => [...run.querySelectorAll('pre, pre *')].map(one => getComputedStyle(one).wordBreak)"
    breaks_found = page.locator(".agentnb-run").evaluate(breaks)
    assert len(breaks_found) > 20 and set(breaks_found) == {"normal"}
    page.context.close()


def test_every_word_is_readable_on_light_and_dark_backgrounds(browser: Any, tmp_path: Path, subtests: pytest.Subtests) -> None:
    page = browser.new_page()
    for name, run in finished_runs().items():
        check_every_word(page, tmp_path, subtests, name, run_html(run, details=True))
    page.context.close()


def test_page_is_readable_in_both_colour_schemes(browser: Any, tmp_path: Path, subtests: pytest.Subtests) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_html(finished_runs()["six failed calls"]), encoding="utf-8")
    for scheme in GROUNDS:
        with subtests.test(scheme):
            page = browser.new_context(color_scheme=scheme).new_page()
            page.goto(file.as_uri())
            page.evaluate(OPEN)
            wait_until(lambda: faint(page.locator("body").evaluate(COLOURS)) == [])
            page.context.close()


def test_link_to_a_failure_opens_the_transcript_at_its_round(browser: Any, tmp_path: Path) -> None:
    """Runs without a script: the browser opens the folds around a link target."""
    page = shown(browser, run_html(finished_runs()["six failed calls"]), tmp_path)
    wrong = page.locator(".agentnb-wrong").first
    wait_until(lambda: wrong.inner_text() == "6 failed calls: rounds 2, 3, 4, 5, 6, 7")
    wait_until(lambda: not page.locator("[data-round='3']").is_visible())
    wrong.get_by_role("link", name="4").click()
    page.locator("[data-round='3']").wait_for()
    wait_until(lambda: "✗ failed" in page.locator("[data-round='3']").inner_text())
    page.context.close()


def test_findings_and_their_rounds_link_to_each_other(browser: Any, tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Runs without a script."""
    run = load_trace("complex-fails")
    for name, html in (("card", run_html(run)), ("page", page_html(run))):
        with subtests.test(name):
            page = shown(browser, html, tmp_path)
            page.set_viewport_size({"width": 700, "height": 200})
            page.locator(".agentnb-finding").get_by_role("link", name="7").click()
            there = page.locator("[data-round='6']")
            wait_until(lambda: there.evaluate(IN_SIGHT) and "repeated the answer" in there.inner_text())
            there.get_by_role("link", name="↑ finding 1").click()
            wait_until(lambda: page.locator(".agentnb-finding").evaluate(IN_SIGHT) and not there.evaluate(IN_SIGHT))
            page.context.close()
