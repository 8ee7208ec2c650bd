"""A replay as HTML and as text: recorded decisions next to hypothetical ones, round by round, and where they diverge."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from agentnb.core.guidance import Followed, Guidance
from agentnb.display.card.compact import round_line
from agentnb.display.css import wrap_output
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag, words
from agentnb.display.parts.run_problems import id_part
from agentnb.display.texts.labels import clean, first_line, pluralize, short_id
from agentnb.display.texts.run_figures import source_of
from agentnb.rerun.replay_result import Decision, Replay, ReplayedRound, cells_of
from agentnb.rerun.turn_endings import AfterText

MAX_ROUNDS = 400
"""Maximum rounds shown. The rest are counted; `table` has them all."""
MAX_OF_GUIDANCE = 2_000
HYPOTHETICAL = "hypothetical: the recording does not show what the model would have done"
OF_ITSELF = ("tool_results", "continued")
"""Reasons for a round that tell the reader nothing new."""
ENDED = "would have ended earlier"
CUT_OFF = "cut off"
END_NOT_RECORDED = "end not recorded"
NOT_KNOWABLE = "unknown: would have continued earlier"
AS_RECORDED = "as recorded"
AFTER_TEXT: dict[AfterText, str] = {
    "end": "",
    "person": "a person speaks",
    "harness": "the harness answers",
    "agent": "another agent speaks",
    "same_agent": "",
}
"""The event after a reply without a tool call, in words; empty if the decision already says so."""
HEADINGS = ("round", "recorded", "would be", "guidance for the next round", "")
_ROUND = re.compile(r"round ([0-9]+)")


class Row(NamedTuple):
    """The row of a round, as text."""

    number: int
    recorded: str
    would_be: str
    told: str
    """The hypothetical guidance in the next request, and whether the recorded reply follows it."""
    notes: tuple[str, ...]


def rows(replay: Replay) -> list[Row]:
    """Return the rows of the rounds, in order, up to `MAX_ROUNDS`."""
    return [_row(replay, replayed) for replayed in replay.rounds[:MAX_ROUNDS]]


def _row(replay: Replay, replayed: ReplayedRound) -> Row:
    after = AFTER_TEXT[replayed.after_text] if replayed.after_text else ""
    if replayed.decision is None:
        would_be = NOT_KNOWABLE if replay.stop is None else ENDED
    else:
        would_be = _decision(replayed.decision, AS_RECORDED if replayed.not_knowable is not None else "")
    recorded = _decision(
        replayed.recorded_decision, after, END_NOT_RECORDED if replay.recorded.status == "unknown" else CUT_OFF
    )
    return Row(replayed.number, recorded, would_be, _next_guidance(replayed), tuple(_notes(replay, replayed)))


def _decision(decision: Decision, instead: str = "", undecided: str = CUT_OFF) -> str:
    """Return a decision in words.

    ``instead``: replaces the reason; ``undecided``: the words for a record that does not show whether the run continued.
    """
    parts = ["tools" if decision.tools else "text"]
    parts += [f"{decision.open} open"] if decision.open else []
    parts += ["workflow mode"] if decision.mode else []
    ends = {True: "continues", False: "ends", None: undecided}[decision.continues]
    why = instead or ("" if decision.reason in OF_ITSELF else decision.reason)
    return ", ".join([*parts, f"{ends} ({why})" if why else ends])


def _next_guidance(replayed: ReplayedRound) -> str:
    followed: Sequence[Followed | None] = replayed.next_followed or [None] * len(replayed.next_guidance)
    marks = {True: " ✓", False: " ✗", None: ""}
    return ", ".join(
        f"{cells_of([guidance])}{marks[verdict.followed if verdict else None]}"
        for guidance, verdict in zip(replayed.next_guidance, followed, strict=False)
    )


def _notes(replay: Replay, replayed: ReplayedRound) -> list[str]:
    notes = []
    if replayed is replay.first_divergence:
        notes.append("first divergence")
    if replayed.number == replay.caught_at:
        notes.append("could have been caught here")
    notes += replayed.caught_by
    if replayed.hypothetical:
        notes.append("hypothetical")
    return notes


# As HTML


def replay_html(replay: Replay) -> Html:
    """Return the replay as a table with one row per round. Rows after the first divergence are grey, and guidance expands."""
    shown = rows(replay)
    heads = tag("tr", "", *[tag("th", "replay-cell replay-heading", name) for name in HEADINGS if name])
    body = [_row_html(replay, replayed, row) for replayed, row in zip(replay.rounds, shown, strict=False)]
    omitted = len(replay.rounds) - len(shown)
    parts = (
        tag("div", "replay-head", tag("b", "", _head(replay)), " ", tag("span", "meta", _source(replay))),
        tag("div", "replay-sentence", _link_rounds(replay, replay.sentence)),
        tag("div", "replay-caution", _link_rounds(replay, replay.turn_ending.sentence)),
        tag("div", "replay-caution", _link_rounds(replay, replay.caution)),
        tag("div", "replay-rounds", tag("table", "replay-table", heads, *body)) if body else NOTHING,
        tag("div", "replay-caution", f"{pluralize(omitted, 'more round')}, in table()") if omitted else NOTHING,
    )
    return wrap_output(tag("div", "replay", *parts))


def _row_html(replay: Replay, replayed: ReplayedRound, row: Row) -> Html:
    kind = " replay-hypothetical" if replayed.hypothetical else " replay-parting" if replayed is replay.first_divergence else ""
    line = first_line(clean(round_line(replayed.recorded, replay.recorded.settings, ()).strip()).partition("  ")[2], 110)
    cells = (
        tag("b", "", str(row.number)),
        join_html(row.recorded, tag("div", "replay-line", line)),
        join_html(row.would_be, *[tag("div", "replay-note", note) for note in row.notes]),
        _guidance_html(row.told, replayed.next_guidance),
    )
    title = HYPOTHETICAL if replayed.hypothetical else None
    shown = [tag("td", f"replay-cell{kind}", cell, title=title) for cell in cells]
    return tag("tr", "", *shown, id=_anchor(replay, row.number))


def _guidance_html(title: str, guidance: Sequence[Guidance]) -> Html:
    if not guidance:
        return NOTHING
    texts = [tag("div", "replay-text", words(f"{item.cell}: {item.text}", MAX_OF_GUIDANCE)) for item in guidance]
    return fold_tag("", "replay-told", title, *texts)


def _link_rounds(replay: Replay, sentence: str) -> Html:
    """Return the sentence, with its round numbers as links to the rounds."""
    pieces = _ROUND.split(sentence)
    linked = [pieces[0]]
    for number, text in zip(pieces[1::2], pieces[2::2], strict=True):
        linked += [tag("a", "", f"round {number}", href=f"#{_anchor(replay, int(number))}"), text]
    return join_html(*linked)


def _anchor(replay: Replay, number: int) -> str:
    run, variant = id_part(short_id(replay.recorded.id)), replay.variant
    return f"agentnb-replay-{run}-{id_part(variant.words.version)}-{variant.policy.name}-{number}"


def _head(replay: Replay) -> str:
    return f"Replay under {replay.variant.sentence}"


def _source(replay: Replay) -> str:
    run = replay.recorded
    return first_line(f"{source_of(run)} · {run.model} · {run.prompt}", 160)


# As text


def replay_text(replay: Replay) -> str:
    """Return the replay as lines of text: the decisions, and a table with one row per round."""
    shown = rows(replay)
    cells = [(str(row.number), row.recorded, row.would_be, row.told, ", ".join(row.notes)) for row in shown]
    widths = [max(map(len, column)) for column in zip(HEADINGS, *cells, strict=True)]
    lines = [f"{_head(replay)}: {_source(replay)}", replay.sentence, replay.turn_ending.sentence, replay.caution, ""]
    table = [HEADINGS, *cells] if cells else []
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]
    if omitted := len(replay.rounds) - len(shown):
        lines.append(f"{pluralize(omitted, 'more round')}, in table()")
    return clean("\n".join(lines))
