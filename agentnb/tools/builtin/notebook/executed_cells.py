"""Executed cells of the notebook as text: code and results from the kernel, the rest from the saved file."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.core.messages import encodable
from agentnb.core.redaction import redact
from agentnb.tools.builtin.notebook.bundles import text_of_bundle
from agentnb.tools.builtin.notebook.capture import without_escapes
from agentnb.tools.builtin.notebook.cell_outputs import outputs_of
from agentnb.tools.builtin.notebook.kernel import Kernel, find_kernel

NAMES = ("__vsc_ipynb_file__", "__session__")
"""Variables in which VS Code and the Jupyter server store the path of the notebook."""
MAX_BYTES = 50_000_000


class FileCell(NamedTuple):
    """A cell of the saved file."""

    kind: str
    source: str
    number: int | None = None
    """Execution count in the file."""
    output: str = ""


class NotebookFile(NamedTuple):
    """A notebook as saved."""

    path: Path
    saved_at: float
    cells: tuple[FileCell, ...]

    @property
    def sources(self) -> list[tuple[str, str]]:
        """Type and source of each cell."""
        return [(cell.kind, cell.source) for cell in self.cells]


def open_notebook() -> NotebookFile | None:
    """Return the notebook of this kernel process, or None outside a kernel or if the file is unknown."""
    kernel = find_kernel()
    return None if kernel is None else read_notebook_file(kernel.variables)


def read_notebook_file(variables: Mapping[str, Any]) -> NotebookFile | None:
    """Read the notebook of a kernel with these variables, or return None if it is unknown or unreadable."""
    for name in NAMES:
        file_name = variables.get(name)
        if type(file_name) is str and file_name.endswith(".ipynb"):
            with suppress(OSError, ValueError, RecursionError):
                return _read(Path(file_name))
    return None


def _read(path: Path) -> NotebookFile | None:
    """Read a notebook, or return None for anything but a regular file of at most `MAX_BYTES` bytes."""
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
    texts = [_logged_output(output) for output in (outputs if isinstance(outputs, list) else []) if isinstance(output, dict)]
    text = "\n".join(output.rstrip("\n") for output in texts if output)
    return FileCell(cell["cell_type"], _text(cell.get("source")), number if type(number) is int else None, text)


def _logged_output(output: dict[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        return without_escapes(_text(output.get("text")))
    if kind == "error":
        return without_escapes("\n".join(map(_text, output.get("traceback") or [output.get("evalue")])))
    data = output.get("data")
    return text_of_bundle(data) if isinstance(data, dict) else ""


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(line for line in value if isinstance(line, str))
    return value if isinstance(value, str) else ""


MAX_CODE = 4_000
"""Maximum number of characters of a cell's code."""
MAX_OUTPUT = 2_000
"""Maximum number of characters of a cell's output, and of its Markdown."""
MAX_ALL = 30_000
"""Maximum number of characters of all cells together, counted from the last cell."""


@dataclass
class Cell:
    """An executed cell."""

    number: int
    code: str
    output: str = ""
    is_running: bool = False
    markdown: list[str] = field(default_factory=list)
    """Markdown between the preceding code cell and this one."""

    def lines(self) -> Iterator[str]:
        """Yield the lines of the cell for a model."""
        for text in self.markdown:
            yield f"Markdown:\n{_cut(text, MAX_OUTPUT)}"
        yield f"[{self.number}]{' (running now)' if self.is_running else ''}\n{_cut(self.code, MAX_CODE)}"
        if self.output.strip():
            yield f"[{self.number}] output:\n{_cut(self.output.strip(chr(10)), MAX_OUTPUT)}"


def cells_text(kernel: Kernel, *, last: int, wanted: re.Pattern[str] | None) -> str:
    """Return the last executed cells. ``wanted``: a pattern that the cells must match."""
    cells, file = executed_cells(kernel), read_notebook_file(kernel.variables)
    notes = [] if file is None else _joined_with(cells, file)
    shown = [text for cell in cells if (text := "\n".join(cell.lines())) and (wanted is None or wanted.search(text))]
    left_out = len(shown) - last
    texts, size = list[str](), 0
    for text in reversed(shown[-last:]):
        size += len(text)
        if texts and size > MAX_ALL:
            left_out = len(shown) - len(texts)
            break
        texts.append(text)
    if left_out > 0:
        notes.append(f"{left_out:,} earlier cells are left out.")
    if not texts:
        texts = ["No executed cell matches." if wanted else "No cell has been executed yet."]
    return "\n\n".join([*notes, *texts[::-1]])


def executed_cells(kernel: Kernel) -> list[Cell]:
    """Return the cells that the kernel has executed, in order, with the output that it keeps."""
    history = kernel.shell.history_manager
    outputs, errors, captured = history.outputs, history.exceptions, outputs_of(kernel.shell)
    texts = {} if captured is None else captured.texts()
    running = _running(kernel)
    codes = enumerate([*history.input_hist_raw])
    return [
        Cell(number, code, _output(outputs.get(number, ()), errors.get(number), texts.get(number)), number == running)
        for number, code in codes
        if number and type(code) is str and code.strip()
    ]


def _running(kernel: Kernel) -> int | None:
    """Return the number of the running cell, or None."""
    captured = outputs_of(kernel.shell)
    if captured is not None:
        return captured.running
    number: int = kernel.shell.execution_count - 1
    ended = kernel.shell.last_execution_result
    is_over = ended is not None and not ended.info.silent and ended.execution_count == number
    return None if is_over else number


def _output(outputs: Any, error: Any, taken: str | None) -> str:
    """Return the output of a cell. ``taken``: its captured output, which replaces everything except the results that the
    kernel keeps.
    """
    results = [result for result in [*outputs] if taken is None or result.output_type == "execute_result"]
    texts = [taken or "", *[_text_of(result.output_type, result.bundle) for result in results]]
    if isinstance(error, dict):
        texts.append(without_escapes("\n".join(map(str, error.get("traceback") or [error.get("evalue", "")]))))
    return "\n".join(text.rstrip("\n") for text in texts if text)


def _text_of(kind: str, bundle: Any) -> str:
    if kind in ("out_stream", "err_stream"):
        return without_escapes("".join(bundle.get("stream", ())))
    return text_of_bundle(bundle)


def _joined_with(cells: list[Cell], file: NotebookFile) -> list[str]:
    """Add Markdown and output from the file to cells with unchanged code. Returns notes about the file."""
    by_number = {cell.number: cell for cell in cells}
    markdown: list[str] = []
    unmatched = 0
    for file_cell in file.cells:
        if file_cell.kind == "markdown":
            markdown.append(file_cell.source)
            continue
        cell = by_number.get(file_cell.number or 0)
        if cell is not None and cell.code.strip() == file_cell.source.strip():
            cell.markdown, markdown = markdown, []
            cell.output = cell.output or file_cell.output
        else:
            unmatched += bool(file_cell.source.strip())
    saved = datetime.fromtimestamp(file.saved_at).strftime("%H:%M:%S")
    notes = [f"File: {file.path.name}, saved at {saved}."]
    if unmatched:
        notes.append(f"Code cells of the file that this kernel has not executed in their current form: {unmatched}.")
    if markdown and cells:
        notes.append("Markdown after the last executed cell:\n" + _cut("\n\n".join(markdown), MAX_OUTPUT))
    return notes


def _cut(text: str, most: int) -> str:
    """Shorten text to ``most`` characters by cutting its middle."""
    text = encodable(text)
    if len(text) <= most:
        return text
    text = redact(text)  # before cutting: a partial key would not be recognized
    cut = len(text) - most
    return f"{text[: most // 2]}\n[{cut:,} characters left out]\n{text[-most // 2 :]}" if cut > 0 else text
