"""The rounds of a finished run, kept within the size limits of a saved notebook."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from agentnb.advice import LoadRun
from agentnb.context.request_history import sent_requests
from agentnb.core.messages import Image
from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.card.compact import round_line
from agentnb.display.card.request_view import request_view_html
from agentnb.display.css import inline_css
from agentnb.display.defaults import MAX_OF_PICTURES, MAX_REQUEST_BYTES, MAX_ROUND_BYTES, MAX_SAVED_ROUNDS
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, join_html, tag
from agentnb.display.parts.round_details import saw_detail
from agentnb.display.parts.round_pieces import round_html, round_pieces
from agentnb.display.parts.run_problems import round_anchor
from agentnb.display.texts.event_lines import AlsoHappened
from agentnb.display.texts.labels import clean, pluralize, short_id
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.display.texts.round_notes import ignored_guidance, round_notes
from agentnb.display.texts.states import is_foreign, rounds_at_end, shown_answer
from agentnb.display.texts.user_messages import USER, UserMessages

FIRST_ROUNDS = 20
_PICTURE = re.compile(r"base64,[A-Za-z0-9+/=]+")


class Transcript(NamedTuple):
    """The rendered rounds of a run."""

    rounds: Html
    details: Html
    """A line for each round with its guidance; it expands to the round's request."""


def transcript(run: Run, form: Form) -> Transcript:
    """Return the rounds and their details. Rounds that exceed the size limits are cut, with a note."""
    left_out = range(0) if form.whole else range(FIRST_ROUNDS, len(run.rounds) - MAX_SAVED_ROUNDS)
    rounds = [run_round for index, run_round in enumerate(rounds_at_end(run)) if index not in left_out]
    saw, details = _requests(run, rounds, form)
    drawn = _draw_rounds(run, rounds, form, saw)
    cut = _cut(run, drawn, form)
    return Transcript(join_html(cut, *[html for html, _ in drawn]), details)


def _draw_rounds(run: Run, rounds: list[WorkflowRound], form: Form, saw: dict[int, Html]) -> list[tuple[Html, bool]]:
    """Return each round, and whether it is drawn in full: the most recent ones are, as far as space allows."""
    answer = run.rounds[-1].index if run.rounds and shown_answer(run) else -1  # its text is shown above
    pictured = pictured_rounds(rounds, None if form.whole else MAX_OF_PICTURES, form.shown_above)
    user_messages, also, room = (
        UserMessages(run.events, USER if is_foreign(run) else ""),
        AlsoHappened(run.events),
        MAX_ROUND_BYTES,
    )
    drawn: list[tuple[Html, bool]] = []
    for run_round in reversed(rounds):
        questions = [question for question in run.questions_of(run_round.index) if question.outcome != "open"]  # shown above
        also_lines, messages = also.during(run_round.index), user_messages.during(run_round.index)
        is_remarkable = any(line.at_once for line in round_notes(run_round))
        has_details = is_remarkable or messages or questions or also_lines
        if run_round.index == answer and not (has_details or len(run.rounds) > 1):
            continue
        anchor = round_anchor(run.id, run_round.index)
        html = NOTHING
        if room > 0:
            pieces = round_pieces(
                run_round,
                form._replace(pictures=run_round.index in pictured),
                saw=saw.get(run_round.index, NOTHING),
                user_messages=messages,
                also=also_lines,
                questions=questions,
                with_text=run_round.index != answer,
            )
            html = round_html(run_round.index, pieces, anchor)
            html = html if form.whole else inline_css(html)
            room -= 0 if form.whole else size(html)
        is_whole = room >= 0 and bool(html)
        line = tag(
            "div",
            "quiet round-line",
            round_line(run_round, run.settings, questions),
            data_round=str(run_round.index),
            id=anchor,
        )
        drawn.append((html if is_whole else line, is_whole))
    return drawn[::-1]


def size(html: str) -> int:
    """Return the size of the HTML in bytes, excluding pictures."""
    return len(_PICTURE.sub("", html).encode("utf-8", "replace"))


def _cut(run: Run, drawn: list[tuple[Html, bool]], form: Form) -> Html:
    """Return a note on what was cut, with the command that shows the entire run."""
    if form.whole:
        return NOTHING
    lines = sum(not is_whole for _, is_whole in drawn)
    left_out = max(0, len(run.rounds) - MAX_SAVED_ROUNDS - FIRST_ROUNDS)
    cuts = [f"{pluralize(left_out, 'round')} left out"] if left_out else []
    cuts += [f"{pluralize(lines, 'round')} cut to a line"] if lines else []
    if not cuts:
        return NOTHING
    if is_foreign(run):
        page = tag("code", "command", f'save_trace({form.variable}, "run.html")')
        return tag("div", "list quiet", f"{', '.join(cuts)}. To see all rounds: ", page)
    save = tag("code", "command", 'save_trace(run, "run.html")')
    load = tag("code", "command", in_notebook((LoadRun(clean(short_id(run.id))),)))
    return tag("div", "list quiet", f"{', '.join(cuts)}. The log has all rounds: ", load, ", then ", save)


def _requests(run: Run, rounds: Iterable[WorkflowRound], form: Form) -> tuple[dict[int, Html], Html]:
    """Return the requests of those rounds that show them, and details for the other rounds."""
    views = _views(run, form)
    shown = {run_round.index for run_round in rounds if form.details or ignored_guidance(run_round)}
    lines = [
        saw_detail(run_round, views.get(run_round.index, NOTHING), form) for run_round in rounds if run_round.index not in shown
    ]
    return {index: views[index] for index in shown if index in views}, join_html(*lines)


def _views(run: Run, form: Form) -> dict[int, Html]:
    requests = dict(sent_requests(run))
    if form.whole:
        return {index: request_view_html(seen, whole=False, schemas=True) for index, seen in requests.items()}
    room = MAX_REQUEST_BYTES
    views: dict[int, Html] = {}
    for index in dict.fromkeys((0, *sorted(requests, reverse=True))):
        if index in requests and room > 0:
            html = inline_css(request_view_html(requests[index], whole=False))
            room -= size(html)
            views |= {index: html} if room >= 0 else {}
    return views


def pictured_rounds(rounds: Iterable[WorkflowRound], room: int | None, above: Collection[str] = ()) -> frozenset[int]:
    """Return the rounds whose pictures are shown: as many as fit into ``room`` bytes, starting from the last (None: all).

    Pictures of the calls ``above`` are shown elsewhere, but count towards the limit.
    """
    indexes: set[int] = set()
    for run_round in reversed(list(rounds)):
        size_of = {record.call.id: _bytes_of_pictures(record) for record in run_round.records}
        if room is not None:
            room -= sum(size_of.values())
            if room < 0:
                break
        if any(bytes_of and call_id not in above for call_id, bytes_of in size_of.items()):
            indexes.add(run_round.index)
    return frozenset(indexes)


def _bytes_of_pictures(record: CallRecord) -> int:
    parts = record.result.parts if record.result is not None else ()
    return sum(len(part.data) for part in parts if isinstance(part, Image))
