"""The saved file of the notebook: its cells with their output as text."""

from __future__ import annotations

import json
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.tools.builtin.notebook.bundles import text_of_bundle
from agentnb.tools.builtin.notebook.capture import without_escapes

NAMES = ("__vsc_ipynb_file__", "__session__")
"""Variables in which VS Code and Jupyter's server tell the kernel its file."""
MAX_BYTES = 50_000_000


class FileCell(NamedTuple):
    """A cell of the file."""

    kind: str
    source: str
    number: int | None = None
    """When it was executed, as the file has it."""
    output: str = ""


class NotebookFile(NamedTuple):
    """A notebook as it was saved."""

    path: Path
    saved_at: float
    cells: tuple[FileCell, ...]


def read_notebook_file(variables: Mapping[str, Any]) -> NotebookFile | None:
    """Return the file of a kernel with these variables; None if it is not known, or cannot be read."""
    for name in NAMES:
        given = variables.get(name)
        if type(given) is str and given.endswith(".ipynb"):
            with suppress(OSError, ValueError, RecursionError):
                return _read(Path(given))
    return None


def _read(path: Path) -> NotebookFile | None:
    """Read a notebook; None if the path is no plain file, or a very large one."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
        return None
    document = json.loads(path.read_text("utf-8"))
    cells = document.get("cells") if isinstance(document, dict) else None
    read = map(_cell, cells if isinstance(cells, list) else [])
    return NotebookFile(path, status.st_mtime, tuple(filter(None, read)))


def _cell(cell: Any) -> FileCell | None:
    if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown"):
        return None
    number, outputs = cell.get("execution_count"), cell.get("outputs")
    told = [_output(one) for one in (outputs if isinstance(outputs, list) else []) if isinstance(one, dict)]
    text = "\n".join(one.rstrip("\n") for one in told if one)
    return FileCell(cell["cell_type"], _text(cell.get("source")), number if type(number) is int else None, text)


def _output(output: dict[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        return without_escapes(_text(output.get("text")))
    if kind == "error":
        return without_escapes("\n".join(map(_text, output.get("traceback") or [output.get("evalue")])))
    data = output.get("data")
    return text_of_bundle(data) if isinstance(data, dict) else ""


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(one for one in value if isinstance(one, str))
    return value if isinstance(value, str) else ""
