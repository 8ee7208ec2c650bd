"""The trace browser as HTML and text: rows of runs, the open run, and the form for a saved notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from agentnb.advice import Commands
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.display.card.compact import compact_pieces
from agentnb.display.card.html import plain_html
from agentnb.display.css import wrap_output
from agentnb.display.defaults import RUNS_IN_A_PAGE
from agentnb.display.form import Form
from agentnb.display.lists.run_rows import RunRow
from agentnb.display.markup import NOTHING, Html, fold_tag, tag
from agentnb.display.parts.head import MARKS, listed_state_html
from agentnb.display.texts.labels import clean, dollars, first_line, pluralize, thousands
from agentnb.display.texts.notebook_commands import NOTEBOOK
from agentnb.display.texts.run_figures import call_words
from agentnb.display.texts.states import steps_words, with_outcome
from agentnb.interchange.trace_file import Problem

MAX_EXPANDABLE_RUNS = 10
"""Number of runs in a saved list that expand to a short form; the others on its first page are single lines."""
OPENED = "<!-- the opened run -->"
"""Placeholder for the open run in the frame from `saved_frame`."""
AGAIN = "Run this cell again to search, filter and step through the runs."
UNKNOWN = "unknown"
"""Shown as the model of a trace that does not name its model."""
MAX_OF_A_PROMPT = 160
MAX_OF_A_TITLE = 600
STATE_WIDTH = 36
"""Width, in characters, of the state and outcome in a line of text."""
_OPEN = {"rounds": True, "findings": True}


def key_class(key: str) -> str:
    """Return the class by which a page finds this browser's saved output; empty if there is no key."""
    return f" browser-{key}" if key else ""


def rows_html(rows: Iterable[RunRow]) -> Html:
    """Return a button for each run; its ``data-place`` is the run's index among all runs."""
    return tag("ol", "browser-runs", *map(_row, rows))


def no_hit_html(find: str) -> Html:
    """Return the list shown when a search finds nothing."""
    words = first_line(find, MAX_OF_A_PROMPT)
    return tag("p", "browser-none", f"No run contains “{words}”." if words else "No runs match these filters.")


def _row(row: RunRow) -> Html:
    pieces = _pieces(row, first_line(row.run.prompt, MAX_OF_A_TITLE))
    button = tag("button", "browser-open", *pieces, type="button", data_place=str(row.place), tabindex="-1")
    return tag("li", "browser-item", button)


def _pieces(row: RunRow, title: str | None = None) -> tuple[str, ...]:
    """Return the state, the prompt and the figures of a run. ``title``: the tooltip of the prompt."""
    state = listed_state_html(row.tone, first_line(row.state, 40), row.outcome, first_line(row.outcome_words, 40))
    first = tag("span", "browser-first", state, " ", tag("span", "browser-where", _where(row)))
    asked = tag("span", "browser-asked", first_line(row.run.prompt, MAX_OF_A_PROMPT) or "(no prompt)", title=title)
    return first, " ", asked, " ", tag("span", "browser-figures", " · ".join(figures(row)))


def _where(row: RunRow) -> str:
    """Return the format, task and trial of a run."""
    origin = row.run.origin
    parts = [row.format]
    if origin is not None:
        parts += [f"task {origin.task}"] if origin.task else []
        parts += [f"trial {origin.trial}"] if origin.trial else []
    return first_line(" · ".join(parts), 60)


def figures(row: RunRow) -> list[str]:
    """Return a run's known figures: rounds or steps, calls, failures, findings, tokens, cost and model."""
    usage: Usage = row.run.usage
    tokens = (usage.input or 0) + (usage.output or 0)
    steps = row.run.step_count
    parts = [
        pluralize(steps, "step") if steps and not row.rounds else pluralize(row.rounds, "round"),
        steps_words(row.run) if row.rounds else "",
        call_words(row.run, row.calls, row.updates),
        f"{row.failed:,} failed" if row.failed else "",
        pluralize(len(row.findings), "finding") if row.findings else "",
        f"{thousands(tokens)} tokens" if tokens else "",
        dollars(row.run.cost) if row.run.cost else "",
        "" if row.run.model == UNKNOWN else first_line(row.run.model.partition("?")[0], 40),
    ]
    return [part for part in parts if part]


def opened_html(run: Run, variable: str) -> Html:
    """Return a run as its finished card, with findings and transcript expanded. ``variable``: a Python expression for the
    run.
    """
    return wrap_output(plain_html(run, Form(folds=_OPEN, variable=variable), prompt=True))


def runs_title(formats: Iterable[str]) -> str:
    """Return the number of runs and their formats."""
    counts = Counter(formats)
    count = counts.total()
    if len(counts) == 1:
        return f"{pluralize(count, 'run')} of {next(iter(counts))}"
    return f"{pluralize(count, 'run')}: {', '.join(f'{n:,} {name}' for name, n in counts.most_common())}"


def page_words(first: int, shown: int, fitting: int, total: int) -> str:
    """Return the visible part of a list: ``101 to 200 of 341 runs that fit, of 2,000``."""
    total_words = f", of {total:,}" if fitting != total else ""
    if shown == fitting:
        return f"{pluralize(fitting, 'run')}{total_words}"
    return f"{first + 1:,} to {first + shown:,} of {pluralize(fitting, 'run')}{total_words}"


def saved_frame(rows: Sequence[RunRow], total: int, title: str, key: str) -> Html:
    """Return the form for a saved notebook: the first rows, and `OPENED` in place of the open run's HTML.

    ``rows``: the first page of ``total`` runs; ``key``: identifies the browser that replaces the form while there is a kernel.
    """
    listed = [_saved_row(row) for row in rows[:MAX_EXPANDABLE_RUNS]]
    if lines := rows[MAX_EXPANDABLE_RUNS:RUNS_IN_A_PAGE]:
        listed.append(tag("pre", "history-lines", "\n".join(map(line, lines))))
    if total > min(len(rows), RUNS_IN_A_PAGE):
        listed.append(tag("div", "browser-more quiet", f"{total - min(len(rows), RUNS_IN_A_PAGE):,} more"))
    heading = tag("div", "browser-title", tag("b", "", title), f". {AGAIN}")
    side = tag("div", "browser-list", *listed) if total > 1 else NOTHING
    body = tag("div", "browser-body", side, tag("div", "browser-run", Html(OPENED)))
    return wrap_output(tag("div", f"browser{key_class(key)}", heading, body))


def saved_html(frame: str, opened: Html = NOTHING) -> Html:
    """Return the frame with the open run inserted."""
    return Html(frame.replace(OPENED, opened))


def _saved_row(row: RunRow) -> Html:
    opened = tag("div", "history-open compact", *compact_pieces(row.run, stored=False))
    return fold_tag("browser-row", "browser-summary", tag("span", "browser-line", *_pieces(row)), opened)


def line(row: RunRow) -> str:
    """Return a run on one line of text."""
    state, asked = state_and_outcome(row), first_line(row.run.prompt, 50)
    return clean(f"{row.place:>4}  {state:<{STATE_WIDTH}}  {asked:<50}  {', '.join(figures(row))}")


def state_and_outcome(row: RunRow) -> str:
    """Return the state, with its mark, and the outcome: ``✓ Done, reward 0``."""
    return first_line(f"{MARKS[row.tone]} {with_outcome(row.state, row.run.assessment)}", STATE_WIDTH)


def browser_text(rows: Sequence[RunRow], total: int, title: str) -> str:
    """Return the runs as lines of text, each with its index."""
    more = [f"{total - len(rows):,} more"] if total > len(rows) else []
    return "\n".join([f"{clean(title)}:", *map(line, rows), *more])


def problem_lines(
    problems: Sequence[Problem], most: int, *, see_all: str = ": see .problems for all", commands: Commands = NOTEBOOK
) -> list[str]:
    """Return the number of omitted files or parts, and lines that name the first of them, each with the reason."""
    if not problems:
        return []
    shown = [f"  {first_line(problem.text_for(commands), 200)}" for problem in problems[:most]]
    omitted = len(problems) - len(shown)
    more = [f"  {omitted:,} more{see_all}"] if omitted else []
    return [f"{len(problems):,} left out:", *shown, *more]
