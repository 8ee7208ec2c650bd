"""Text output of running cells: printed text and displays, only part of which the kernel keeps."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from agentnb.tools.builtin.notebook.bundles import text_of_bundle
from agentnb.tools.builtin.notebook.capture import Output

MAX_CELLS = 300
"""Number of recent cells whose output is kept."""
_ATTRIBUTE = "_agentnb_cell_outputs"


class CellOutputs:
    """Output of the executed cells of a kernel, within limits. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_number: dict[int, Output] = {}
        self._numbers: dict[str, int] = {}
        """Cell numbers by the id of the execute request."""
        self._running: list[int] = []
        """Number of the running cell, repeated for each cell that its code runs."""

    def begin(self, number: int, message_id: str) -> None:
        """Start capturing a cell, or code within it that counts as a separate cell."""
        with self._lock:
            self._running.append(number)
            self._by_number.setdefault(number, Output())
            self._numbers[message_id] = number
            while len(self._numbers) > MAX_CELLS:
                self._by_number.pop(self._numbers.pop(next(iter(self._numbers))), None)

    def end(self) -> None:
        """End the most recently started capture."""
        with self._lock:
            del self._running[-1:]

    @property
    def running(self) -> int | None:
        """Number of the running cell, or None."""
        with self._lock:
            return self._running[0] if self._running else None

    def note_print(self, message_id: str, text: str) -> None:
        """Append text printed by the cell of this message; ignore other messages."""
        output = self._output(message_id)
        if output is not None:
            output.write(text)

    def append_display(self, message: dict[str, Any]) -> dict[str, Any]:
        """Append the text of a display message and return the message; a hook for ipykernel's publisher."""
        output, content = self._output(_id_of(message.get("parent_header"))), message.get("content", {})
        data = content.get("data")
        if output is not None and isinstance(data, dict):
            display_id = str(content.get("transient", {}).get("display_id", ""))
            is_update = message.get("msg_type") == "update_display_data"
            output.display({"text/plain": text_of_bundle(data)}, display_id, is_update=is_update)
        return message

    def texts(self) -> dict[int, str]:
        """Return the output by cell number."""
        with self._lock:
            outputs = dict(self._by_number)
        return {number: output.text for number, output in outputs.items()}

    def _output(self, message_id: str) -> Output | None:
        with self._lock:
            return self._by_number.get(self._numbers.get(message_id, 0))


def outputs_of(shell: Any) -> CellOutputs | None:
    """Return the captured cell output of a kernel, or None if it is not captured."""
    outputs: CellOutputs | None = getattr(shell, _ATTRIBUTE, None)
    return outputs


def take_outputs(shell: Any) -> CellOutputs:
    """Start capturing the cell output of a kernel, unless it is captured already."""
    outputs = outputs_of(shell)
    if outputs is None:
        outputs = CellOutputs()
        setattr(shell, _ATTRIBUTE, outputs)
        if hasattr(shell.display_pub, "register_hook"):  # missing in other kernels
            shell.display_pub.register_hook(outputs.append_display)  # per thread: registered in the main one
    return outputs


def begin_cell(shell: Any) -> None:
    """Start capturing the output of the cell that is starting."""
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    take_outputs(shell).begin(shell.execution_count - 1, _id_of(parent.get("header")))


def end_cell(shell: Any) -> None:
    """Stop capturing the output of the cell."""
    outputs = outputs_of(shell)
    if outputs is not None:
        outputs.end()


def leave_outputs(shell: Any) -> None:
    """Stop capturing, and discard the output of earlier cells."""
    outputs = outputs_of(shell)
    if outputs is not None:
        if hasattr(shell.display_pub, "unregister_hook"):
            shell.display_pub.unregister_hook(outputs.append_display)
        delattr(shell, _ATTRIBUTE)


def note_printed(shell: Any, stream: Any, text: str) -> None:
    """Append text printed to a kernel stream; the kernel identifies the cell it came from."""
    outputs = outputs_of(shell)
    if outputs is not None:
        outputs.note_print(_id_of(getattr(stream, "parent_header", None)), text)


def _id_of(header: Any) -> str:
    return str(header.get("msg_id", "")) if isinstance(header, Mapping) else ""
