"""The note on a finished run that the page cannot write to the notebook, and the button that saves it as a page."""

from __future__ import annotations

from typing import Any

from agentnb.advice import LoadRun, pieces
from agentnb.display.card.finished import pieces_html
from agentnb.display.markup import NOTHING, Html, join_html, tag, words
from agentnb.display.save import save_trace
from agentnb.display.texts.labels import short_id
from agentnb.display.texts.notebook_commands import NOTEBOOK
from agentnb.runtime.host.live_run import LiveRun

UNSAVED = "Not saved: agentnb cannot change this notebook from here. This output is lost when the kernel ends."
KEY = "page"
"""Name of the action, and of the element that shows its result."""


def unsaved_html(run_id: str, *, stored: bool) -> Html:
    """Return the line below a finished run that is not in the notebook. ``stored``: whether its log is kept."""
    to_keep = LoadRun(short_id(run_id), lead="To keep it, run this in a new cell")
    load = join_html(" ", pieces_html(pieces("", [to_keep], NOTEBOOK))) if stored else NOTHING
    button = tag("button", "button", "Save as HTML", type="button", data_do=KEY, data_id=KEY)
    hint = tag("div", "hint-line", data_hint=True, role="alert")
    return tag("div", "note warn", UNSAVED, load, " ", button, " ", tag("span", "", data_fill=KEY), hint)


def save_page(live: LiveRun, message: dict[str, Any]) -> Html:
    """Save the run as a page in the working folder, and return a note that says where."""
    return tag("span", "", "Saved as ", tag("code", "", words(str(save_trace(live.run, f"{live.run_id}.html")))))
