"""Stores notebooks with their outputs, so that they can be read where there is no kernel: ``make outputs``.

Usage: python notebooks/stored.py NOTEBOOK ...

Each is run as ``make demo`` runs the quickstart, in a folder of its own, so that its list of runs is that of this notebook
alone. What only tells of this machine is taken out, and so is what the first run shows already: see `thinned`.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from demo import execute, without_keys

SAW = '<details class="agentnb-saw"'
CARD = 'class="agentnb-run"'
LIBRARY = re.compile(r"(?:/[^\s/\"&]+)+/(?:site-packages|lib/python3\.\d+)/")
"""Where the libraries are on this machine, in tracebacks."""
CELL = re.compile(r"(?:/[^\s/\"&]+)+/ipykernel_\d+/\d+\.py")
"""And the files that stand for cells."""


def main(path: Path) -> None:
    """Execute the notebook and write it back with its outputs."""
    notebook = made(path)
    nbformat.write(notebook, path)
    print(f"{path}: {path.stat().st_size:,} bytes. Look at it before you keep it.")


def made(path: Path) -> nbformat.NotebookNode:
    """The notebook as it is to be stored."""
    without_keys()
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(path.parent / "data", Path(folder, "data"))
        if failure := execute(notebook, Path(folder)):
            raise SystemExit(f"A cell failed:\n{failure}")
        here = f"{Path(folder).resolve()}/"
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran
        for output in cell.get("outputs", ()):
            _placeless(output, here)
    return thinned(notebook)


def thinned(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The same, in which only the first run opens to what the model saw: that is a third of all that is stored."""
    for card in cards(notebook)[1:]:
        card["text/html"] = _without_sights(card["text/html"])
    for data in (output["data"] for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output):
        if "image/png" in data:
            data.pop("text/html", None)  # the same figure in both themes: web viewers show the picture, and files of this size
    return notebook


def cards(notebook: Any) -> list[Any]:
    """The outputs that show a run, in order: what they hold, by media type."""
    shown = [one.get("data", {}) for cell in notebook.cells for one in cell.get("outputs", ())]
    return [data for data in shown if CARD in data.get("text/html", "")]


def _without_sights(html: str) -> str:
    """Each fold replaced by the line that opens it, if that says what was said in passing."""
    while (start := html.find(SAW)) >= 0:
        end = _end_of_fold(html, start)
        line = re.search(r"<summary([^>]*)>(.*?)</summary>", html[start:end], re.DOTALL)
        assert line is not None, "each fold has a line"
        attributes = re.sub(' title="[^"]*"', "", line[1])
        told = f"<div{attributes}>{line[2]}</div>" if "guidance" in line[2] else ""
        html = html[:start] + told + html[end:]
    return html


def _end_of_fold(html: str, start: int) -> int:
    depth = 0
    for found in re.finditer(r"<(/?)details\b[^>]*>", html[start:]):
        depth += -1 if found[1] else 1
        if not depth:
            return start + found.end()
    raise ValueError("a fold without an end")


def _placeless(output: Any, here: str) -> None:
    """Take out where the libraries, the cells and the folder of the notebook are on this machine."""
    for data in (output, output.get("data", {})):
        for key, value in data.items():
            if isinstance(value, str):
                data[key] = CELL.sub("cell.py", LIBRARY.sub("", value)).replace(here, "")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        main(Path(name))
