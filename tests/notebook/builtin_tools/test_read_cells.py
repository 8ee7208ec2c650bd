"""``read_cells`` in a kernel: executed cells with their text output, and the saved file around them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from asserted_sentences import Snapshot
from real_kernel import Kernel

SETUP = """
%load_ext agentnb
from agentnb import Agent, ToolCall
from agentnb.models import ScriptedModel
import asyncio
def _cells(**arguments):
    model = ScriptedModel([ToolCall("read_cells", arguments), "Done."])
    agent = Agent(model, tools=["read_cells"], guidance="off", todos=False)
    return agent.run_sync("go").rounds[0].results[0].text
"""


@pytest.fixture
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    cell = kernel.run(SETUP)
    assert cell.status == "ok", cell.error
    yield kernel
    kernel.close()


def saved(kernel: Kernel, *cells: dict[str, Any]) -> None:
    """Save a notebook with these cells as the kernel's own."""
    path = kernel.folder / "mine.ipynb"
    path.write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}), "utf-8")
    kernel.client.execute(f"__session__ = {str(path)!r}", silent=True)
    kernel.client.get_shell_msg(timeout=30)


def code(source: str, number: int | None, *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "execution_count": number, "outputs": outputs, "metadata": {}}


def markdown(source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": [source], "metadata": {}}


def shown(kernel: Kernel, arguments: str = "") -> str:
    """Return the result of the tool, without the time of the saved file."""
    cell = kernel.run(f"print(_cells({arguments}))")
    assert cell.status == "ok", cell.error
    return re.sub(r"\d\d:\d\d:\d\d", "TIME", cell.printed)


@pytest.mark.slow("a kernel of its own for each test: cells are numbered")
def test_executed_cells_are_shown_in_order_with_their_output(kernel: Kernel, snapshot: Snapshot) -> None:
    for source in (
        "print('printed'); 'a result'",
        "await asyncio.sleep(0); print('after an await')",
        "display({'a': 1}); print('and'); display('x', display_id='d')",
        "1 / 0",
        "import sys; print('to stderr', file=sys.stderr)",
        "class Trap:\n    def __repr__(self): print('repr'); return 'its repr'\ntrap = Trap()\ntrap",
        "   ",
        "%%agent -m simulated:chatty --guidance off\nHello",
    ):
        kernel.run(source)
    text = shown(kernel, "last=8")
    assert text.count("\nrepr\n") == 1, "once, when the cell ran"
    text = re.sub(r"run \S+ ", "run RUN ", text)
    assert "\x1b" not in text
    for words in ("printed\n'a result'", "after an await", "{'a': 1}\nand\n'x'", "ZeroDivisionError", "to stderr", "its repr"):
        assert words in text, words
    assert text.rstrip().endswith("(running now)\nprint(_cells(last=8))")
    card = text.partition("%%agent -m simulated:chatty --guidance off\nHello\n")[2].partition("\n\n[")[0]
    assert len(card) < 400, "the card of a run is short"
    assert shown(kernel, "pattern='after an a.ait'").count("[") >= 1
    assert "(running now)" in kernel.run("get_ipython().run_cell('1')\nprint(_cells(last=1))").printed
    assert shown(kernel, "pattern='no such thing at all' + chr(33)") == snapshot("none")


@pytest.mark.slow("a kernel of its own for each test: cells are numbered")
def test_markdown_and_missing_output_come_from_the_saved_file(kernel: Kernel, snapshot: Snapshot) -> None:
    kernel.run("%unload_ext agentnb")
    kernel.run("x = 3")
    kernel.run("display('kept by the file only')")
    picture = {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=", "text/plain": ["<Figure>"]}}
    saved(
        kernel,
        markdown("# The title"),
        code("x = 3", 3),
        markdown("Now the *file*."),
        code("display('kept by the file only')", 4, {"output_type": "display_data", "data": {"text/plain": "'kept'"}}, picture),
        code("y = 4", 2, {"output_type": "stream", "name": "stdout", "text": "of another kernel\n"}),
        markdown("The end."),
    )
    text = shown(kernel, "last=3")
    assert text == snapshot


@pytest.mark.slow("a kernel of its own for each test: cells are numbered")
def test_unreadable_files_and_long_cells_are_handled(kernel: Kernel, subtests: pytest.Subtests) -> None:
    kernel.run("print('x' * 50_000)")
    with subtests.test("long"):
        told = shown(kernel)
        assert len(told) < 10_000 and "characters left out" in told
    for name, text in {
        "no JSON": "{",
        "a list": "[]",
        "odd cells": '{"cells": [3, {"cell_type": "code", "source": 5}]}',
    }.items():
        with subtests.test(name):
            path = kernel.folder / "odd.ipynb"
            path.write_text(text, "utf-8")
            kernel.run(f"__session__ = {str(path)!r}")
            assert "[1]" in shown(kernel)
    with subtests.test("a pattern that cannot be read"):
        assert "is not a valid regular expression" in shown(kernel, "pattern='('")
    with subtests.test("no file"):
        kernel.run("__session__ = '/nowhere/at/all.ipynb'")
        assert not shown(kernel).startswith("File:")
    with subtests.test("bounded number"):
        assert "arguments are invalid" in shown(kernel, "last=0") and "arguments are invalid" in shown(kernel, "last=201")
