"""What the widgets of card and panel share: where their scripts lie, how they are heard, shown and closed."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

STATIC = Path(__file__).parent / "static"
HEARS_WHILE_BUSY = int(version("ipykernel").partition(".")[0]) >= 7
"""Whether this kernel hears a widget while a cell keeps its main thread busy: only with subshells."""


def heard_while_busy(widget: Any) -> Any:
    """The same widget; what the browser says to it is heard while a cell runs, where the kernel can do that at all, and touches
    nothing else.
    """
    # ipykernel 7.4 sends what the browser says to the shell that last spoke on the comm, which is the busy one. Its way back
    # to the browser's own subshell is private; where it is called otherwise, nothing is changed.
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda data, default: default
    # Each message would fire the hooks of a cell, on the thread that hears it: matplotlib's shows and closes the figure that a
    # tool is just drawing. Ours go straight to the widget.
    if callable(straight := getattr(widget.comm, "_msg_callback", None)):
        widget.comm.handle_msg = straight
    return widget


def view_bundle(widget: Any) -> dict[str, Any]:
    """What a cell's output holds to show the widget."""
    return {"application/vnd.jupyter.widget-view+json": {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}


def close(widget: Any) -> None:
    """Take it from the kernel and from the browser, with the layout that each widget has."""
    layout = widget.layout
    widget.close()
    layout.close()
