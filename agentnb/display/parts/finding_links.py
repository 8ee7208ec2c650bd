"""The findings of a run as a numbered list with links to their rounds, and the links back from those rounds.

Findings of the same family and rule share a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from agentnb.core.log.events import AnyEvent
from agentnb.detect.run import Run
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, join_html, tag
from agentnb.display.parts.round_details import fold
from agentnb.display.parts.run_problems import address_of, round_anchor, round_link
from agentnb.display.texts.labels import first_line, pluralize
from agentnb.tables.loops_table import Row, find_loops, find_new_loops

MAX_LISTED = 50
"""Maximum lines of findings listed; the rest are counted."""
MAX_AT_ONCE = 4
"""Maximum lines that a saved card shows unfolded; if there are more, only the first `FIRST` are."""
FIRST = 3
MAX_LIVE = 5
"""Maximum lines in a live card, as each finding resends the list; those with the newest findings are kept."""
MAX_AGAIN = 8
"""Maximum links to later findings on a line; the rest are counted."""
MAX_OF_A_SENTENCE = 300
MAX_OF_A_TITLE = 160


def findings_of(run: Run, most: int | None = None) -> list[Row]:
    """Return up to ``most`` of a run's findings whose rounds exist, ordered by their last round."""
    return [*islice((finding for finding in find_loops(run) if _is_here(run, finding)), most)]


class Line:
    """One line for findings of the same family and rule. Its number is fixed; its rounds grow."""

    def __init__(self, number: int, first: Row) -> None:
        self.number = number
        self._first = first
        self._again: list[tuple[Row, Row]] = []
        """The first and last findings in each span of adjacent rounds, after the first finding."""
        self.count = 1

    def add(self, one: Row) -> None:
        """Add a later finding, merging its rounds with adjacent ones."""
        self.count += 1
        begin, end = self._again[-1] if self._again else (None, self._first)
        if one.last <= end.last:
            return
        if begin is not None and one.first <= end.last + 1:
            self._again[-1] = (begin, one)
        else:
            self._again.append((one, one))

    def html(self, run: Run) -> Html:
        """Return the sentence of the first finding with links to its rounds, followed by links to the others."""
        parts = [join_html(" · ", *_rounds(run, [(self._first, self._first)]))]
        if shown := self._again[:MAX_AGAIN]:
            parts.append(join_html(", again in ", *_rounds(run, shown)))
        if left_out := len(self._again) - len(shown):
            parts.append(join_html(f" and {left_out:,} more"))
        mark = tag("span", "warn", "▲", aria_hidden="true")
        return tag("li", "finding", mark, f" {self.number}. {_sentence(self._first)}", *parts, id=_anchor(run, self.number))

    def link(self, run: Run, one: Row) -> Html:
        """Return a link from a finding's round to this line."""
        return tag(
            "a", "to-finding", f"↑ finding {self.number}", href=address_of(_anchor(run, self.number)), title=_sentence(one)
        )


class Lines:
    """The lines of a run's findings, ordered by their first finding."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._by_rule: dict[tuple[str, str], Line] = {}
        self._links: dict[int, dict[int, Html]] = {}
        """Links from each round to the lines, by line number."""
        self.count = 0
        """Number of findings."""

    def add(self, one: Row) -> Line:
        """Add a finding to the line for its rule, creating the line if necessary, and return the line."""
        self.count += 1
        line = self._by_rule.get((one.family, one.rule))
        if line is None:
            line = self._by_rule[one.family, one.rule] = Line(len(self._by_rule) + 1, one)
        else:
            line.add(one)
        if line.number <= MAX_LISTED:
            self._links.setdefault(one.last, {}).setdefault(line.number, line.link(self._run, one))
        return line

    def __iter__(self) -> Iterator[Line]:
        return iter(self._by_rule.values())

    def __len__(self) -> int:
        return len(self._by_rule)

    @property
    def title(self) -> Html:
        """The number of findings and, if some are alike, of kinds."""
        kinds = len(self)
        kind_words = "" if kinds == self.count else " of one kind" if kinds == 1 else f" of {kinds:,} kinds"
        return tag("div", "title", f"{pluralize(self.count, 'finding')}{kind_words}")

    def mark(self, index: int) -> Html:
        """Return links from a round back to the lines with findings that end in it."""
        links = self._links.get(index)
        return tag("div", "finding-marks quiet", Html(" · ".join(links.values()))) if links else NOTHING

    @property
    def marks(self) -> dict[int, Html]:
        """The links of the rounds that have any, by the index of the round."""
        return {index: self.mark(index) for index in self._links}


def lines_of(run: Run) -> Lines:
    """Return the lines for all findings of a run."""
    lines = Lines(run)
    for finding in findings_of(run):
        lines.add(finding)
    return lines


def findings_html(run: Run, lines: Lines, form: Form) -> Html:
    """Return the lines of findings with number, sentence and links to rounds; later lines are folded."""
    if not lines:
        return NOTHING
    listed = [*lines][:MAX_LISTED]
    first = FIRST if len(listed) > MAX_AT_ONCE else len(listed)
    shown = tag("ol", "findings", *[line.html(run) for line in listed[:first]])
    folded = NOTHING
    if later := listed[first:]:
        omitted = len(lines) - len(listed)
        remaining = tag("li", "finding quiet", f"{omitted:,} more") if omitted else NOTHING
        more = f"{pluralize(lines.count - sum(line.count for line in listed[:first]), 'more finding')}"
        opened = form._replace(folds={"findings": form.whole, **form.folds})
        folded = fold("findings", more, tag("ol", "findings", *[line.html(run) for line in later], remaining), opened)
    return tag("div", "list", lines.title, shown, folded)


class LiveFindings:
    """The findings of a live run, in the order of detection, with permanent numbers."""

    def __init__(self) -> None:
        self.html = NOTHING
        """The list, newest finding first."""
        self.marks: dict[int, Html] = {}
        """Links back to the findings that end in a round, by the round's index."""
        self._lines: Lines | None = None
        self._newest: list[Line] = []

    def take(self, event: AnyEvent, run: Run) -> Sequence[int]:
        """Add the findings of the run's latest event, and return the indices of the rounds with new marks."""
        new = [finding for finding in find_new_loops(event, run) if _is_here(run, finding)]
        if not new:
            return ()
        lines = self._lines = self._lines or Lines(run)
        for finding in new:
            line = lines.add(finding)
            self._newest = [line, *[other for other in self._newest if other is not line]][:MAX_LIVE]
            self.marks[finding.last] = lines.mark(finding.last)
        earlier = len(lines) - len(self._newest)
        more = tag("li", "finding quiet", f"{earlier:,} earlier") if earlier else NOTHING
        self.html = join_html(lines.title, tag("ol", "findings", *[line.html(run) for line in self._newest], more))
        return [finding.last for finding in new]


def _is_here(run: Run, finding: Row) -> bool:
    return 0 <= finding.first <= finding.last < len(run.rounds)


def _rounds(run: Run, spans: Sequence[tuple[Row, Row]]) -> list[str]:
    """Return ``rounds 5, 7 to 9`` as links whose titles are the sentences of the findings."""
    links = [_span(run, begin, end) for begin, end in spans]
    is_one = len(spans) == 1 and spans[0][0].first == spans[0][1].last
    return ["round " if is_one else "rounds ", Html(", ".join(links))]


def _span(run: Run, begin: Row, end: Row) -> Html:
    ends = {begin.first: begin} | ({end.last: end} if end.last != begin.first else {})
    return Html(
        " to ".join(
            [round_link(run.id, index, first_line(_sentence(finding), MAX_OF_A_TITLE)) for index, finding in ends.items()]
        )
    )


def _sentence(finding: Row) -> str:
    sentence = first_line(finding.sentence or finding.rule.replace("_", " "), MAX_OF_A_SENTENCE).rstrip(".")
    return f"{sentence[:1].upper()}{sentence[1:]}"


def _anchor(run: Run, number: int) -> str:
    """Return the id of a finding's element."""
    prefix = round_anchor(run.id, 0).rpartition("-")[0] or "agentnb"
    return f"{prefix}-finding-{number}"
