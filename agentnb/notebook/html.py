"""A run as simple HTML that survives saving: inline styles, ``<details>``, no script, no style sheet.

All text of models and tools is escaped and stripped of control characters; none of it becomes markup. Pictures that a
tool gave stand in it as data, nothing is fetched.
"""

from __future__ import annotations

import re
from base64 import b64encode
from html import escape

from agentnb.core.messages import Image, Text, ToolResult
from agentnb.core.rounds import CallRecord, WorkflowRound
from agentnb.core.run import Run
from agentnb.notebook import wording
from agentnb.notebook.text import ROUNDS_WHILE_RUNNING
from agentnb.tools.picture_files import media_type

MOST_OF_A_TEXT = 20_000
MOST_OF_A_RESULT = 4_000
MOST_OF_PICTURES = 4_000_000
"""Bytes of all pictures of a run, which stay in the notebook when it is saved; of more the last are shown."""

_COLUMNS = re.compile(r"\S {2,}\S.*\n.*\S {2,}\S")
"""Two lines or more with gaps inside them: a table in plain text."""
# Each with a plain value first: in a notebook that is not trusted, JupyterLab drops what it cannot check, var() among it.
# The plain greys and colours read on light and on dark ground.
_FONT2 = "color:#757575;color:var(--jp-ui-font-color2,#757575)"
_BORDER = "border:1px solid #9e9e9e;border:1px solid var(--jp-border-color2,#9e9e9e);border-radius:4px"
_UI = "font-family:sans-serif;font-family:var(--jp-ui-font-family,sans-serif);line-height:1.5"
_MONO = "font-family:monospace;font-family:var(--jp-code-font-family,monospace);font-size:12px"
_ACTIVE = "color:#1976d2;color:var(--jp-brand-color1,#1976d2)"
_GOOD = "color:#388e3c;color:var(--jp-success-color1,#388e3c)"
_CARE = "color:#b26a00;color:var(--jp-warn-color0,#b26a00)"
_BAD = "color:#d32f2f;color:var(--jp-error-color1,#d32f2f)"
_STATE = {
    "running": _ACTIVE,
    "waiting_on_user": _ACTIVE,
    "ok": _GOOD,
    "completed": _GOOD,
    "limited": _CARE,
    "stopped": _CARE,
    "blocked": _CARE,
    "cancelled": _CARE,
    "interrupted": _CARE,
    "failed": _BAD,
}
_TODO = {"completed": _FONT2, "in-progress": "font-weight:600", "blocked": _CARE}


def run_html(run: Run, *, streaming: str = "", last_text: bool = True, finished_rounds: dict[int, str] | None = None) -> str:
    """The whole run. While it goes on, the last rounds and the text that streams; when it has ended, all rounds, folded.

    ``finished_rounds`` keeps the HTML of rounds that cannot change any more from one call to the next.
    """
    kept = {} if finished_rounds is None else finished_rounds
    ended = not run.should_continue
    hidden = run.rounds[-1].index if run.is_answered else -1  # the last round is the answer, and shown as such
    shown = tuple(run.rounds) if ended else run.rounds[-ROUNDS_WHILE_RUNNING:]
    pictured = _pictured(run) if ended else frozenset()  # while it goes on it is drawn many times a second
    rounds = "".join(_kept(one, kept, pictured) if one.index != hidden else _without_text(one) for one in shown)
    return (
        f'<div class="agentnb-run" style="{_BORDER};padding:6px 12px;margin:2px 0;max-width:1180px;{_UI};font-size:13px">'
        + _head(run)
        + (answer_html(run.text) if run.is_answered and last_text else "")
        + _todos(run)
        + _body(run, rounds, len(run.rounds) - len(shown), streaming)
        + _notes(run)
        + "</div>"
    )


def answer_html(text: str) -> str:
    """An answer: the model's words, nothing but text. Paragraphs that look like tables keep their columns."""
    paragraphs = wording.cut(wording.clean(text), MOST_OF_A_TEXT).split("\n\n")
    return (
        f'<div class="agentnb-answer" style="margin:6px 0;padding:0 12px;max-width:90ch;{_UI};font-size:14px">'
        + "".join(_paragraph(paragraph) for paragraph in paragraphs)
        + "</div>"
    )


def _paragraph(text: str) -> str:
    if _COLUMNS.search(text):
        return f'<pre style="{_MONO};overflow-x:auto;margin:4px 0">{escape(text)}</pre>'
    return f'<div style="white-space:pre-wrap;margin:4px 0">{escape(text)}</div>'


def _head(run: Run) -> str:
    # Each dot stays with what stands before it.
    meta = " ".join(f'<span style="white-space:nowrap">{part} ·</span>' for part in _meta(run))[: -len(" ·</span>")] + "</span>"
    state = _CARE if wording.leaves_todos(run) else _STATE[run.status]
    return (
        f'<div><span style="font-weight:600;{state}">● {_text(wording.chip(run), 80)}</span> '
        f'<span style="{_FONT2};margin-left:8px">{meta}</span></div>'
    )


def _meta(run: Run) -> list[str]:
    failed = f"{wording.failures(run):,} failed"
    return [f'<span style="{_BAD}">{part}</span>' if part == failed else escape(part) for part in wording.meta(run)]


def _body(run: Run, rounds: str, left_out: int, streaming: str) -> str:
    if run.should_continue:
        earlier = f'<div style="{_FONT2}">{wording.counted(left_out, "earlier round")}</div>' if left_out > 0 else ""
        text = f'<div style="white-space:pre-wrap;max-width:90ch;margin-left:28px">{_text(streaming, MOST_OF_A_TEXT)}</div>'
        return earlier + rounds + (text if streaming else "")
    if not rounds:
        return ""
    went_well = run.status == "completed" and not wording.failures(run) and not wording.leaves_todos(run)
    is_open = "" if went_well else " open"
    return f'<details{is_open}><summary style="cursor:pointer;{_FONT2}">What it did</summary>{rounds}</details>'


def _todos(run: Run) -> str:
    lines = "".join(
        f'<div style="{_TODO.get(status, "")}">{_text(line, 300)}</div>' for line, status in wording.todo_lines(run)
    )
    return f'<div class="agentnb-todos" style="margin:4px 0">{lines}</div>' if lines else ""


def _asides(one: WorkflowRound) -> str:
    return "".join(
        f'<div style="font-size:12px;{_CARE if line.wrong else _FONT2}">{_text(line.text, 200)}</div>'
        for line in wording.asides(one)
    )


def _notes(run: Run) -> str:
    notes = [*wording.notes(run), wording.ending(run)]
    style = f"margin-top:4px;white-space:pre-wrap;{_STATE[_tone(run)]}"
    return "".join(f'<div style="{style}">{_text(note, 2_000)}</div>' for note in notes if note)


def _tone(run: Run) -> str:
    return "failed" if run.status == "failed" else "limited"


def _pictured(run: Run) -> frozenset[int]:
    """The rounds whose pictures are shown."""
    rounds, room = set(), MOST_OF_PICTURES
    for one in reversed(run.rounds):
        parts = [part for result in one.results for part in result.parts]
        size = sum(len(part.data) for part in parts if isinstance(part, Image))
        room -= size
        if room < 0:
            break
        if size:
            rounds.add(one.index)
    return frozenset(rounds)


def _kept(one: WorkflowRound, kept: dict[int, str], pictured: frozenset[int]) -> str:
    if one.status == "running" or one.index in pictured:
        return _round(one, pictures=one.index in pictured)
    if one.index not in kept:
        kept[one.index] = _round(one)
    return kept[one.index]


def _without_text(one: WorkflowRound) -> str:
    """What else there is to say of the round whose words are shown as the answer; usually nothing."""
    return _round(one, "") if any(line.at_once for line in wording.asides(one)) else ""


def _round(one: WorkflowRound, text: str | None = None, *, pictures: bool = False) -> str:
    said = _text(one.text.strip() if text is None else text, MOST_OF_A_TEXT)
    text = f'<div style="white-space:pre-wrap;max-width:90ch">{said}</div>' if said else ""
    calls = "".join(_call(record, pictures) for record in one.records)
    return (
        f'<div style="display:flex;margin:4px 0"><div style="flex:0 0 28px;{_FONT2}">{one.index + 1}</div>'
        f'<div style="flex:1 1 auto;min-width:0">{_asides(one)}{text}{calls}</div></div>'
    )


def _call(record: CallRecord, pictures: bool) -> str:
    head = (
        f'<b>{_text(record.call.name, 80)}</b> <span style="{_MONO};{_FONT2}">{escape(wording.arguments(record, 120))}</span> '
        f'<span style="{_STATE[wording.state(record)]}">{escape(wording.outcome(record))}</span>'
    )
    frame = f"{_BORDER};padding:2px 10px;margin:3px 0"
    if record.result is None:
        return f'<div style="{frame}">{head}</div>'
    body = _pre(record.result.text) + (_pictures(record.result) if pictures else "")
    body += _pre(record.traceback) if record.traceback else ""
    return f'<details style="{frame}"><summary style="cursor:pointer">{head}</summary>{body}</details>'


def _pictures(result: ToolResult) -> str:
    """The pictures of a result, each with the words before it, where its bytes are those of a picture."""
    html, words = "", ""
    for part in result.parts:
        if isinstance(part, Text):
            words = part.text.rpartition("\n")[2]
        elif kind := media_type(part.data):
            source = f"data:{kind};base64,{b64encode(part.data).decode()}"
            html += f'<img src="{source}" alt="{_text(words, 200)}" style="display:block;max-width:100%;margin:4px 0">'
    return html


def _pre(text: str) -> str:
    return (
        f'<pre style="{_MONO};white-space:pre-wrap;overflow-wrap:anywhere;margin:4px 0">{_text(text, MOST_OF_A_RESULT)}</pre>'
    )


def _text(text: str, most: int) -> str:
    return escape(wording.cut(wording.clean(text), most))
