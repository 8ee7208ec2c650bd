"""The worst texts of models and tools in the browser: in the live card, the saved form and the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import StayingPage
from guards import DISPLAY, Guard, outline
from hostile_runs import hostile_run
from pages import Lab
from property_settings import size
from waiting import wait_until

from agentnb import save_trace

pytestmark = [pytest.mark.browser, pytest.mark.nightly("by day the tests of display show these texts without a browser")]
PARTS = ["markup", "text", "links", "huge"]
NIGHTLY = pytest.mark.nightly("by day the other tests show these texts")
IMPORTS = "import hostile_runs\nfrom hostile_runs import play"
EVERY = size(2, nightly=1)
"""A live card shows one of this many texts; pages show all."""


class WatchedLab(Lab):
    """A page that is watched from before it is loaded."""

    def __init__(self, page: Any, url: str, folder: Path) -> None:
        super().__init__(page, url, folder)
        self.guard = Guard(page, url)


@pytest.fixture(scope="module")
def watched_page(browser: Any, server: tuple[str, Path]) -> Iterator[StayingPage]:
    """Return a page that only the tests of this file share."""
    page = StayingPage(browser, WatchedLab, *server)
    yield page
    page.close()


@pytest.fixture
def watched_lab(request: pytest.FixtureRequest, watched_page: StayingPage) -> Iterator[WatchedLab]:
    failed = request.session.testsfailed
    yield watched_page.take()
    watched_page.give_back(spoiled=request.session.testsfailed > failed)


def opened(lab: WatchedLab, name: str, *cells: str) -> None:
    for file in ("hostile.py", "hostile_runs.py"):
        shutil.copy(DISPLAY / file, lab.folder)
    lab.open(lab.write(f"{name}.ipynb", ["%load_ext agentnb\n" + IMPORTS, *cells]))
    lab.run(0)


@pytest.mark.parametrize("part", [PARTS[0], *[pytest.param(part, marks=NIGHTLY) for part in PARTS[1:]]])
def test_hostile_text_is_harmless_live_saved_and_untrusted(watched_lab: WatchedLab, part: str) -> None:
    lab, guard = watched_lab, watched_lab.guard
    opened(lab, f"hostile-{part}", f"may_end = play({part!r}, every={EVERY})")
    before = outline(lab.page)
    lab.run(1)
    last = lab.value(f"len(hostile_runs.texts_of({part!r})[::{EVERY}]) - 1")
    card = lab.cell(1).locator(".agentnb-card")
    card.locator(f".agentnb-round[data-round='{last}'] [data-piece=said]").wait_for(state="attached", timeout=120_000)
    card.locator(".agentnb-chip", has_text="Running").wait_for(timeout=120_000)  # between its last round and its end
    guard.check()
    lab.shot(f"hostile-{part}-live")
    _open_all(lab, card)
    guard.check()
    lab.value("may_end.set()")
    lab.output(1).locator(".agentnb-run .agentnb-chip", has_text="Failed").wait_for()
    _unfold(lab)
    guard.check()
    lab.shot(f"hostile-{part}-saved")
    lab.save()
    lab.open_untrusted(f"hostile-{part}.ipynb")
    lab.output(1).locator(".agentnb-run .agentnb-chip", has_text="Failed").wait_for()
    wait_until(lambda: not lab.trusts(1))
    _unfold(lab)
    guard.check()
    assert _cut_off(lab) == []
    lab.shot(f"hostile-{part}-untrusted")
    assert outline(lab.page) == before
    assert lab.complaints() == []


def _open_all(lab: Any, card: Any) -> None:
    """Open the request view of some rounds, and all cut texts."""
    lab.page.evaluate("""() => {
        const card = document.querySelector('.agentnb-card');
        card.querySelector('[data-details]')?.click();
        const saw = [...card.querySelectorAll('.agentnb-saw > summary')];
        for (const one of [...saw.slice(0, 12), saw.at(-1)]) one.click();
        for (const one of [...card.querySelectorAll('.agentnb-tool > summary')].slice(0, 60)) {
            if (!one.parentElement.open) one.click();
        }
        for (const one of [...card.querySelectorAll('[data-do=all]')].slice(0, 30)) one.click();
    }""")
    card.locator(".agentnb-sight").nth(11).wait_for(state="attached")
    _settled(lab.page)  # another click may have reduced their number


def _cut_off(lab: Any) -> list[str]:
    """Return content that overflows its card and can neither be scrolled to nor is marked as cut."""
    return list(
        lab.page.evaluate("""() => [...document.querySelectorAll('.agentnb-run, .agentnb-run *')].filter(one => {
        const style = getComputedStyle(one);
        return style.overflowX === 'hidden' && style.textOverflow !== 'ellipsis' && one.scrollWidth > one.clientWidth + 1
            && !one.matches('.agentnb-unseen');
    }).map(one => one.className + ': ' + one.textContent.slice(0, 80))""")
    )


def _unfold(lab: Any) -> None:
    lab.page.evaluate("() => document.querySelectorAll('.agentnb-run details').forEach(one => { one.open = true; })")
    _settled(lab.page)


def _settled(page: Any) -> None:
    """Wait until the page has drawn everything and had time to run and fetch forbidden things."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestIdleCallback(done)))")
    page.wait_for_timeout(200)


@pytest.mark.parametrize("end", ["failed", "completed"])
@pytest.mark.parametrize("part", PARTS)
def test_hostile_text_is_harmless_in_an_exported_page(browser: Any, tmp_path: Path, part: str, end: str) -> None:
    file = save_trace(hostile_run(part, end), tmp_path / "run.html")
    page = browser.new_page()
    guard = Guard(page, file.as_uri())
    page.goto(file.as_uri())
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
    _settled(page)
    guard.check()
    assert guard.said == []
    wait_until(lambda: page.evaluate("() => [...document.body.children].map(one => one.localName)") == ["main", "template"])
    wait_until(lambda: page.evaluate("() => document.documentElement.scrollWidth - window.innerWidth") <= 0)
    assert page.title().endswith("· agentnb")
    page.context.close()
