"""A page with one notebook, in JupyterLab or the classic Notebook 7: actions of a person, and visible results."""

from __future__ import annotations

import json
import os
import re
import urllib.request
from pathlib import Path
from typing import Any

from page_scripts import (
    ANSWERED,
    CLEAR_SHARED,
    CLOSE_ALL,
    CURRENT,
    FORGET,
    HEARS_OF_WIDGETS,
    IDLE,
    KERNEL,
    LOOK_FOR_KERNELS,
    NOTE_REACHED,
    PUT_CELLS,
    REACHED,
    REACHED_SOON,
    SETTLED,
    STATE,
)

SHOTS = "AGENTNB_SHOTS"
"""Folder for screenshots. Without it none are taken."""
KERNELS_OWN = re.compile(
    r"Task was destroyed but it is pending!\s+task: <Task pending name='[^']*' coro=<_async_in_context\."
    r"|\S+ RuntimeWarning: coroutine '_async_in_context\.<locals>\.run_in_context' was never awaited"
)
"""ipykernel ends a subshell while it waits for messages, and Python reports that in the cell that collects the garbage."""
SHARED = "shared.ipynb"
"""The notebook shared by tests that need none of their own."""


class Lab:
    """A page with one notebook."""

    ADDRESS = "{url}/lab/tree/{notebook}?token=t&reset"
    NOT_OURS: tuple[str, ...] = (
        r"(?s)^Failed to execute 'removeChild' on 'Node'.*/jlab_core\.",
        r"^Could not restore the debugger state",
    )
    """Patterns of this application's own console errors. JupyterLab: its splash screen is removed twice, and its
    debugger asks a kernel of a closed notebook."""

    def __init__(self, page: Any, url: str, folder: Path) -> None:
        self.page = page
        self.url = url
        self.folder = folder
        self.said: list[str] = []
        self.notebook = ""
        """The notebook opened last."""
        self.stays = False
        """True if successive tests share the page: notebooks are then opened without loading the page again."""
        self._shares = False
        """True while the shared notebook is open."""
        self._opened: set[str] = set()
        """Notebooks whose kernels this page ends."""
        self._theme = "Light"
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", self._thrown)
        page.on("dialog", lambda dialog: dialog.accept())  # leaving a page with unsaved changes

    # Notebooks and their kernels

    def write(self, notebook: str, cells: list[str], kernel: str = "python3") -> str:
        """Write a new notebook of code cells in the server's folder; return its name."""
        empty = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
        coded = [empty | {"id": f"cell-{index}", "source": source} for index, source in enumerate(cells)]
        self._store(notebook, {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": coded}, kernel or "python3")
        return notebook

    def open(self, notebook: str, kernel: str | None = None, wait: bool = True) -> None:
        """Open a notebook, optionally with another kernel, and wait until the kernel is ready."""
        self.notebook = notebook
        self._opened.add(notebook)
        self._shares = False
        if kernel is not None:
            self._store(notebook, self.stored(notebook), kernel)
        if self.stays and self.page.url.startswith(self.url):
            self._close(CLOSE_ALL)
            self.page.evaluate("() => window.jupyterapp.serviceManager.kernelspecs.refreshSpecs()")  # there may be new ones
            self.command_done("docmanager:open", path=notebook)
        else:
            self.page.goto(self.ADDRESS.format(url=self.url, notebook=notebook))
        self._wait_for_cells()
        if wait:
            self.wait_idle()
            self.page.evaluate(ANSWERED, self.page.evaluate_handle(f"() => {KERNEL}"))
            self.page.wait_for_function(HEARS_OF_WIDGETS)

    def share(self, cells: list[str]) -> None:
        """Show a notebook of code cells with a reset kernel.

        Seconds faster than `open`: it reuses the cleared notebook and kernel of the previous test. For tests that neither save
        nor reopen the notebook nor end the kernel.
        """
        if self._shares:
            self.value("1", FORGET)
            self.page.evaluate(PUT_CELLS, cells)
        else:
            self.open(self.write(SHARED, cells))
            self._shares = self.stays

    def _close(self, script: str) -> None:
        """Close notebooks left open by a test. Messages of JupyterLab about that do not count for the next test."""
        before = len(self.said)
        self.page.evaluate(script)
        del self.said[before:]

    def stored(self, notebook: str) -> dict[str, Any]:
        """Return the notebook as stored in its file."""
        return dict(json.loads((self.folder / notebook).read_text(encoding="utf-8")))

    def _store(self, notebook: str, content: dict[str, Any], kernel: str | None) -> None:
        if kernel is not None:
            content["metadata"]["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
        (self.folder / notebook).write_text(json.dumps(content), encoding="utf-8")

    def _wait_for_cells(self) -> None:
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.page.wait_for_function(f"() => {CURRENT}?.context.isReady")  # before that they may belong to an empty notebook

    def save(self) -> None:
        """Save and wait until it is saved."""
        self.command_done("docmanager:save")

    def reload(self, wait: bool = True) -> None:
        """Reload the page; the kernel keeps running. A busy kernel answers no fresh page: do not wait then.

        Goes to its address, like a person with a new tab: views that earlier tests opened, which the server stores some time
        later, are not restored.
        """
        self.page.goto(self.ADDRESS.format(url=self.url, notebook=self.notebook))
        self._wait_for_cells()
        if wait:
            self.wait_idle()

    def open_untrusted(self, notebook: str) -> str:
        """Open a copy of a saved notebook without a signature, so that its outputs are untrusted; return its name.

        The signature covers the content, so the copy gets another cell.
        """
        content = self.stored(notebook)
        content["cells"].append({"cell_type": "raw", "id": "from-elsewhere", "metadata": {}, "source": "From elsewhere."})
        copy = f"{Path(notebook).stem}-untrusted.ipynb"
        self._store(copy, content, None)
        self.open(copy)
        return copy

    def trusts(self, index: int) -> bool:
        """True if the outputs of this cell are shown unsanitized."""
        return bool(self.page.evaluate(f"index => {CURRENT}.content.widgets[index].model.trusted", index))

    def tidy(self) -> None:
        """Restore the page for the next test."""
        if self._theme != "Light":
            self.theme("Light")
        self.width(1400)
        self._shares = self._shares and bool(self.page.evaluate(IDLE))
        if self._shares:
            self._close(CLEAR_SHARED)
        else:
            self._close(CLOSE_ALL)
            self._end_kernels()
        assert self.page.evaluate(SETTLED) == int(self._shares), "something is still open"
        self.said.clear()

    def end(self) -> None:
        """Leave nothing to the next test: the server keeps the theme and the kernels."""
        if self._theme != "Light":
            self.theme("Light")
        self.page.context.close()
        self._end_kernels()

    def end_kernels(self) -> None:
        """End the kernels and refresh the page's list, which it otherwise updates every few seconds."""
        self._end_kernels()
        self.page.evaluate(LOOK_FOR_KERNELS)

    def _end_kernels(self) -> None:
        with urllib.request.urlopen(f"{self.url}/api/sessions?token=t", timeout=30) as answer:
            sessions = json.load(answer)
        for session in [session for session in sessions if session["path"] in self._opened]:
            asked = urllib.request.Request(f"{self.url}/api/sessions/{session['id']}?token=t", method="DELETE")
            urllib.request.urlopen(asked, timeout=60).close()

    def allow(self, what: str) -> None:
        """Release code in a kernel that waits for this: see `story.Until`."""
        (self.folder / what).touch()

    # The kernel of the open notebook

    def wait_idle(self) -> None:
        """Wait until the kernel is idle and every sent cell has a reply."""
        self.page.wait_for_function(IDLE)

    def kernel_status(self) -> str:
        """Return the kernel status known to the page: idle, busy, or unknown after a reload during a cell."""
        return str(self.page.evaluate(f"() => {KERNEL}?.status"))

    def value(self, expression: str, code: str = "") -> str:
        """Return the repr of an expression in the kernel, evaluated outside the notebook. ``code`` runs first, silently."""
        asked = """([kernel, expression, code]) => {
            const asked = {code, silent: true, user_expressions: {it: expression}};
            return kernel.requestExecute(asked).done.then(reply => reply.content.user_expressions.it);
        }"""
        handle = self.page.evaluate_handle(f"() => {KERNEL}")
        answer = self.page.evaluate(asked, [handle, expression, code])
        assert answer["status"] == "ok", answer
        return str(answer["data"]["text/plain"])

    def wait_for_value(self, expression: str, wanted: str) -> None:
        """Wait until the expression has this repr in the kernel."""
        found = ""
        for _ in range(600):
            if (found := self.value(expression)) == wanted:
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"{expression} is {found}, not {wanted}")

    def interrupt(self) -> None:
        """Interrupt the kernel, like Kernel > Interrupt."""
        self.command("notebook:interrupt-kernel")

    # Commands and cells

    def command(self, name: str) -> None:
        """Run a command of the application without waiting."""
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name) }", name)

    def command_done(self, name: str, **arguments: Any) -> None:
        """Run a command and wait until it is done."""
        script = "([name, arguments_]) => window.jupyterapp.commands.execute(name, arguments_).then(() => null)"
        self.page.evaluate(script, [name, arguments])

    def run_all(self) -> None:
        """Clear all outputs, run all cells and wait for the last one."""
        self.command_done("notebook:clear-all-cell-outputs")
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(
            f"""() => {{
                const cells = {CURRENT}.content.model.sharedModel.cells;
                return cells.filter(c => c.cell_type === 'code').every(c => c.execution_count !== null);
            }}"""
        )
        self.wait_idle()

    def start(self, index: int) -> None:
        """Start this cell without waiting."""
        # In one step, since a field that is gone returns the focus to its cell at any time.
        run = "window.jupyterapp.commands.execute('notebook:run-cell')"
        self.page.evaluate(f"index => {{ {CURRENT}.content.activeCellIndex = index; {run} }}", index)

    def run(self, index: int) -> None:
        """Run this cell and wait for its execution number."""
        self.start(index)
        self.wait_done(index)

    def run_above(self, index: int) -> None:
        """Run all cells above this one and wait for them."""
        self.activate(index)
        self.command("notebook:run-all-above")
        self.wait_done(index - 1)

    def wait_done(self, index: int) -> None:
        """Wait until this cell has run and the kernel is idle."""
        script = f"index => {CURRENT}.content.model.sharedModel.cells[index].execution_count !== null"
        self.page.wait_for_function(script, arg=index)
        self.wait_idle()

    def activate(self, index: int) -> None:
        """Make this cell active."""
        self.page.evaluate(f"index => {{ {CURRENT}.content.activeCellIndex = index }}", index)

    def cell(self, index: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def output(self, index: int) -> Any:
        """Return the output area of this cell."""
        return self.cell(index).locator(".jp-Cell-outputWrapper")

    def outputs(self, index: int) -> list[dict[str, Any]]:
        """Return the outputs of this cell as they would be saved."""
        return list(self.page.evaluate(f"index => {CURRENT}.content.model.sharedModel.cells[index].toJSON().outputs", index))

    def write_last(self, code: str) -> int:
        """Append a cell with this code; return its index."""
        self.page.evaluate(
            f"""code => {{
                const panel = {CURRENT};
                const model = panel.content.model.sharedModel;
                model.addCell({{cell_type: 'code', source: code}});
                panel.content.activeCellIndex = model.cells.length - 1;
            }}""",
            code,
        )
        return int(self.page.evaluate(f"() => {CURRENT}.content.model.sharedModel.cells.length")) - 1

    def start_active(self) -> None:
        self.command("notebook:run-cell")

    def errors(self) -> list[str]:
        """Return the errors that cells show, except Python's messages about the kernel's own tasks."""
        shown = self.page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]').all_text_contents()
        return [text for text in shown if not KERNELS_OWN.match(text)]

    def _thrown(self, error: Any) -> None:
        # Only the stack shows the origin.
        if not any(re.search(pattern, f"{error}\n{error.stack}") for pattern in self.NOT_OURS):
            self.said.append(str(error))

    def complaints(self) -> list[str]:
        """Return console errors and uncaught exceptions, except the application's own."""
        return [text for text in self.said if not any(re.search(pattern, text) for pattern in self.NOT_OURS)]

    def state(self) -> str:
        """Return the open views, and the content and outputs of the cells, as text."""
        return "\n".join([str(self.page.evaluate(STATE)), *self.said])

    def note_reached(self) -> None:
        """Record navigation targets from now on: each is marked only for a moment."""
        self.page.evaluate(NOTE_REACHED)

    def wait_reached(self, text: str) -> None:
        """Wait until a target with this text was reached since `note_reached`."""
        self.page.wait_for_function(REACHED, arg=text)

    def go_to(self, link: Any, text: str) -> None:
        """Click a link until a target with this text is reached: a frame may replace the link during a click."""
        self.note_reached()
        for _ in range(20):
            link.click()
            if self.page.evaluate(REACHED_SOON, text):
                return
        raise AssertionError(f"{text} was not reached")

    # Appearance

    def theme(self, name: str) -> None:
        """Set the theme ``Light`` or ``Dark``."""
        self.command_done("apputils:change-theme", theme=f"JupyterLab {name}")
        self.page.wait_for_selector(f'body[data-jp-theme-name="JupyterLab {name}"]', state="attached")
        self._theme = name

    def width(self, pixels: int, height: int = 1000) -> None:
        """Set the width of the window."""
        self.page.set_viewport_size({"width": pixels, "height": height})

    def scrolled(self) -> float:
        """Return the scroll position of the notebook in pixels."""
        return float(self.page.evaluate(f"() => {CURRENT}.content.outerNode.scrollTop"))

    def scroll(self, pixels: float) -> None:
        """Scroll the notebook to this position."""
        self.page.evaluate(f"pixels => {{ {CURRENT}.content.outerNode.scrollTop = pixels }}", pixels)

    def second_view(self, index: int) -> Any:
        """Create New View for Cell Output; return the view."""
        self.activate(index)
        self.command("notebook:create-output-view")
        view = self.page.locator(".jp-LinkedOutputView").last
        view.wait_for()
        return view

    def shot(self, name: str, part: Any = None) -> None:
        """Take a picture of the page, or of a part of it, if a folder is set."""
        if folder := os.environ.get(SHOTS):
            Path(folder).mkdir(parents=True, exist_ok=True)
            (part or self.page).screenshot(path=Path(folder) / f"{name}.png")

    def shots(self, name: str, part: Any = None, top: Any = None) -> None:
        """Take it in both themes, in a narrow and a wide window; ``top`` is scrolled to the top of the notebook."""
        for theme in ("Light", "Dark"):
            self.theme(theme)
            for width in (700, 1400):
                self.width(width)
                if top is not None:
                    self.page.wait_for_timeout(500)  # parts find their places
                    top.evaluate("part => part.scrollIntoView()")
                self.shot(f"{name}-{theme.lower()}-{width}", part)
        self.theme("Light")


class Classic(Lab):
    """The classic Notebook 7: the same parts at another address."""

    ADDRESS = "{url}/notebooks/{notebook}?token=t"
    NOT_OURS = (r"^Cannot read properties of undefined \(reading 'schema'\)",)
