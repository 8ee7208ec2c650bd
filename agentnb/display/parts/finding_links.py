"""The findings of a run as a numbered list with links to their rounds, and the marks in those rounds that lead back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

from agentnb.core.log.events import AnyEvent
from agentnb.detect.run import Run
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, joined, tag
from agentnb.display.parts.round_details import fold
from agentnb.display.parts.run_problems import address_of, round_anchor, round_link
from agentnb.display.texts.labels import clean, counted, first_line
from agentnb.tables.loops import Row, found, found_by

MAX_LISTED = 50
"""Findings of a run that are listed; of more, only the count is shown."""
MAX_AT_ONCE = 4
"""Findings that a saved card shows without being opened; of more, the first `FIRST`."""
FIRST = 3
MAX_LIVE = 5
"""Findings that a live card lists, the newest: the list is sent anew with each."""
MAX_OF_A_SENTENCE = 300


def findings_of(run: Run, most: int | None = None) -> list[Row]:
    """Return what was found in a run whose rounds there are, in the order of the last rounds; at most so many."""
    return [*islice((one for one in found(run) if _is_here(run, one)), most)]


def findings_html(run: Run, form: Form) -> Html:
    """Return a line for each finding: its number, what was found, and links to its rounds. Of many, the later are folded."""
    listed = findings_of(run)
    if not listed:
        return NOTHING
    lines = _lines(run, listed)
    first = FIRST if len(lines) > MAX_AT_ONCE else len(lines)
    shown = tag("ol", "findings", *lines[:first])
    folded = NOTHING
    if later := lines[first:]:
        more = f"{counted(len(listed) - first, 'more finding')}"
        opened = form._replace(folds={"findings": form.whole, **form.folds})
        folded = fold("findings", more, tag("ol", "findings", *later), opened)
    return tag("div", "list", _title(len(listed)), shown, folded)


def finding_marks(run: Run) -> Mapping[int, Html]:
    """Return for each round, by its index, the links back to the findings that end in it."""
    links: dict[int, list[Html]] = {}
    for number, one in enumerate(findings_of(run, MAX_LISTED), 1):
        links.setdefault(one.last, []).append(_link(run, number, one))
    return {index: _mark(some) for index, some in links.items()}


class LiveFindings:
    """The findings of a run that goes on, in the order in which they are made: a number, once shown, stays."""

    def __init__(self) -> None:
        self.html = NOTHING
        """The list, the newest first."""
        self.marks: dict[int, Html] = {}
        """For each round, by its index, the links back to the findings that end in it."""
        self._newest: list[Html] = []
        self._links: dict[int, list[Html]] = {}
        self._count = 0

    def take(self, event: AnyEvent, run: Run) -> Sequence[int]:
        """Add what this event, the last of the run, brought; return the indices of the rounds that have new marks."""
        new = [one for one in found_by(event, run) if _is_here(run, one)]
        if not new:
            return ()
        for one in new:
            self._count += 1
            self._newest = [_line(run, self._count, one), *self._newest[: MAX_LIVE - 1]]
            self._links.setdefault(one.last, []).append(_link(run, self._count, one))
            self.marks[one.last] = _mark(self._links[one.last])
        earlier = self._count - len(self._newest)
        more = tag("li", "finding quiet", f"{earlier:,} earlier") if earlier else NOTHING
        self.html = joined(_title(self._count), tag("ol", "findings", *self._newest, more))
        return [one.last for one in new]


def _is_here(run: Run, one: Row) -> bool:
    return 0 <= one.first <= one.last < len(run.rounds)


def _title(count: int) -> Html:
    return tag("div", "title", counted(count, "finding"))


def _lines(run: Run, listed: Sequence[Row]) -> list[Html]:
    lines = [_line(run, number, one) for number, one in enumerate(listed[:MAX_LISTED], 1)]
    left_out = len(listed) - MAX_LISTED
    return [*lines, tag("li", "finding quiet", f"{left_out:,} more")] if left_out > 0 else lines


def _line(run: Run, number: int, one: Row) -> Html:
    rounds = [round_link(run.id, index) for index in dict.fromkeys((one.first, one.last))]
    where = joined("round " if len(rounds) == 1 else "rounds ", Html(" to ".join(rounds)))
    mark = tag("span", "warn", "▲", aria_hidden="true")
    return tag("li", "finding", mark, f" {number}. {_sentence(one)} · ", where, id=_anchor(run, number))


def _sentence(one: Row) -> str:
    told = first_line(clean(one.sentence or one.rule.replace("_", " ")), MAX_OF_A_SENTENCE).rstrip(".")
    return f"{told[:1].upper()}{told[1:]}"


def _link(run: Run, number: int, one: Row) -> Html:
    return tag("a", "to-finding", f"↑ finding {number}", href=address_of(_anchor(run, number)), title=_sentence(one))


def _mark(links: Sequence[Html]) -> Html:
    return tag("div", "finding-marks quiet", Html(" · ".join(links)))


def _anchor(run: Run, number: int) -> str:
    """Return the id of the element of a finding."""
    prefix = round_anchor(run.id, 0).rpartition("-")[0] or "agentnb"
    return f"{prefix}-finding-{number}"
