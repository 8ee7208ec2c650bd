"""Runs that a call started, as listed in its log: lines of text, and HTML with the commands that show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentnb.advice import LoadRun
from agentnb.core.log.events import NestedStart
from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.texts.labels import clean, first_line, pluralize
from agentnb.display.texts.notebook_commands import in_notebook

MAX_LISTED = 20
"""Maximum runs listed for a call, counted from the most recent."""
MAX_NAME = 80
"""Maximum characters of an agent's name and of a run's id."""


def begun_lines(begun: Sequence[NestedStart], margin: str) -> Iterator[str]:
    """Yield a line for each of the most recent runs."""
    if len(begun) > MAX_LISTED:
        yield f"{margin}↳ {pluralize(len(begun) - MAX_LISTED, 'earlier run')}"
    for start in begun[-MAX_LISTED:]:
        yield f"{margin}↳ {first_line(start.agent, MAX_NAME) or 'run'}: run {clean(start.run_id)}"


def begun_html(begun: Sequence[NestedStart]) -> Html:
    """Return a line for each of the most recent runs, with the command that shows it."""
    omitted = max(len(begun) - MAX_LISTED, 0)
    lines = [
        tag(
            "div",
            "nested-line",
            tag("b", "nested-name", words(start.agent or "run", MAX_NAME)),
            " ",
            tag("code", "compact-code", in_notebook((LoadRun(first_line(start.run_id, MAX_NAME)),))),
        )
        for start in begun[omitted:]
    ]
    more = tag("div", "quiet", f"{omitted:,} earlier runs") if omitted else NOTHING
    return tag("div", "nested", more, *lines) if lines else NOTHING
