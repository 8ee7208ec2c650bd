"""The findings of a run as a numbered list with links to their rounds, and the marks in those rounds that lead back."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

from agentnb.detect.run import Run
from agentnb.display.labels import clean, counted, first_line
from agentnb.display.markup import NOTHING, Html, joined, tag
from agentnb.display.trouble import round_anchor, round_link
from agentnb.traces.tables.loops import Row, found

MAX_LISTED = 50
"""Findings of a run that are listed; of more, only the count is shown."""
MAX_OF_A_SENTENCE = 300


def findings_of(run: Run, most: int | None = None) -> list[Row]:
    """Return what was found in a run whose rounds there are, in the order of the last rounds; at most so many."""
    here = (one for one in found(run) if 0 <= one.first <= one.last < len(run.rounds))
    return [*islice(here, most)]


def findings_html(run: Run) -> Html:
    """Return a line for each finding: its number, what was found, and links to its rounds."""
    listed = findings_of(run)
    if not listed:
        return NOTHING
    lines = [_line(run, number, one) for number, one in enumerate(listed[:MAX_LISTED], 1)]
    if (left_out := len(listed) - MAX_LISTED) > 0:
        lines.append(tag("li", "finding quiet", f"{left_out:,} more"))
    return tag("div", "list", tag("div", "title", counted(len(listed), "finding")), tag("ol", "findings", *lines))


def _line(run: Run, number: int, one: Row) -> Html:
    rounds = [round_link(run.id, index) for index in dict.fromkeys((one.first, one.last))]
    where = joined("round " if len(rounds) == 1 else "rounds ", Html(" to ".join(rounds)))
    mark = tag("span", "warn", "▲", aria_hidden="true")
    return tag("li", "finding", mark, f" {_sentence(one)} · ", where, id=_anchor(run, number))


def _sentence(one: Row) -> str:
    told = first_line(clean(one.sentence or one.rule.replace("_", " ")), MAX_OF_A_SENTENCE).rstrip(".")
    return f"{told[:1].upper()}{told[1:]}"


def finding_marks(run: Run) -> Mapping[int, Html]:
    """Return for each round, by its index, the links back to the findings that end in it."""
    marks: dict[int, list[Html]] = {}
    for number, one in enumerate(findings_of(run, MAX_LISTED), 1):
        link = tag("a", "to-finding", f"↑ finding {number}", href=f"#{_anchor(run, number)}", title=_sentence(one))
        marks.setdefault(one.last, []).append(link)
    return {index: tag("div", "finding-marks quiet", Html(" · ".join(links))) for index, links in marks.items()}


def _anchor(run: Run, number: int) -> str | None:
    """Return the id of the element of a finding."""
    prefix = round_anchor(run.id, 0).rpartition("-")[0]
    return f"{prefix}-finding-{number}" if prefix else None
