"""One self-contained page of a run: no script, nothing fetched, readable in light and dark."""

from __future__ import annotations

from agentnb.detect.run import Run
from agentnb.display.form import Form
from agentnb.display.html import plain_html
from agentnb.display.labels import counted, first_line
from agentnb.display.markup import Html, joined, tag, words
from agentnb.display.style import style_sheet

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Makes the browser itself refuse everything but our style sheet and the pictures in the page."""


def page_html(run: Run) -> str:
    """Return the whole page: long results in full, and what the model saw in each round."""
    title = f"{first_line(run.prompt, 70)} · agentnb"
    started = f"{run.started_at:%Y-%m-%d %H:%M} UTC" if run.started_at else ""
    about = " · ".join(part for part in (run.id, started, counted(len(run.events), "event")) if part)
    head = joined(
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
        tag("title", "", words(title)),
        Html(f"<style>\n{style_sheet()}</style>"),
    )
    card = plain_html(run, Form(whole=True, folds={"rounds": True}), prompt=True)
    body = tag("body", "page", tag("main", "", card, tag("p", "aside", about)))
    return f"<!doctype html>\n{tag('html', '', tag('head', '', head), body, lang='en')}\n"
