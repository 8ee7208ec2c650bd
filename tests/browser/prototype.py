"""A small widget that tests the browser setup: it ticks, answers, and blocks its cell until stopped."""

from __future__ import annotations

import threading
from typing import Any

import anywidget
from IPython.display import display, update_display

STATIC = "<details open><summary>over</summary><b class='over'>heard</b></details><style>b {color: red}</style>"


class Prototype(anywidget.AnyWidget):
    """Shows the number of the last message and a button."""

    _esm = """
    export default { render({model, el}) {
        el.innerHTML = '<div class="prototype"><span>0</span> <button>Stop</button></div>';
        model.on('msg:custom', message => { el.querySelector('span').textContent = message.n; });
        el.querySelector('button').onclick = () => model.send({kind: 'stop'});
    } };"""


def block(name: str, ticks: int = 0) -> None:
    """Show the widget, send this many messages, then hold the main thread until a click or for a minute."""
    widget, stopped = Prototype(), threading.Event()
    if hasattr(widget.comm, "_reply_subshell_for"):  # ipykernel 7.4 sends a reply back to the last channel of the comm
        widget.comm._reply_subshell_for = lambda _, default: default

    def heard(_: Any, content: dict[str, str], __: Any) -> None:
        stopped.set()

    widget.on_msg(heard)
    display(widget, display_id=name)
    for n in range(1, ticks + 1):
        widget.send({"n": n})
        threading.Event().wait(0.02)
    said = "heard" if stopped.wait(60) else "deaf"
    update_display({"text/html": STATIC.replace("heard", said), "text/plain": said}, raw=True, display_id=name)
    layout = widget.layout
    widget.close()
    layout.close()
