"""The card of a run whose kernel died: a frame that the page fills with the last content it received."""

from __future__ import annotations

from functools import cache

from agentnb.advice import RecoverRun, pieces
from agentnb.detect.run_states import STATES
from agentnb.display.card.finished import pieces_html
from agentnb.display.css import inline_css, inline_style, rules
from agentnb.display.markup import Html, fold_tag, tag
from agentnb.display.parts.head import TONES, marked_html
from agentnb.display.texts.labels import short_id
from agentnb.display.texts.notebook_commands import NOTEBOOK

DIED = "The kernel was restarted or died. Define your tools again and run"
NOT_STORED = (
    "The kernel was restarted or died, and the run ended with it. The run was not stored: this page shows what it received",
)


def remains_html(run_id: str = "") -> Html:
    """Return the frame with the next command. ``run_id``: the run's id, if its log is kept and it can be recovered.

    The page fills each ``data-slot`` element from a slot of the card, and the ``data-rounds`` element with its rounds.
    """
    kind = TONES["interrupted"]
    head = tag("div", "head", marked_html(kind, STATES["interrupted"]), " ", tag("span", "", data_slot="meta"))
    sentence = pieces("", [RecoverRun(short_id(run_id), lead=DIED, in_new_kernel=True)], NOTEBOOK) if run_id else NOT_STORED
    note = tag("div", f"note {kind}", pieces_html(sentence))
    rounds = tag("div", "rounds", tag("div", "", data_rounds=True), tag("div", "list", data_slot="totals"))
    transcript = fold_tag("", "summary", "Transcript", rounds, open=True)
    graph = tag("div", "", data_slot="graph")
    todos, findings = (tag("div", "list", data_slot=name) for name in ("todos", "findings"))
    return inline_css(tag("div", "run", head, note, graph, todos, findings, transcript, tag("div", "", data_slot="notes")))


@cache
def inline_styles() -> dict[str, str]:
    """Return the inline style of each class, for content that the page fills in."""
    return {name: style for name in rules() if (style := inline_style(name))}
