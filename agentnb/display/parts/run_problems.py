"""Problems of a run by kind: how often they occurred, and links to their rounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.detect.run_states import kind_of_counted_calls, state_of
from agentnb.display.markup import Html, join_html, tag, words
from agentnb.display.texts.call_labels import state
from agentnb.display.texts.labels import pluralize, short_id
from agentnb.display.texts.round_notes import ignored_guidance, round_warnings

MAX_LINKED = 8
"""Maximum rounds linked for each kind; the rest are counted."""
_NOT_IN_AN_ID = re.compile(r"[^A-Za-z0-9]+")


class Trouble(NamedTuple):
    """A kind of problem: its total, its number of rounds, and the indices of the first of these."""

    total: int = 0
    in_rounds: int = 0
    rounds: tuple[int, ...] = ()

    def and_in(self, index: int, count: int) -> Trouble:
        """Return a copy with ``count`` added for a later round."""
        return Trouble(self.total + count, self.in_rounds + 1, (*self.rounds, index)[:MAX_LINKED])


TONES = {"failed": "bad", "rejected": "warn", "interrupted": "warn", "ignored": "warn", "retried": "warn", "found": "warn"}
"""Tone of each kind, in display order."""


def trouble_of(one: WorkflowRound) -> dict[str, int]:
    """Return the number of problems in this round, by kind."""
    states = [state(record) for record in one.records]
    return {
        "failed": states.count("failed"),
        "rejected": states.count("blocked"),
        "interrupted": states.count("interrupted"),
        "ignored": len(ignored_guidance(one)),
        "retried": one.failed_attempts,
        "found": len(round_warnings(one)) - (one.said_before is not None),  # listed as a finding
    }


def trouble_words(kind: str, count: int) -> str:
    """Return a phrase such as ``2 failed calls`` or ``2 guidance reminders not followed``."""
    if kind == "ignored":
        return f"{pluralize(count, 'guidance reminder')} not followed"
    return pluralize(count, {"retried": "failed attempt", "found": "warning"}.get(kind, f"{kind} call"))


def trouble_links(found: Mapping[str, Trouble], run_id: str) -> Iterator[Html]:
    """Yield each kind that occurred, with links to its rounds: ``2 failed calls: rounds 4, 7``."""
    for kind, tone in TONES.items():
        trouble = found.get(kind, Trouble())
        if trouble.total:
            links = Html(", ".join([round_link(run_id, index) for index in trouble.rounds]))
            omitted = trouble.in_rounds - len(trouble.rounds)
            more = f" and {omitted:,} more" if omitted else ""
            noun = "round" if trouble.in_rounds == 1 else "rounds"
            text = join_html(trouble_words(kind, trouble.total), f": {noun} ", links, more)
            yield tag("span", f"wrong {tone}", text)


def to_first_call(run: Run, words: str) -> Html:
    """Return the words for a run's state; if they count calls, make them a link to the first of those."""
    kind = kind_of_counted_calls(state_of(run))
    first = next((round_.index for round_ in run.rounds if kind and trouble_of(round_).get(kind)), None)
    return join_html(words) if first is None else round_link(run.id, first, label=words)


def id_part(text: str) -> str:
    """Return the text without characters that the id of an element may not contain."""
    return _NOT_IN_AN_ID.sub("", text)


def round_anchor(run_id: str, index: int) -> str:
    """Return the id of a round's element."""
    name = id_part(short_id(run_id))
    return f"agentnb-{name}-{index + 1}" if name else ""


def address_of(anchor: str) -> str:
    """Return the address of an element within the same card.

    Its hyphens are encoded. If JupyterLab finds an element with the literal id, it scrolls there without opening the folds
    around it; it leaves an unknown address to the browser, which does open them.
    """
    return f"#{anchor.replace('-', '%2D')}"


def round_link(run_id: str, index: int, title: str | None = None, label: str = "") -> Html:
    """Return the number of a round, or another label, as a link to it."""
    anchor = round_anchor(run_id, index)
    text = words(label or str(index + 1))
    return tag("a", "to-round", text, href=address_of(anchor), title=title) if anchor else text
