"""A self-contained page of a run, with a light and a dark theme. It has no script and fetches nothing."""

from __future__ import annotations

from collections.abc import Iterator

from agentnb.core.messages import Text, Thinking
from agentnb.detect.run import Run
from agentnb.display.card.html import plain_html
from agentnb.display.css import style_sheet
from agentnb.display.defaults import MAX_OF_A_TEXT, MAX_OF_ALL, MAX_OF_THINKING
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, join_html, tag
from agentnb.display.parts.questions.call_view import MAX_OF_A_QUESTION
from agentnb.display.parts.step_list import MAX_WHOLE
from agentnb.display.parts.tool_results import as_text
from agentnb.display.texts.call_labels import arguments_by_name
from agentnb.display.texts.labels import first_line, pluralize
from agentnb.interchange.page_log import ELEMENT, packed_log

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Content security policy that allows only our style sheet and the pictures in the page."""


LEFT_OUT = "Very long texts are shortened on this page, where marked"


def page_html(run: Run) -> str:
    """Return the complete page, including each round's request, and the run's log so that the run can be loaded again."""
    title = f"{first_line(run.prompt, 70)} · agentnb"
    started = f"{run.started_at:%Y-%m-%d %H:%M} UTC" if run.started_at else ""
    origin = " · ".join(part for part in (run.id, started, pluralize(len(run.events), "event")) if part)
    card = plain_html(run, Form(whole=True, folds={"rounds": True}), prompt=True)
    log = tag("code", "tool-code", f"{run.id}.jsonl")
    cut_note = f"{LEFT_OUT}. The log has the full texts: load_trace opens this page, and "
    note = tag("p", "quiet", cut_note, log) if any(length > most for length, most in _lengths(run)) else NOTHING
    packed = Html(f'<template id="{ELEMENT}">{packed_log(run.events)}</template>')
    return page_of(title, tag("main", "", note, card, tag("p", "quiet", origin)), packed)


def page_of(title: str, *content: Html, style: str = "") -> str:
    """Return a page, with a light and a dark theme, that fetches nothing and runs no script. ``style``: rules in
    addition to the common ones.
    """
    head = join_html(
        Html('<meta charset="utf-8">'),
        Html('<meta name="generator" content="agentnb">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("title", "", title),
        Html(f"<style>\n{style_sheet()}{style}</style>"),
    )
    body = tag("body", "page", *content)
    return f"<!doctype html>\n{tag('html', '', tag('head', '', head), body, lang='en')}\n"


def _lengths(run: Run) -> Iterator[tuple[int, int]]:
    """Yield the length and the limit of each text that may be truncated."""
    yield len(run.prompt), MAX_OF_A_TEXT
    for run_round in run.rounds:
        yield len(run_round.text), MAX_OF_A_TEXT
        yield (
            sum(len(part.text) for part in run_round.reply.parts if isinstance(part, Thinking)) if run_round.reply else 0,
            MAX_OF_THINKING,
        )
        for compaction in run_round.compactions:
            yield len(compaction.compacted.text) if compaction.compacted else 0, MAX_OF_A_TEXT
        for record in run_round.records:
            for value in arguments_by_name(record.call.arguments).values():
                yield len(as_text(value)), MAX_OF_ALL
            for part in record.result.parts if record.result else ():
                yield len(part.text) if isinstance(part, Text) else 0, MAX_OF_ALL
            yield len(record.traceback), MAX_OF_ALL
    for step in run.step_records.values():
        yield len(step.error), MAX_WHOLE
        yield len(step.output) if isinstance(step.output, str) else 0, MAX_WHOLE
    for question in run.questions:
        yield len(question.question.message), MAX_OF_A_QUESTION
