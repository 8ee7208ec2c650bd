"""Shared parts of the widgets: scripts, receiving messages, display and closing."""

from __future__ import annotations

import json
import logging
from importlib.metadata import version
from pathlib import Path
from typing import Any

from traitlets import TraitType

from agentnb.core.redaction import redact
from agentnb.display.texts.notebook_commands import error_in_notebook
from agentnb.errors import AgentnbError

STATIC = Path(__file__).parent / "static"
HEARS_WHILE_BUSY = int(version("ipykernel").partition(".")[0]) >= 7
"""True if this kernel receives widget messages while a cell occupies its main thread (this requires subshells)."""


def has_kernel(shell: Any) -> bool:
    """True if the shell runs in a kernel, not in a terminal."""
    return getattr(shell, "kernel", None) is not None


def script(*names: str, **constants: Any) -> str:
    """Return these files as one module, because a module sent as text cannot import another; ``constants`` come first."""
    lines = [f"const {name} = {json.dumps(value)};" for name, value in constants.items()]
    return "\n".join([*lines, *[(STATIC / name).read_text("utf-8") for name in names]])


def synced_trait(kind: type[TraitType[Any, Any]], *inner: Any) -> Any:
    """Return a trait of a widget whose value the kernel and the page share."""
    return kind(*inner).tag(sync=True)


def hear_while_busy(widget: Any) -> Any:
    """Set up the widget to receive messages while a cell is running, if the kernel supports that, and return it.

    Its messages do not trigger cell hooks.
    """
    # ipykernel 7.4 sends messages of the browser to the shell that last used the comm, which is the busy one. The attribute
    # that leads back to the browser's own subshell is private; if it has another name, nothing is changed.
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda data, default: default
    # Each message would fire the hooks of a cell, on the thread that receives it: matplotlib's shows and closes the figure
    # that a tool is drawing. Ours go straight to the widget.
    if callable(straight := getattr(widget.comm, "_msg_callback", None)):
        widget.comm.handle_msg = straight
    return widget


def error_words(error: Exception, what: str) -> str:
    """Return the text of an error to show in a widget, with keys redacted; unexpected errors are logged.

    ``what``: the action that failed.
    """
    if isinstance(error, AgentnbError):
        return redact(error_in_notebook(error))
    # Only at level info: the widget shows the error, and standard error would become the output of a cell.
    logging.getLogger("agentnb").info("%s failed", what, exc_info=error)
    return redact(f"Failed: {type(error).__name__}: {error}")


def view_bundle(widget: Any) -> dict[str, Any]:
    """Return the cell output that shows the widget."""
    return {"application/vnd.jupyter.widget-view+json": {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}


def close(widget: Any) -> None:
    """Remove the widget and its layout from the kernel and the browser."""
    layout = widget.layout
    widget.close()
    layout.close()
