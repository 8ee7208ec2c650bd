"""The basis of the browser tests: kernels of several versions, pages, and measuring."""

from __future__ import annotations

import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import pytest
from measuring import Message, Traffic, Work, busiest, elements, model_ids, most_in_a_second, watching, working
from waiting import wait_until

pytestmark = pytest.mark.browser
PROTOTYPE = Path(__file__).with_name("prototype.py").read_text(encoding="utf-8")
BLOCK = "block('one', ticks=20)"
GROUND = pytest.mark.nightly("the card tests of the daily suite cover this")
MEASURED = pytest.mark.nightly("what these measure is measured at night only")


def click_stop(page: Any) -> None:
    """Click after the ticks: then the page surely has a subshell to send to."""
    page.page.locator(".prototype span", has_text="20").first.wait_for()
    page.page.locator(".prototype button").first.click()


@pytest.mark.parametrize("version", ["7.3.0", *[pytest.param(version, marks=GROUND) for version in ("7.4.0", "newest")]])
def test_click_reaches_blocked_kernel_on_each_ipykernel_version(lab: Any, kernels: Any, version: str) -> None:
    kernel = kernels(version)
    lab.open(lab.write(f"blocked-{version}.ipynb", [PROTOTYPE, BLOCK], kernel))
    assert lab.value("__import__('ipykernel').__version__") == repr(kernels.version_of(kernel))
    assert lab.value("__import__('sys').executable") == repr(sys.executable), "nothing else differs between the kernels"
    assert lab.value("__import__('ipywidgets').__version__") == repr(installed("ipywidgets"))
    lab.run(0)
    lab.start(1)
    click_stop(lab)
    lab.wait_done(1)
    wait_until(lambda: "heard" in lab.output(1).inner_text())
    assert lab.complaints() == []


@GROUND
def test_old_ipykernel_receives_interrupts_but_no_clicks(lab: Any, kernels: Any) -> None:
    lab.open(lab.write("six.ipynb", [PROTOTYPE, BLOCK], kernels("6.31.0")))
    assert lab.value("__import__('ipykernel').__version__") == "'6.31.0'"
    lab.run(0)
    lab.start(1)
    click_stop(lab)
    lab.interrupt()
    lab.wait_done(1)
    wait_until(lambda: "KeyboardInterrupt" in lab.output(1).inner_text())


@GROUND
def test_unsigned_copy_is_shown_untrusted_and_sanitized(lab: Any) -> None:
    lab.open(lab.write("signed.ipynb", [PROTOTYPE, BLOCK]))
    lab.run(0)
    lab.start(1)
    click_stop(lab)
    lab.wait_done(1)
    wait_until(lambda: lab.trusts(1))
    wait_until(lambda: lab.output(1).locator("style").count() == 1)
    lab.save()
    lab.reload()
    wait_until(lambda: lab.trusts(1))
    lab.open_untrusted("signed.ipynb")
    wait_until(lambda: not lab.trusts(1))
    wait_until(lambda: lab.output(1).locator("b.over").count() == 1)
    wait_until(lambda: lab.output(1).locator("style").count() == 0)


@GROUND
def test_page_reload_keeps_only_the_kernel_and_saved_file(fresh_lab: Any) -> None:
    lab = fresh_lab
    lab.open(lab.write("kept.ipynb", ["kept = 41; kept"]))
    lab.run(0)
    lab.reload()
    assert lab.value("kept + 1") == "42"
    assert lab.outputs(0) == []
    assert lab.stored("kept.ipynb")["cells"][0]["outputs"] == []


@GROUND
def test_second_view_of_an_output_shows_the_same_content(lab: Any) -> None:
    lab.open(lab.write("views.ipynb", [PROTOTYPE, BLOCK]))
    lab.run(0)
    lab.start(1)
    lab.page.locator(".prototype").wait_for()
    view = lab.second_view(1)
    view.locator(".prototype button").click()
    lab.wait_done(1)
    wait_until(lambda: "heard" in view.inner_text())


@MEASURED
def test_every_widget_message_is_counted(lab: Any) -> None:
    traffic = Traffic(lab.page)
    lab.open(lab.write("traffic.ipynb", [PROTOTYPE, BLOCK]))
    lab.run(0)
    lab.start(1)
    lab.page.locator(".prototype span", has_text="20").wait_for()
    models = model_ids(lab.outputs(1))
    lab.page.locator(".prototype button").click()
    lab.wait_done(1)
    customs = [message for message in traffic.comm(models) if message.content["data"]["method"] == "custom"]
    assert [message.content["data"]["content"]["n"] for message in customs] == list(range(1, 21))


def test_message_rate_is_the_maximum_within_any_second() -> None:
    sent = [Message("iopub", "comm_msg", at, {}, 1) for at in (0.0, 0.5, 0.9, 1.2, 1.4, 3.0)]
    assert most_in_a_second(sent) == 4
    assert most_in_a_second([]) == 0


@MEASURED
def test_longest_task_is_measured_in_processor_time(browser: Any) -> None:
    page = browser.new_page()

    def rest() -> Work:
        with working(page) as resting:
            page.evaluate("() => new Promise(done => setTimeout(done, 1_000))")
        return resting

    with working(page) as busy:
        # Work, not time: on a crowded machine little of it fits into a second.
        page.evaluate("() => { let sum = 0; for (let i = 0; i < 3e8; i++) sum += Math.sqrt(i); return sum }")
    assert busiest(rest, 50) < 50 < busy.longest
    page.context.close()


@MEASURED
def test_measurement_detects_a_blocked_page_and_a_layout_shift(lab: Any) -> None:
    lab.open(lab.write("smooth.ipynb", ["1"]))
    with watching(lab.page) as watched:
        lab.page.evaluate("""async () => {
            const wait = time => new Promise(done => setTimeout(done, time));
            await wait(300);
            const until = performance.now() + 1000;
            while (performance.now() < until);
            await wait(300);
            const pusher = document.createElement('div');
            pusher.style.height = '100px';
            document.querySelector('.jp-Notebook .jp-Cell').prepend(pusher);
            await wait(300);
        }""")
    gap, began = watched.gaps()[0]
    assert watched.largest_gap() == gap > 500
    assert any(abs(start - began) < 200 and duration > 500 for start, duration in watched.long_tasks)
    assert watched.moved("jp-") != []


@GROUND
def test_tests_can_set_theme_and_width_and_take_screenshots(lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTNB_SHOTS", str(tmp_path / "shots"))
    lab.width(700)
    lab.open(lab.write("looks.ipynb", ["\n".join(["1"] * 200)]))
    for name in ("Light", "Dark"):
        lab.theme(name)
        lab.shot(f"looks-{name}")
    assert len(list((tmp_path / "shots").glob("*.png"))) == 2
    wait_until(lambda: lab.page.evaluate("window.innerWidth") == 700)
    assert elements(lab.cell(0)) > 200
    lab.scroll(300)
    wait_until(lambda: lab.scrolled() == 300)


def test_page_errors_are_collected(lab: Any) -> None:
    lab.open(lab.write("complains.ipynb", ["1"]))
    assert lab.complaints() == []
    lab.page.evaluate("() => console.error('said')")
    with lab.page.expect_event("pageerror", predicate=lambda _: len(lab.complaints()) == 2):
        lab.page.evaluate("() => { setTimeout(() => { throw new Error('thrown'); }) }")
    assert lab.complaints() == ["said", "thrown"]
