"""The runs of a trace browser as rows of facts, with search and filters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, get_args

import msgspec

from agentnb.core.log.event import Status
from agentnb.core.log.outcome import Outcome
from agentnb.core.run.inner_calls import outer_calls
from agentnb.detect.run import Run
from agentnb.detect.run_states import STATES
from agentnb.display.parts.finding_links import MAX_LISTED, findings_of
from agentnb.display.parts.head import tone
from agentnb.display.texts.labels import first_line
from agentnb.display.texts.run_figures import call_counts
from agentnb.display.texts.states import chip, outcome_words

OWN = "agentnb"
"""The format name of agentnb's own runs."""
NO_FINDING = "none"
_WORDS = re.compile(r'"([^"]+)"|(\S+)')
MAX_OF_A_NAME = 60
"""Maximum characters of a name to filter by, since the names of formats, tools and findings come from files."""


class RunRow(NamedTuple):
    """The facts about a run that lists and filters need."""

    place: int
    """Its index in the list of runs."""
    run: Run
    tone: str
    state: str
    """Its state in words, such as ``Limit reached: 50 rounds``."""
    outcome: Outcome
    outcome_words: str
    """Its outcome in words, such as ``reward 0``; empty if unknown."""
    status: str
    format: str
    rounds: int
    calls: int
    updates: int
    """Number of calls to todo tools, which ``calls`` does not include."""
    failed: int
    findings: tuple[str, ...]
    """The rule of each finding."""
    tools: frozenset[str]
    """Names of the tools that were called."""


class Wanted(NamedTuple):
    """Search and filter criteria. Empty criteria match every run."""

    find: str = ""
    """Words that must all occur in the prompt, texts, results, or names and arguments of tools; ``"in quotes"`` means a
    phrase.
    """
    status: str = ""
    outcome: str = ""
    finding: str = ""
    format: str = ""
    tool: str = ""


class Choice(NamedTuple):
    """A filter value, and the number of runs with it."""

    value: str
    label: str
    runs: int


def row_of(place: int, run: Run) -> RunRow:
    """Return the facts that a list shows about a run."""
    records = [*outer_calls(run)]
    return RunRow(
        place,
        run,
        tone(run),
        chip(run),
        run.outcome,
        outcome_words(run.assessment),
        run.status,
        first_line(run.origin.format, MAX_OF_A_NAME) if run.origin is not None else OWN,
        len(run.rounds),
        *call_counts(records),
        run.failed_calls,
        tuple([first_line(finding.rule, MAX_OF_A_NAME) for finding in findings_of(run, MAX_LISTED)]),
        frozenset([first_line(record.call.name, MAX_OF_A_NAME) for record in records]),
    )


def matching(rows: Iterable[RunRow], wanted: Wanted) -> list[RunRow]:
    """Return the matching rows in order."""
    filters = [(name, value) for name, value in wanted._asdict().items() if name in VALUES and value]
    fitting = (row for row in rows if all(value in VALUES[name](row) for name, value in filters))
    return with_words(fitting, wanted.find)


def with_words(rows: Iterable[RunRow], find: str) -> list[RunRow]:
    """Return the rows that contain all the words."""
    words = words_of(find)
    return [row for row in rows if contains(row.run, words)] if words else [*rows]


def choices(rows: Sequence[RunRow], wanted: Wanted) -> dict[str, list[Choice]]:
    """Return the values of each filter, most frequent first, among the rows that match the words and the other filters."""
    fitting = with_words(rows, wanted.find)
    return {name: _choices(matching(fitting, wanted._replace(find="", **{name: ""})), name) for name in VALUES}


def _choices(rows: Iterable[RunRow], name: str) -> list[Choice]:
    counts = Counter(value for row in rows for value in VALUES[name](row))
    if name == "status":
        order = [status for status in get_args(Status) if counts[status]]
        return [Choice(status, STATES.get(status, status), counts[status]) for status in order]
    return [Choice(value, value.replace("_", " ") if name == "finding" else value, n) for value, n in counts.most_common()]


VALUES: dict[str, Callable[[RunRow], Iterable[str]]] = {
    "status": lambda row: (row.status,),
    "outcome": lambda row: (row.outcome,),
    "finding": lambda row: {*row.findings} or (NO_FINDING,),
    "format": lambda row: (row.format,),
    "tool": lambda row: row.tools,
}
"""Filters, as functions that return a run's values for the filter."""


def words_of(text: str) -> list[str]:
    """Return the search words in lower case; a quoted phrase counts as one word."""
    return [quoted or word for quoted, word in _WORDS.findall(text.casefold())]


def contains(run: Run, words: Iterable[str]) -> bool:
    """True if each of these lower-case words occurs somewhere in the run."""
    missing = [*words]
    for text in _texts(run):
        folded = text.casefold()
        missing = [word for word in missing if word not in folded]
        if not missing:
            return True
    return not missing


def _texts(run: Run) -> Iterator[str]:
    """Yield the searchable texts of a run: first its prompt and id, then messages and calls."""
    yield run.prompt
    yield f"{run.id} {run.model} {' '.join(run.tags)}"
    if run.origin is not None:
        yield f"{run.origin.file} {run.origin.task} {run.origin.trial}"
    for message in run.messages:
        yield message.text
        yield message.author
    for record in outer_calls(run):
        yield record.call.name
        yield msgspec.json.encode(record.call.arguments).decode()
        if record.result is not None:
            yield record.result.text
    yield from (finding.sentence for finding in findings_of(run, MAX_LISTED))
