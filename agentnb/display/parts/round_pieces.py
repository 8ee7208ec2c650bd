"""A round of a run as HTML, in pieces: a live card updates them individually, and a saved card joins them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from agentnb.core.messages import Thinking
from agentnb.core.questions import AskedQuestion, by_call
from agentnb.core.run.approvals import is_of_draft
from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.display.defaults import MAX_OF_A_TEXT, MAX_OF_THINKING
from agentnb.display.form import Form
from agentnb.display.markdown.markdown import markdown_html
from agentnb.display.markup import NOTHING, Html, join_html, tag, words
from agentnb.display.parts.questions.draft_view import draft_html, plan_notes
from agentnb.display.parts.questions.question import question_html
from agentnb.display.parts.round_details import (
    also_html,
    author_html,
    compactions_html,
    fold,
    odd,
    recovered_html,
    retries_html,
    said_html,
    saw_html,
)
from agentnb.display.parts.tool_card import nested_html, tool_card_html
from agentnb.display.texts.call_labels import state, todo_words, while_asking
from agentnb.display.texts.labels import pluralize
from agentnb.display.texts.round_notes import round_warnings

ANSWER_ABOVE = "Answer: shown above."
"""Replaces the answer in the round that gave it."""
Pieces = dict[str, Html]
"""The pieces of a round by key, in order. Keys are permanent."""
LAST = ("found", "marks", "also", "said", "saw")
"""Pieces that follow the reply and its calls."""


def round_pieces(
    one: WorkflowRound,
    form: Form,
    *,
    saw: Html = NOTHING,
    user_messages: Iterable[str] = (),
    also: Sequence[str] = (),
    questions: Iterable[AskedQuestion] = (),
    with_text: bool = True,
) -> Pieces:
    """Return all pieces of a round.

    ``saw``: its request; ``user_messages``: the person's messages during it; ``also``: lines about other events; ``questions``:
    questions asked in it; ``with_text``: False if the card shows the answer above.
    """
    asked = by_call(questions)
    updates = routine_updates(one, asked)
    pieces: Pieces = {"todos": todo_updates_html(one, updates, form)}
    pieces["recovered"] = recovered_html() if one.recovered else NOTHING
    pieces |= {"compactions": compactions_html(one, form), "retries": retries_html(one), "thinking": thinking_html(one, form)}
    if one.text.strip():
        pieces["text"] = text_html(one) if with_text else tag("div", "quiet", ANSWER_ABOVE)
    for position, record in enumerate(one.records):
        if position in updates:
            continue
        pieces[f"call:{position}"] = call_html(one, position, record, form, asked.pop(record.call.id, ()))
    for question in chain.from_iterable(asked.values()):
        pieces[f"question:{question.question.id}"] = _question(question, form)
    if one.status != "running":
        pieces["found"] = join_html(*[odd(f"▲ {sentence}") for sentence in round_warnings(one)])
    pieces["marks"] = form.marks.get(one.index, NOTHING)
    pieces |= {"also": also_html(also, f"also:{one.index}", form), "said": said_html(user_messages, by_you=not form.foreign)}
    pieces["saw"] = saw_html(one, saw, form)
    return {key: piece for key, piece in pieces.items() if piece}


def round_html(index: int, pieces: Pieces, anchor: str = "") -> Html:
    """Return a round with its number; without styles, the number is on a line of its own."""
    number = tag("div", "number", tag("span", "unseen", "Round "), str(index + 1))
    body = tag("div", "pieces", *pieces.values())
    return tag("div", "round", number, body, data_round=str(index), id=anchor or None)


def routine_updates(one: WorkflowRound, asked: Mapping[str, Sequence[AskedQuestion]]) -> dict[int, CallRecord]:
    """Return, by position, the routine calls of todo tools; these do not need their own line."""
    remarkable = {violation.call_id for violation in one.todo_violations} | {*asked}

    def is_routine(record: CallRecord) -> bool:
        is_well = state(record) in ("ok", "running")
        return record.role == "list" and is_well and record.call.id not in remarkable and not record.nested

    return {position: record for position, record in enumerate(one.records) if is_routine(record)}


def todo_updates_html(one: WorkflowRound, updates: Mapping[int, CallRecord], form: Form) -> Html:
    """Return a mark next to the round's number that expands to these calls; if the round has nothing else, their text
    is added.
    """
    if not updates:
        return NOTHING
    reply = one.reply
    calls = len(reply.calls) if reply is not None else len(one.records)
    thought = reply is not None and any(isinstance(part, Thinking) for part in reply.parts)
    is_all = len(updates) == calls and not one.text.strip() and not thought
    label = f"todos: {todo_words(updates.values())}"
    mark = tag("span", "updates-sign", "☰", title=label, aria_hidden="true")
    summary = tag("span", "quiet" if is_all else "unseen", f" {label}")
    cards = [call_html(one, position, record, form) for position, record in updates.items()]
    opened = any(form.folds.get(f"call:{one.index}:{position}") for position in updates)
    key = f"todos:{one.index}"
    return tag(
        "details",
        "updates",
        tag("summary", "updates-line" if is_all else "updates-mark", mark, summary),
        tag("div", "updates-calls", *cards),
        data_fold=key,
        open=form.is_open(key, opened),
    )


def thinking_html(one: WorkflowRound, form: Form) -> Html:
    """Return the model's thinking, folded."""
    parts = one.reply.parts if one.reply is not None else ()
    thought = "\n\n".join(part.text for part in parts if isinstance(part, Thinking) and part.text.strip())
    if not thought:
        return NOTHING
    body = tag("div", "thought", words(thought.strip(), MAX_OF_THINKING))
    return fold(f"thinking:{one.index}", f"thinking, {pluralize(len(thought.split()), 'word')}", body, form)


def text_html(one: WorkflowRound) -> Html:
    """Return the text of the reply."""
    author = author_html(one.reply.author) if one.reply is not None else NOTHING
    return join_html(author, tag("div", "text", markdown_html(one.text.strip(), MAX_OF_A_TEXT)))


def call_html(one: WorkflowRound, place: int, record: CallRecord, form: Form, questions: Sequence[AskedQuestion] = ()) -> Html:
    """Return the card of a call, followed by the runs it started and its questions to the person."""
    key, where = f"call:{one.index}:{place}", f"{form.variable}.rounds[{one.index}].results[{place}].text"
    card_form = form._replace(pictures=False) if record.call.id in form.shown_above else form
    card = tool_card_html(while_asking(record, questions), card_form, key=key, where=where, is_open=form.folds.get(key))
    asked = [_question(question, form, may_wait=record.waits) for question in questions]
    return join_html(card, plan_notes(record, form.run), nested_html(record, form), *asked)


def _question(asked: AskedQuestion, form: Form, *, may_wait: bool = False) -> Html:
    if form.run is not None and is_of_draft(form.run, asked.question):
        return draft_html(asked, form.run, form)
    return question_html(asked, form, may_wait=may_wait)
