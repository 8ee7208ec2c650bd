"""A run in a few kilobytes of HTML, whatever its length, for use in lists of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentnb.advice import LoadRun
from agentnb.core.questions import AskedQuestion, by_call
from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.css import inline_css
from agentnb.display.markdown.markdown import markdown_html
from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.parts.head import prompt_html, state_html
from agentnb.display.parts.plan_list import work_lines
from agentnb.display.parts.step_list import has_steps
from agentnb.display.texts.call_labels import MARKS, state, while_asking
from agentnb.display.texts.labels import cut, first_line, pluralize
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.display.texts.question_labels import answer_told
from agentnb.display.texts.round_notes import round_notes
from agentnb.display.texts.run_figures import meta, prompt_with_author
from agentnb.display.texts.states import closing_pieces, rounds_at_end, shown_answer
from agentnb.display.texts.todo_labels import todo_lines

MAX_OF_A_PROMPT = 300
MAX_OF_AN_ANSWER = 2_500
LAST_ROUNDS = 20
MAX_LINE_CHARACTERS = 130
"""Maximum characters in a round's line."""
MAX_HTML_BYTES = {"answer": 6_000, "todos": 1_800, "rounds": 3_200, "notes": 1_200}
"""Maximum bytes of HTML for each part; the total stays under 15,000."""


def compact_html(run: Run) -> Html:
    """Return state, prompt, answer, todos, a line for each of the most recent rounds, and the command that shows the entire
    run.
    """
    figures = tag("span", "meta", first_line(", ".join(meta(run)), 200))
    return inline_css(tag("div", "compact", tag("div", "compact-head", state_html(run), " ", figures), *compact_pieces(run)))


def compact_pieces(run: Run, *, stored: bool = True) -> list[Html]:
    """Return the pieces of `compact_html` below its first line. ``stored``: whether `%agent load` can load the run."""
    hint = tag(
        "div",
        "compact-hint",
        tag("code", "compact-code", in_notebook((LoadRun(run.id),))),
        " shows the whole run and assigns it to run",
    )
    notes = [first_line("".join(note), 400) for note in closing_pieces(run)]
    return [
        prompt_html(prompt_with_author(run), MAX_OF_A_PROMPT, "compact-prompt"),
        _answer(run),
        *[tag("div", "compact-note", line) for line in _fit(notes, MAX_HTML_BYTES["notes"], newest=True)],
        _lines("compact-todos", _fit(todo_lines(run), MAX_HTML_BYTES["todos"])),
        _rounds(run),
        hint if stored and run.events else NOTHING,
    ]


def _answer(run: Run) -> Html:
    """Return the answer as Markdown, or as plain text if its HTML would be too large."""
    answer = shown_answer(run).strip()
    if not answer:
        return NOTHING
    text = cut(answer, MAX_OF_AN_ANSWER)
    html = inline_css(tag("div", "compact-answer", markdown_html(text, MAX_OF_AN_ANSWER + 100)))
    return html if _size(html) <= MAX_HTML_BYTES["answer"] else tag("pre", "compact-lines", words(answer, 800))


def _rounds(run: Run) -> Html:
    """Return the most recent rounds, omitting a final answer that is shown above, or the steps of a run without rounds."""
    if has_steps(run):
        return _lines("compact-lines", _fit([line[2:] for line in work_lines(run)], MAX_HTML_BYTES["rounds"], newest=True))
    rounds = rounds_at_end(run)
    count = len(rounds) - bool(shown_answer(run))
    last = rounds[max(0, count - LAST_ROUNDS) : count]
    lines = _fit(
        [round_line(shown, run.settings, run.questions_of(shown.index)) for shown in last],
        MAX_HTML_BYTES["rounds"],
        newest=True,
    )
    if earlier := count - len(lines):
        lines.insert(0, pluralize(earlier, "earlier round"))
    return _lines("compact-lines", lines)


def round_line(one: WorkflowRound, settings: Mapping[str, Any], questions: Iterable[AskedQuestion]) -> str:
    """Return a round as one line: ``  3  I look first.  load ✓, describe ✗ failed, ask_person ✓ (You: yes)``."""
    answer = [first_line(one.text, 60)] if one.text.strip() else []
    asked = by_call(questions)
    calls = ", ".join(_call(record, asked.get(record.call.id, ())) for record in one.records)
    notes = [line.text for line in round_notes(one, settings) if line.at_once]
    line = "  ".join([*answer, calls] if calls else answer or notes or [one.status])
    return f"{one.index + 1:>3}  {line if len(line) <= MAX_LINE_CHARACTERS else line[: MAX_LINE_CHARACTERS - 1] + '…'}"


def _call(record: CallRecord, questions: Sequence[AskedQuestion]) -> str:
    kind = state(while_asking(record, questions))
    replies = [first_line(answer_told(question), 40) for question in questions if question.outcome != "open"]
    answers = f" ({', '.join(replies)})" if replies else ""
    return f"{first_line(record.call.name, 40)} {MARKS[kind]}" + ("" if kind == "ok" else f" {kind}") + answers


def _lines(kind: str, lines: list[str]) -> Html:
    return tag("pre", kind, "\n".join(lines)) if lines else NOTHING


def _fit(lines: list[str], room: int, *, newest: bool = False) -> list[str]:
    """Return as many lines as fit into ``room`` bytes of HTML: the first ones or, with ``newest``, the last."""
    kept: list[str] = []
    for line in reversed(lines) if newest else lines:
        room -= _size(words(line)) + 1
        if room < 0:
            break
        kept.append(line)
    return kept[::-1] if newest else kept


def _size(html: Html) -> int:
    return len(html.encode("utf-8", "replace"))
