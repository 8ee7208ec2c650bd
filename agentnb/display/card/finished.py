"""The parts of a finished run's card around its transcript: answer or reason, figures, problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from agentnb.advice import Command, pieces
from agentnb.core.messages import Image
from agentnb.core.run.rounds import CallRecord
from agentnb.detect.run import Run
from agentnb.detect.run_states import NOT_CHECKED
from agentnb.display.card.replay_offer import replay_offer
from agentnb.display.card.transcript import Transcript
from agentnb.display.card.workflow_card import steps_html, steps_title
from agentnb.display.defaults import MAX_FIGURES, MAX_OF_PICTURES
from agentnb.display.form import Form
from agentnb.display.markdown.markdown import markdown_html
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag
from agentnb.display.parts.head import details_html
from agentnb.display.parts.long_text import Way
from agentnb.display.parts.questions.question import question_html
from agentnb.display.parts.run_problems import trouble_links
from agentnb.display.parts.run_totals import Totals
from agentnb.display.parts.step_list import has_steps
from agentnb.display.parts.todo_list import todo_list_html
from agentnb.display.parts.tool_results import is_pictured, pictures_html, traceback_html
from agentnb.display.texts.call_labels import state
from agentnb.display.texts.labels import cut, cut_after_paragraph, pluralize
from agentnb.display.texts.notebook_commands import CHECK, NOTEBOOK
from agentnb.display.texts.states import (
    chip,
    ending_pieces,
    is_foreign,
    next_step,
    note_pieces,
    reason_pieces,
    shown_answer,
)
from agentnb.display.texts.todo_labels import todos_done

MAX_OF_AN_ANSWER = 100_000
MAX_OF_A_REASON = 2_000
MAX_OF_A_LAST_REPLY = 20_000
_SENTENCE = re.compile(r"(?s)(.{8,200}?[.:!?])(\s.*)")


def answer_html(text: str) -> Html:
    """Return an answer, rendered as Markdown."""
    return tag("div", "answer", markdown_html(text.strip(), MAX_OF_AN_ANSWER))


def result_html(run: Run) -> Html:
    """Return the answer or, if the run has none, the reason, the last reply and the open questions."""
    answer = shown_answer(run)
    is_failed = run.status == "failed"
    reason = pieces_html(ending_pieces(run) if is_failed else reason_pieces(run), lead="bad" if is_failed else "warn")
    kind = "why why-bad" if is_failed else "why"
    boxes = [tag("div", kind, reason, _traceback(run))] if reason else []
    boxes += [tag("div", "why", pieces_html(note)) for note in note_pieces(run)]
    form = Form(over=not run.should_continue)
    asked = [question_html(question, form) for question in run.questions if question.outcome == "open"]
    open_questions = tag("div", "list", *asked) if asked else NOTHING
    return join_html(answer_html(answer) if answer else NOTHING, *boxes, open_questions)


def has_last_reply(run: Run) -> bool:
    """True if the run ended before its model could answer but has a reply with text."""
    return not shown_answer(run) and run.status in ("limited", "stopped", "cancelled") and bool(run.text.strip())


def _traceback(run: Run) -> Html:
    """Return the traceback of an error in the person's own model, folded like those of tools."""
    if run.error is None or not run.error.traceback:
        return NOTHING
    way = Way(where="run.error.traceback")
    return traceback_html(run.error.traceback, "error", way, "Traceback of your model")


def pieces_html(pieces: Iterable[str], lead: str = "") -> Html:
    """Mark up the commands among these pieces as code, and the first sentence with the tone ``lead``."""
    marked: list[str] = []
    for piece in pieces:
        if isinstance(piece, Command):
            marked.append(tag("code", "command", piece))
        elif lead and not marked:
            text = cut(piece, MAX_OF_A_REASON)
            first = _SENTENCE.fullmatch(text)
            head, remainder = (first.group(1), first.group(2)) if first else (text, "")
            marked += [tag("b", lead, head), remainder]
        else:
            marked.append(cut(piece, MAX_OF_A_REASON))
    return join_html(*marked)


def pictured_calls(run: Run) -> list[CallRecord]:
    """Return the most recent calls whose pictures fit above the transcript."""
    pictured: list[CallRecord] = []
    room, count = MAX_OF_PICTURES, 0
    for record in reversed([record for run_round in run.rounds for record in run_round.records]):
        if state(record) == "ok" and is_pictured(record) and record.result is not None:
            images = [part for part in record.result.parts if isinstance(part, Image)]
            room, count = room - sum(len(part.data) for part in images), count + len(images)
            if room < 0 or count > MAX_FIGURES:
                break
            pictured.append(record)
    return pictured[::-1]


def figures_html(records: list[CallRecord]) -> Html:
    """Return the pictures of these calls, side by side where possible."""
    return tag("div", "figures", *[picture for record in records for picture in pictures_html(record)]) if records else NOTHING


def foot_html(run: Run, totals: Totals, form: Form, shown: Transcript) -> Html:
    """Return folds for the transcript, todos and details, then the problems and the next command."""
    items = [*_folds(run, totals, form, shown)]
    step = next_step(run)
    if step is not None and run.status != "failed":  # else it is beside the error, after what to do first
        items.append(tag("span", "next-step", pieces_html(pieces("", [step], NOTEBOOK))))
    if chip(run) == NOT_CHECKED and not is_foreign(run):
        note = "Nothing checked this answer. To check the next one, for example: "
        items.append(tag("span", "next-step", note, tag("code", "command", CHECK)))
    if offer := replay_offer(run, form.variable):
        typed = tag("span", "", pieces_html(pieces("", [offer], NOTEBOOK)))
        items.append(tag("span", "replay-offer", typed, data_replay=run.id))
    return tag("div", "foot", Html(" ".join(items))) if items else NOTHING


def _folds(run: Run, totals: Totals, form: Form, shown: Transcript) -> Iterator[Html]:
    if has_last_reply(run):
        text = run.text.strip()
        reply = tag("div", "list", markdown_html(cut_after_paragraph(text, MAX_OF_A_LAST_REPLY)))
        yield _part("reply", f"Last reply, {pluralize(len(text.splitlines()), 'line')}", reply, form.is_open("reply"))
    if shown.rounds:  # folds opened in the live card stay visible
        opened = any(is_open for key, is_open in form.folds.items() if form.details or not key.startswith("saw:"))
        title = f"Transcript, {pluralize(totals.rounds, 'round')}"
        yield _part("rounds", title, tag("div", "rounds", shown.rounds), form.is_open("rounds", opened))
    if has_steps(run):
        opened = any(is_open for key, is_open in form.folds.items() if key.startswith(("step:", "nested:")))
        yield _part("rounds", steps_title(run), steps_html(run, form), form.is_open("rounds", opened))
    yield from trouble_links(totals.wrong, run.id)
    if run.todos:
        todos = tag("div", "list", todo_list_html(run.todos, live=False))
        yield _part("todos", f"Todos {todos_done(run.todos)}", todos, form.is_open("todos"))
    saw = any(is_open for key, is_open in form.folds.items() if not form.details and key.startswith("saw:"))
    yield _part(
        "details", "Details", tag("div", "list", details_html(run, totals), shown.details), form.is_open("details", saw)
    )


def _part(key: str, title: str, body: Html, is_open: bool) -> Html:
    return fold_tag("part", "part-title", title, tag("div", "part-body", body), data_fold=key, open=is_open)
