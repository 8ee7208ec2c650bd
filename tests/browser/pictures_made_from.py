"""What the pictures of the README are made from, as one number that changes when they would look different.

``make pictures`` stores it beside them; ``tests/test_readme_pictures.py`` compares.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from run_builder import RunBuilder, called, guidance_of, todos_are, todos_of

from agentnb.core.log import events as e
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.css import style_sheet
from agentnb.notebook.widget_tools import STATIC

HERE = Path(__file__).resolve().parent
IMAGES = HERE.parents[1] / "docs" / "images"
STORED = IMAGES / "made-from.txt"
_DRAWN_BY_THE_PAGE = re.compile(r"const (?:SKELETON|STREAM) = `(.*?)`;", re.DOTALL)


def made_from() -> str:
    """The number: over the styles, the card's frame in the page, the story of the pictures, and a run in both its forms."""
    card = LiveCard()
    run = _story()
    for event in run.events[:-1]:
        card.take(event)
    whole = card.whole()
    parts = [
        style_sheet(),
        *_DRAWN_BY_THE_PAGE.findall((STATIC / "frame.js").read_text("utf-8")),
        (HERE / "pictures.py").read_text("utf-8"),
        run_html(run),
        str([whole["slots"], whole["rounds"]]),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _story() -> Run:
    built = RunBuilder(todos=todos_of("in-progress", "not-started"))
    built.round("First **this**.", called("look", where="here"), guidance=[guidance_of()])
    built.round(called("look", where="there"), error_code="tool_error", text="not there")
    built.extend(todos_are(*todos_of("completed", "blocked")))
    built.round("```python\nx = 1\n```", called("look", where="where"), guidance=[guidance_of()])
    return built.add(e.RunFinished, status="completed", stop_reason="natural", seconds=1.0).run
