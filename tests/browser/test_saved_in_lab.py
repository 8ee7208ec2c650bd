"""Saved runs: opened by others, in other programs, and as a page."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from browsing import StayingPage
from pages import SHOTS
from waiting import wait_until

pytestmark = pytest.mark.browser
OTHER_LOOKS = pytest.mark.nightly("by day dark and narrow")
FIRST_RUN = 9
"""The quickstart cell with the first run."""
FAILING = 22
"""The quickstart cell with failing tools."""
OPEN = "() => document.querySelectorAll('details').forEach(one => { one.open = !one.closest('.agentnb-sight'); })"


@pytest.fixture(scope="module")
def saved(staying_page: StayingPage) -> Path:
    """Return the quickstart, run and saved in JupyterLab."""
    lab = staying_page.take()
    lab.open("01_quickstart.ipynb")
    lab.run_all()
    lab.save()
    assert lab.errors() == []
    assert lab.complaints() == []
    staying_page.give_back(spoiled=False)
    return Path(lab.folder, "01_quickstart.ipynb")


def outputs(notebook: Path) -> list[dict[str, Any]]:
    content = json.loads(notebook.read_text("utf-8"))
    return [output for cell in content["cells"] for output in cell.get("outputs", ())]


def cards(notebook: Path) -> list[str]:
    """Return the HTML of each run in the notebook."""
    found = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs(notebook)]
    return [html for html in found if 'class="agentnb-run"' in html]


def test_saved_file_has_html_and_text_but_no_widget(saved: Path) -> None:
    content = json.loads(saved.read_text("utf-8"))
    assert "widgets" not in content["metadata"]
    assert len(cards(saved)) >= 6
    for output in outputs(saved):
        if "agentnb-run" in json.dumps(output):
            assert set(output["data"]) == {"text/html", "text/plain"}
            assert output["metadata"] == {}
    assert "widget" not in json.dumps([output.get("data", {}) for output in outputs(saved)])


def test_saved_run_is_readable_without_a_kernel(lab: Any, saved: Path) -> None:
    lab.open_untrusted(saved.name)
    lab.end_kernels()
    wait_until(lambda: not lab.trusts(FIRST_RUN))
    lab.output(FIRST_RUN).scroll_into_view_if_needed()  # JupyterLab hides distant cells
    run = lab.output(FIRST_RUN).locator(".agentnb-run")
    shown = "chip => chip.innerText !== ''"
    lab.page.wait_for_function(shown, arg=run.locator(".agentnb-chip").element_handle())
    wait_until(lambda: run.locator(".agentnb-chip").inner_text() == "• Done, not checked")
    head = run.locator(".agentnb-head")
    wait_until(lambda: "6 rounds" in head.inner_text() and "tokens" in head.inner_text())
    fold, details = run.locator(".agentnb-part").first, run.locator(".agentnb-part").last
    wait_until(lambda: "simulated:disciplined" in details.text_content())
    wait_until(lambda: "Todos 3 of 3" in run.text_content())
    wait_until(lambda: "Gentoo" in lab.output(FIRST_RUN).locator(".agentnb-answer").inner_text())
    wait_until(lambda: not fold.evaluate("fold => fold.open"))
    fold.locator("summary").first.click()
    wait_until(lambda: fold.locator(".agentnb-round").count() == 6)
    tool = fold.locator(".agentnb-tool", has=lab.page.locator(".agentnb-tool-name", has_text="compare")).first
    tool.locator("summary").first.click()
    wait_until(lambda: tool.locator("table").first.is_visible() and "Adelie" in tool.inner_text())
    tool.locator("summary").first.click()
    wait_until(lambda: not tool.locator("table").first.is_visible())
    details.locator("summary").first.click()
    details.locator(".agentnb-saw > summary").first.click()
    wait_until(lambda: "Which species of penguin is the heaviest" in details.locator(".agentnb-sight").first.inner_text())
    fold.locator("summary").first.click()
    wait_until(lambda: not fold.locator(".agentnb-round").first.is_visible())
    assert lab.complaints() == []


FOLD = """run => run.querySelectorAll('details').forEach(one => {
    one.agentnbFirst ??= {open: one.open};
    one.open = one.agentnbFirst.open;
})"""
UNFOLD = "run => run.querySelectorAll('details').forEach(one => { one.open = !one.closest('.agentnb-saw'); })"


@pytest.mark.nightly("by day a saved run is read without a kernel")
def test_untrusted_run_does_not_overflow_its_output_area(lab: Any, saved: Path, subtests: pytest.Subtests) -> None:
    lab.open_untrusted(saved.name)
    for width in (1400, 700):
        lab.width(width, 1400)
        if width == 700:
            lab.command_done("application:toggle-left-area")
        for theme in ("Light", "Dark"):
            lab.theme(theme)
            for index in (FIRST_RUN, FAILING):
                with subtests.test(f"{width} {theme} {index}"):
                    output = lab.output(index)
                    output.scroll_into_view_if_needed()
                    run = output.locator(".agentnb-run")
                    run.evaluate(FOLD)
                    lab.shot(f"untrusted-{theme}-{width}-{index}-folded", output)
                    run.evaluate(UNFOLD)
                    run.locator(".agentnb-saw").nth(1).evaluate("one => { one.open = true; }")
                    wait_until(lambda: run.evaluate("run => run.scrollWidth - run.clientWidth") <= 0)
                    lab.shot(f"untrusted-{theme}-{width}-{index}-open", output)


@pytest.mark.parametrize("kind", ["html", "markdown"])
def test_nbconvert_writes_a_readable_run(saved: Path, kind: str) -> None:
    import nbconvert

    text, _ = nbconvert.get_exporter(kind)(template_name="lab" if kind == "html" else "markdown").from_filename(str(saved))
    wanted = ["Transcript, ", "Round ", "Which species", "Gentoo", "todo_operations", "compare", "what the model saw"]
    for words in wanted:
        assert words in text, words
    assert "widget-view" not in text


def test_execution_without_a_browser_leaves_no_widget(tmp_path: Path) -> None:
    """Runs it like nbconvert --execute and papermill."""
    import nbformat
    from nbclient import NotebookClient

    cells = ["%load_ext agentnb", "%%agent -m simulated:disciplined\nHello.", "run"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert "widgets" not in notebook.metadata
    shown = [output.data for cell in notebook.cells for output in cell.outputs if "data" in output]
    assert len(shown) >= 2
    assert all(set(data) <= {"text/html", "text/plain", "text/markdown"} for data in shown)


def test_saved_run_is_readable_in_order_without_styles(browser: Any, saved: Path, tmp_path: Path) -> None:
    """GitHub keeps neither styles nor classes."""
    bare = [re.sub(r' (?:style|class|data-[a-z-]+|role|aria-[a-z]+|tabindex)="[^"]*"', "", html) for html in cards(saved)]
    file = tmp_path / "bare.html"
    file.write_text('<!doctype html><meta charset="utf-8">' + "<hr>".join(bare), encoding="utf-8")
    page = browser.new_page(viewport={"width": 900, "height": 1400})
    page.goto(file.as_uri())
    wait_until(lambda: page.locator("[style], [class]").count() == 0)
    _shot(page, "bare-folded")
    first = page.locator("body > div").first
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    wanted = ["• Done, not checked 6 rounds · ", "Gentoo", "Transcript, 6 rounds"]
    wanted += ["Round 1", "todo_operations", "Round 2", "Todos 3 of 3"]

    def places() -> list[int]:
        words = " ".join(first.inner_text().split())
        return [words.find(phrase) for phrase in [*wanted, "Details", "input: "]]

    wait_until(lambda: -1 not in places() and places() == sorted(places()))
    failing = page.locator("body > div").nth(2)
    for words in ("✗ failed", "failed: invalid arguments"):
        wait_until(lambda: words in " ".join(failing.inner_text().split()))
    _shot(page, "bare-open")
    page.context.close()


@pytest.mark.parametrize(
    ("scheme", "width"),
    [("dark", 700), *[pytest.param(*one, marks=OTHER_LOOKS) for one in (("light", 700), ("light", 1400), ("dark", 1400))]],
)
def test_page_is_readable_on_any_background(browser: Any, saved: Path, tmp_path: Path, scheme: Any, width: int) -> None:
    from agentnb import load_trace, save_trace

    logs = sorted(saved.parent.glob(".agentnb/runs/*.jsonl"), key=lambda log: log.stat().st_mtime)
    assert len(logs) >= 6
    for name, log in (("first", logs[0]), ("failing", logs[2])):
        file = save_trace(load_trace(log), tmp_path / f"{name}.html")
        context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 1200})
        page = context.new_page()
        said: list[str] = []
        fetched: list[str] = []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("request", lambda request, fetched=fetched: fetched.append(request.url))
        page.goto(file.as_uri())
        _shot(page, f"page-{name}-{scheme}-{width}")
        page.evaluate(OPEN)
        _shot(page, f"page-{name}-{scheme}-{width}-open")
        wait_until(lambda: page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0)
        assert said == []
        assert [url for url in fetched if not url.startswith("data:")] == [file.as_uri()]
        ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 17, 17)"}[scheme]
        context.close()


def _shot(page: Any, name: str) -> None:
    if folder := os.environ.get(SHOTS):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
