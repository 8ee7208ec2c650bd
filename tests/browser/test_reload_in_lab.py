"""Reloaded pages and dead kernels: the notebook keeps the run and no widget."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from page_scripts import CLOSE_ALL, CURRENT
from test_card_in_lab import GO, chip, ended, opened
from waiting import wait_until

from agentnb.notebook.card.unsaved import unsaved_html
from agentnb.notebook.card.widget import _widget_class

pytestmark = pytest.mark.browser
BACKGROUND = GO.replace("-m model", "-m model --background")


def replies(tool: str, what: str) -> str:
    return f"model = Slow([['First.', ToolCall('{tool}', {{'what': '{what}'}})], 'Second.'])"


def kept(lab: Any, index: int) -> None:
    """Wait until the document itself has the run as HTML, even out of view."""
    script = """index => {
        const outputs = CURRENT.content.model.sharedModel.cells[index].toJSON().outputs;
        return outputs.length && outputs.every(one => !JSON.stringify(one.data ?? {}).includes('widget-view'));
    }""".replace("CURRENT", CURRENT)
    lab.page.wait_for_function(script, arg=index)


def reopened(lab: Any, notebook: str, *runs: int) -> list[Any]:
    """Save, end the kernel, and reopen the notebook; return the saved cards of these cells."""
    lab.save()
    stored = lab.stored(notebook)
    lab.end_kernels()
    lab.open(notebook)
    assert "widget-view" not in json.dumps(stored)
    shown = []
    for index in runs:
        outputs = stored["cells"][index]["outputs"]
        assert [set(output["data"]) for output in outputs if "data" in output and "agentnb-run" in json.dumps(output)] == [
            {"text/html", "text/plain"}
        ]
        lab.cell(index).scroll_into_view_if_needed()
        shown.append(lab.cell(index).locator(".agentnb-run"))
        shown[-1].wait_for()
    wait_until(lambda: lab.page.get_by_text("Error displaying widget").count() == 0)
    return shown


@pytest.mark.nightly("by day a page keeps its content when the kernel ends")
def test_run_spanning_a_reload_or_closing_is_saved_completely(lab: Any) -> None:
    index = opened(lab, "reloaded", replies("wait", "reloaded-1"), BACKGROUND)
    lab.start(index)
    chip(lab, index, "Running wait")
    lab.save()
    lab.reload()
    chip(lab, index, "Running wait")
    lab.allow("reloaded-1")
    ended(lab, index, "Done")
    kept(lab, index)
    lab.run(lab.write_last(replies("wait", "closed")))
    closed = lab.write_last(BACKGROUND)
    lab.start(closed)
    chip(lab, closed, "Running wait")
    lab.save()
    lab.page.evaluate(CLOSE_ALL)
    lab.allow("closed")
    lab.open("reloaded.ipynb")
    ended(lab, closed, "Done")
    kept(lab, closed)
    lab.run(lab.write_last(replies("hold", "reloaded-2")))
    blocked = lab.write_last(GO)
    lab.start(blocked)
    chip(lab, blocked, "Running hold")
    lab.save()
    lab.reload(wait=False)
    lab.allow("reloaded-2")
    ended(lab, blocked, "Done")
    kept(lab, blocked)
    for run in reopened(lab, "reloaded.ipynb", index, closed, blocked):
        wait_until(lambda: "Done" in str(run.locator(".agentnb-chip").text_content()))
        wait_until(lambda: "First." in run.text_content() and "Second." in run.text_content())
    assert lab.complaints() == []


DEAD = "The kernel was restarted or died. Define your tools again and run: %load_ext agentnb, then %agent recover "
RESTART = "() => { window.restarted = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart() }"
HALF = """
first = [write("Load", "Sleep"), ToolCall("load_penguins", {"path": "x"})]
model = Slow([first, ["On **it**.", ToolCall("nap", {"seconds": 600})]])
"""


def is_dead(lab: Any, index: int) -> None:
    """Check that the card says what to type, keeps its content, and shows nothing as running or clickable."""
    run = lab.cell(index).locator(".agentnb-run")
    run.get_by_text(DEAD).wait_for()
    wait_until(lambda: run.locator(".agentnb-chip").all_inner_texts() == ["■ Interrupted"])
    calls = run.locator(".agentnb-tool-state")
    wait_until(lambda: calls.all_inner_texts() == ["■ interrupted"])  # successful calls have no mark
    wait_until(
        lambda: run.locator("strong", has_text="it").count() == 1 and run.locator("td", has_text="Chinstrap").count() == 1
    )
    wait_until(lambda: "○ Load" in " ".join(run.inner_text().split()))
    # The page may cover it with its own tools (copy, find) while the pointer is there.
    wait_until(lambda: run.locator(":is(button, input, form, progress):not(.agentnb-tools *)").count() == 0)
    wait_until(lambda: "running" not in run.inner_text() and "Running" not in run.inner_text())


def halfway(lab: Any, index: int) -> None:
    """Rerun the first two cells, and this one up to its nap."""
    for before in range(2):
        lab.run(before)
    lab.start(index)
    chip(lab, index, "Running nap")


def test_page_keeps_its_content_when_the_kernel_ends(lab: Any) -> None:
    index = opened(lab, "killed", HALF, GO)
    background = lab.write_last(BACKGROUND)
    process = int(lab.value("__import__('os').getpid()"))
    lab.start(index)
    chip(lab, index, "Running nap")
    os.kill(process, signal.SIGKILL)
    is_dead(lab, index)
    lab.page.locator(".jp-Dialog button", has_text="Ok").click()  # the message that the kernel died and restarts
    for theme in ("Light", "Dark"):
        lab.theme(theme)
        for width in (700, 1400):
            lab.width(width)
            lab.shot(f"dead-{theme.lower()}-{width}", lab.cell(index))
    lab.wait_idle()
    halfway(lab, index)
    lab.page.evaluate(RESTART)
    is_dead(lab, index)
    lab.page.evaluate("() => window.restarted")  # earlier, the server cannot end the kernel
    lab.wait_idle()
    halfway(lab, background)
    lab.command("kernelmenu:shutdown")  # a run that waits in its cell would be stopped first
    is_dead(lab, background)
    reopened(lab, "killed.ipynb", index, background)
    for cell in (index, background):
        is_dead(lab, cell)


ELSEWHERE = """async (source) => {
    const module = await import(URL.createObjectURL(new Blob([source], {type: 'text/javascript'})));
    const traits = {key: 'k', remains: '<div data-rounds></div>'};
    const listening = [];
    window.sent = [];
    const model = {
        get: name => traits[name],
        on: (name, call) => name === 'msg:custom' && listening.push(call),
        off: () => {},
        send: message => { if (window.dead) throw new Error('closed'); window.sent.push(message); },
    };
    window.tell = message => listening.forEach(call => call(message));
    const hooks = module.default;
    hooks.initialize({model});
    hooks.render({model, el: document.body});
}"""
"""The module of a card in a page without a notebook, as in VS Code and Colab."""


def test_page_without_a_notebook_warns_that_output_is_unsaved(browser: Any) -> None:
    page = browser.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.evaluate(ELSEWHERE, _widget_class()._esm)
    unsaved = unsaved_html("20261122-101010-abcdef01234", stored=True)
    page.evaluate("told => tell(told)", {"kind": "ended", "html": "<p>All of it</p>", "text": "All", "unsaved": unsaved})
    wait_until(
        lambda: "All of it" in page.inner_text("body") and "This output is lost when the kernel ends" in page.inner_text("body")
    )
    page.get_by_role("button", name="Save as HTML").click()
    asked = page.evaluate("() => sent.at(-1)")
    assert asked.items() >= {"do": "page", "key": "page"}.items()
    page.evaluate("told => tell(told)", {"kind": "fill", "key": "page", "html": "Saved as x.html"})
    page.evaluate("told => tell(told)", {"kind": "heard", "id": asked["id"], "error": "", "note": ""})
    wait_until(lambda: "Saved as x.html" in page.inner_text("body"))
    page.evaluate("() => { window.dead = true }")
    page.get_by_role("button", name="Save as HTML").click()
    wait_until(lambda: "All of it" in page.inner_text("body"))  # a kernel that dies now removes nothing
    assert said == []
    page.context.close()
