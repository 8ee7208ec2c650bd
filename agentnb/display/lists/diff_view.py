"""Two runs side by side, as HTML and as text: figures, divergence, aligned rounds and todos."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

import msgspec

from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.card.compact import round_line
from agentnb.display.card.text import round_lines
from agentnb.display.card.transcript import size
from agentnb.display.css import inline_css, wrap_output
from agentnb.display.form import Form, effects_of
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag
from agentnb.display.parts.head import state_html
from agentnb.display.parts.round_pieces import Pieces, round_html, round_pieces
from agentnb.display.parts.run_problems import id_part
from agentnb.display.texts.labels import clean, duration, first_line, short_id
from agentnb.display.texts.run_figures import source_of
from agentnb.display.texts.states import chip, rounds_at_end
from agentnb.rerun.run_diff import RoundPair, RunDiff

Calls: TypeAlias = dict[int, list[Html]]
"""The differing calls in a round by position, each with notes on the differences."""
MAX_OF_AN_ARGUMENT = 160
MAX_ARGUMENTS = 6
"""Maximum arguments of a call that are named; the rest are counted."""
CONTEXT_CHARACTERS = 20
"""Number of characters shown before the first difference."""
_encoder = msgspec.json.Encoder(order="sorted")


def differing_calls(one: WorkflowRound, other: WorkflowRound) -> Calls:
    """Return the calls of ``one`` that ``other`` lacks or has with a different result.

    Calls are matched by name and arguments; the rest are matched by name, in order, to find differing arguments.
    """
    remaining = [*other.records]
    unmatched: list[tuple[int, CallRecord]] = []
    differing: Calls = {}
    for index, record in enumerate(one.records):
        match = next((candidate for candidate in remaining if _key(candidate) == _key(record)), None)
        if match is None:
            unmatched.append((index, record))
            continue
        remaining.remove(match)
        if note := _other_result(record, match):
            differing[index] = [note]
    for index, record in unmatched:
        match = next((candidate for candidate in remaining if candidate.call.name == record.call.name), None)
        if match is not None:
            remaining.remove(match)
        differing[index] = _other_arguments(record, match) if match is not None else []
    return differing


def _key(record: CallRecord) -> tuple[str, bytes]:
    return record.call.name, _encoder.encode(record.call.arguments)


def _other_result(record: CallRecord, match: CallRecord) -> Html | None:
    own, counterpart = (call.result.text if call.result is not None else "" for call in (record, match))
    if own == counterpart and _fails(record) == _fails(match):
        return None
    first = next(
        (index for index, (a, b) in enumerate(zip(own, counterpart, strict=False)) if a != b), min(len(own), len(counterpart))
    )
    start = max(0, first - CONTEXT_CHARACTERS)
    excerpt = first_line(own[start : start + 2 * MAX_OF_AN_ARGUMENT], MAX_OF_AN_ARGUMENT)
    return join_html("different result: ", tag("span", "diff-value", f"{'…' if start else ''}{excerpt}" or "(empty)"))


def _fails(record: CallRecord) -> bool:
    return record.result is not None and record.result.is_error


def _other_arguments(record: CallRecord, match: CallRecord) -> list[Html]:
    own, counterpart = record.call.arguments, match.call.arguments
    if not isinstance(own, dict) or not isinstance(counterpart, dict):
        return [join_html("different arguments: ", _argument(own))]
    names = [name for name in own if name not in counterpart or own[name] != counterpart[name]]
    notes = [join_html(f"{first_line(str(name), 60)}: ", _argument(own[name])) for name in names[:MAX_ARGUMENTS]]
    if more := len(names) - MAX_ARGUMENTS:
        notes += [join_html(f"{more:,} more arguments differ")] if more > 0 else []
    if gone := [first_line(str(name), 60) for name in counterpart if name not in own]:
        notes.append(join_html(f"without {', '.join(gone[:MAX_ARGUMENTS])}"))
    return notes


def _argument(value: Any) -> Html:
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return tag("span", "diff-value", first_line(shown, MAX_OF_AN_ARGUMENT))


MAX_ROUND_HTML_BYTES = 300_000
"""Maximum bytes of HTML for differing rounds; beyond it, each is a single line. Equal rounds have the same limit."""
MAX_PAIRS = 400
"""Maximum pairs of differing rounds shown; the rest are counted."""
MAX_TODOS = 40
MAX_OF_A_VALUE = 80
UNKNOWN = "-"
WORDS = {
    "text": "the texts differ",
    "results": "the same calls have different results",
    "calls": "the calls differ",
    "only_a": "only in a",
    "only_b": "only in b",
}
_PLACE = re.compile(r"round ([0-9,]+) of ([ab])")


def diff_html(diff: RunDiff) -> Html:
    """Return both runs, side by side where possible and otherwise stacked, with equal rounds folded."""
    heading = tag("div", "diff-heads", _head_of("a", diff.a), _head_of("b", diff.b))
    parts = (heading, _sentence(diff), _figures(diff), _todos(diff), tag("div", "diff-rounds", *_rounds(diff)))
    return wrap_output(tag("div", "diff", *parts))


def _head_of(side: str, run: Run) -> Html:
    prompt = first_line(run.prompt, 160)
    origin = first_line(" · ".join(filter(None, (source_of(run), run.model.partition("?")[0]))), 160)
    return tag(
        "div",
        "diff-side",
        tag("b", "diff-name", side),
        " ",
        state_html(run),
        " ",
        tag("span", "meta", origin),
        tag("div", "diff-asked", prompt),
    )


def _sentence(diff: RunDiff) -> Html:
    """Return the sentence about the divergence, with links to the rounds."""
    pieces = _PLACE.split(diff.sentence)
    linked = [pieces[0][:1].upper() + pieces[0][1:]]
    for number, side, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        link = tag("a", "to-round", f"round {number}", href=f"#{_anchor(diff, side, int(number.replace(',', '')) - 1)}")
        linked += [link, f" of {side}{text}"]
    return tag("div", "why", tag("b", "", *linked), ".")


def _figures(diff: RunDiff) -> Html:
    """Return a row for each figure that differs, and one line for the equal ones. Figures unknown for both runs are omitted."""
    figures = [*_known_figures(diff)]
    rows = [_figure(name, a, b) for name, a, b in figures if a != b]
    table = tag("table", "data", _row("th", ("", "a", "b", "b - a"), "data-column"), *rows) if rows else NOTHING
    equal = ", ".join(f"{name.replace('_', ' ')} {_value(name, a)}" for name, a, b in figures if a == b)
    return tag("div", "list", table, tag("div", "quiet", f"Alike: {equal}") if equal else NOTHING)


def _known_figures(diff: RunDiff) -> Iterator[tuple[str, Any, Any]]:
    figures = diff.figures()
    yield from ((name, a, b) for name, (a, b) in figures.items() if a is not None or b is not None)


def _figure(name: str, a: Any, b: Any) -> Html:
    delta = b - a if not isinstance(a, str | None) and not isinstance(b, str | None) else None
    change = f"{'+' if delta > 0 else '-'}{_value(name, abs(delta))}" if delta is not None else ""
    return _row("td", (name.replace("_", " "), _value(name, a), _value(name, b), change), "diff-figure")


def _row(cell: str, texts: Sequence[str], kind: str) -> Html:
    cells = [tag(cell, f"data-cell {kind}", text) for text in texts]
    return tag("tr", "", *cells)


def _value(name: str, value: Any) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return first_line(value, MAX_OF_A_VALUE)
    if name == "seconds":
        return duration(value)
    return f"${value:.4f}" if name == "cost" else f"{value:,}"


def _todos(diff: RunDiff) -> Html:
    """Return the todos whose final states differ, by title."""
    rows = _differing_todos(diff)
    if not rows:
        return NOTHING
    shown = [_row("td", (first_line(title, MAX_OF_A_VALUE), a, b), "diff-figure") for title, a, b in rows[:MAX_TODOS]]
    return tag("div", "list", tag("table", "data", _row("th", ("todos that differ", "a", "b"), "data-column"), *shown))


def _differing_todos(diff: RunDiff) -> list[tuple[str, str, str]]:
    a, b = ({todo.title: todo.status.replace("-", " ") for todo in run.todos} for run in (diff.a, diff.b))
    titles = dict.fromkeys([*a, *b])
    return [(title, a.get(title, UNKNOWN), b.get(title, UNKNOWN)) for title in titles if a.get(title) != b.get(title)]


# The rounds


def _rounds(diff: RunDiff) -> Iterator[Html]:
    forms = {side: _form(side, run) for side, run in (("a", diff.a), ("b", diff.b))}
    room, equal_room, shown = MAX_ROUND_HTML_BYTES, MAX_ROUND_HTML_BYTES, 0
    for is_alike, group in groupby(diff.rounds, lambda pair: pair.difference == "same"):
        pairs = [*group]
        if is_alike:
            html = inline_css(_alike(diff, pairs, forms["a"], cut=equal_room <= 0))
            equal_room -= size(html)
            yield html
            continue
        for pair in pairs[: max(0, MAX_PAIRS - shown)]:
            html = inline_css(_pair(diff, pair, forms, cut=room <= 0))
            room -= size(html)
            yield html
        if (left_out := shown + len(pairs) - MAX_PAIRS) > 0:
            yield tag("div", "list quiet", f"{min(left_out, len(pairs)):,} more that differ")
        shown += len(pairs)


def _form(side: str, run: Run) -> Form:
    return Form(pictures=False, effects=effects_of(run.tools), settings=run.settings, over=True, variable=side)


def _alike(diff: RunDiff, pairs: Sequence[RoundPair], form: Form, *, cut: bool) -> Html:
    """Return equal rounds, folded and drawn only once."""
    rounds = [pair.a for pair in pairs if pair.a is not None]
    drawn = [_round(diff, "a", run_round, {} if cut else round_pieces(run_round, form), form) for run_round in rounds]
    return fold_tag("diff-alike", "quiet", alike_words(pairs), *drawn)


def alike_words(pairs: Sequence[RoundPair]) -> str:
    """Return words such as ``rounds 1 to 5 are alike``, including run b's numbers if they differ."""
    first, last = pairs[0], pairs[-1]
    assert first.a is not None and last.a is not None and first.b is not None and last.b is not None
    in_a, in_b = (
        f"{start.index + 1} to {end.index + 1}" if start is not end else f"{start.index + 1}"
        for start, end in ((first.a, last.a), (first.b, last.b))
    )
    noun, verb = ("round", "is") if len(pairs) == 1 else ("rounds", "are")
    return f"{noun} {in_a}{f' of a and {in_b} of b' if in_a != in_b else ''} {verb} alike"


def _pair(diff: RunDiff, pair: RoundPair, forms: Mapping[str, Form], *, cut: bool) -> Html:
    """Return two corresponding rounds side by side with their differences marked, or a round without a counterpart."""
    sides = (("a", pair.a, pair.b), ("b", pair.b, pair.a))
    columns = [_column(diff, side, own, counterpart, forms[side], cut=cut) for side, own, counterpart in sides]
    return tag("div", "diff-pair", tag("div", "diff-what quiet", WORDS[pair.difference]), tag("div", "diff-columns", *columns))


def _column(
    diff: RunDiff, side: str, own: WorkflowRound | None, counterpart: WorkflowRound | None, form: Form, *, cut: bool
) -> Html:
    if own is None:
        return tag("div", "diff-column diff-none", tag("span", "quiet", f"{side}: no such round"))
    pieces = {} if cut else _mark(own, counterpart, round_pieces(own, form))
    drawn = tag("div", "diff-round", _round(diff, side, own, pieces, form))
    return tag("div", "diff-column", tag("span", "diff-name", side), drawn)


def _round(diff: RunDiff, side: str, run_round: WorkflowRound, pieces: Pieces, form: Form) -> Html:
    anchor = _anchor(diff, side, run_round.index)
    if pieces:
        return round_html(run_round.index, pieces, anchor)
    return tag("div", "quiet round-line", round_line(run_round, form.settings, ()), id=anchor)


def _mark(own: WorkflowRound, counterpart: WorkflowRound | None, pieces: Pieces) -> Pieces:
    """Return the pieces of a round, marking those that its counterpart lacks."""
    if counterpart is None:
        return pieces
    differing: Calls = differing_calls(own, counterpart)
    marked = dict(pieces)
    for index, notes in differing.items():
        if (key := f"call:{index}") in marked:
            marked[key] = tag("div", "diff-other", marked[key], *[tag("div", "diff-note", note) for note in notes])
    if own.text != counterpart.text and "text" in marked:
        marked["text"] = tag("div", "diff-other", marked["text"])
    return marked


def _anchor(diff: RunDiff, side: str, index: int) -> str:
    ids = "-".join(id_part(short_id(run.id)) for run in (diff.a, diff.b))
    return f"agentnb-diff-{ids}-{side}-{index + 1}"


# As text


def diff_text(diff: RunDiff) -> str:
    """Return the diff as lines of text: the divergence, differing figures, rounds and todos."""
    lines = [f"a: {chip(diff.a)}, {source_of(diff.a)}", f"b: {chip(diff.b)}, {source_of(diff.b)}"]
    lines.append(f"{diff.sentence[:1].upper()}{diff.sentence[1:]}.")
    lines += [
        f"  {name.replace('_', ' '):<18} {_value(name, a):>18} {_value(name, b):>18}"
        for name, a, b in _known_figures(diff)
        if a != b
    ]
    for is_alike, group in groupby(diff.rounds, lambda pair: pair.difference == "same"):
        pairs = [*group]
        lines += [f"  {alike_words(pairs)}"] if is_alike else [line for pair in pairs for line in _pair_lines(diff, pair)]
    lines += [f"  todo {clean(title)!r}: {a} in a, {b} in b" for title, a, b in _differing_todos(diff)]
    return clean("\n".join(lines))


def _pair_lines(diff: RunDiff, pair: RoundPair) -> Iterator[str]:
    yield f"  {WORDS[pair.difference]}:"
    for side, run_round, run in (("a", pair.a, diff.a), ("b", pair.b, diff.b)):
        if run_round is not None:
            yield from (f"  {side} {line}" for line in round_lines(rounds_at_end(run)[run_round.index], run.settings))
