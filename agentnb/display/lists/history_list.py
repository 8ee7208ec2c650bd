"""Lists of runs: as text, as HTML for a saved notebook, and as buttons for the panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentnb.core.log.outcome import Outcome
from agentnb.detect.run_states import RunState
from agentnb.display.css import wrap_output
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag
from agentnb.display.parts.head import listed_state_html, tone_of
from agentnb.display.texts.labels import SHORT_ID, clean, first_line, pluralize, short_id, thousands
from agentnb.display.texts.states import outcome_words, state_words, with_outcome
from agentnb.store.summaries import RunSummary

MAX_OPENING = 20
"""Maximum runs of a list that can be opened, since these are saved in the notebook. The rest are lines of text."""
WIDTH, WIDTH_WITH_OUTCOME = 32, 44
"""Width, in characters, of a state and of a state with an outcome in a line of text."""
MAX_NOTEBOOK = 60
"""Maximum characters shown of a notebook's name in a list."""
REMARK = "resumed"
"""The remark on a run that another process resumed: its own had died, or the run was suspended."""


def history_text(found: Sequence[RunSummary], told: str) -> str:
    """Return one line per run, below the title ``told``."""
    return "\n".join([clean(told), *_lines(found)])


def history_html(found: Sequence[RunSummary], told: str, open_run: Callable[[str], Html]) -> Html:
    """Return the list, newest first. The first `MAX_OPENING` runs expand to the result of ``open_run`` for their id."""
    rows = [_row(summary, open_run) for summary in found[:MAX_OPENING]]
    remaining = _rest(found[MAX_OPENING:]) if len(found) > MAX_OPENING else NOTHING
    return wrap_output(tag("div", "history", tag("div", "history-title", told), *rows, remaining))


def list_title(found: Sequence[RunSummary], *, count: int, folder: str, most: int, wanted: Sequence[str]) -> str:
    """Return the title of a list: ``30 runs in runs, the newest 20 matching “failed”``.

    ``count``: number of runs in the folder; ``most``: maximum top-level runs requested; ``wanted``: the words to match.
    """
    top_level = [summary for summary in found if not summary.depth]
    is_cut = len(top_level) == most and count > sum(1 + summary.nested for summary in top_level)
    newest = f", the newest {most}" if is_cut else ""
    if wanted:
        shown = " and ".join(f"“{word}”" for word in wanted)
        match = "matching" if newest else "matches" if len(top_level) == 1 else "match"
        newest = f"{newest or f', {len(top_level)}'} {match} {shown}"
    return f"{pluralize(count, 'run')} in {folder}{newest}"


def matches(one: RunSummary, wanted: Sequence[str], outcome: Outcome | None = None) -> bool:
    """True if every word occurs in the run's state, outcome, resumption, model, tags, notebook or prompt.

    ``outcome``: match only runs with this outcome.
    """
    words_of = (
        one.status,
        status_words(one),
        outcome_words(one.assessment),
        one.stop_reason,
        f"{REMARK} recovered" if one.recovered else "",  # the second is the word of the tables
        one.model,
        *one.tags,
        one.notebook,
        one.prompt,
    )
    text = "\n".join(words_of).casefold()
    return outcome in (None, one.outcome) and all(word.casefold() in text for word in wanted)


def _remarks(summary: RunSummary) -> list[str]:
    """Return the applicable remarks: ``resumed``, ``2 nested`` (the number of nested runs), and its notebook."""
    notebook = first_line(summary.notebook, MAX_NOTEBOOK)
    return [
        *filter(None, (REMARK if summary.recovered else "", f"{summary.nested:,} nested" if summary.nested else "", notebook))
    ]


def _lines(summaries: Sequence[RunSummary]) -> list[str]:
    """Return a line for each run. The state column is wider if any outcome is known."""
    width = WIDTH_WITH_OUTCOME if any(summary.assessment is not None for summary in summaries) else WIDTH
    return [_line(summary, width) for summary in summaries]


def _line(summary: RunSummary, width: int) -> str:
    state = first_line(with_outcome(status_words(summary), summary.assessment), width)
    took = f"{state:<{width}} {work_words(summary):>10}  {cost_words(summary):>8}"
    remarks = "".join(f"  ({remark})" for remark in _remarks(summary))
    tags = f"  {tag_words(summary)}" if summary.tags else ""
    asked = f"{_indent(summary)}{first_line(summary.prompt, 34)}{remarks}{tags}"
    return clean(f"{first_line(summary.id, 100)}  {took}  {first_line(summary.model, 22):<22}  {asked}")


def _indent(summary: RunSummary) -> str:
    """Return the indentation of a nested run's prompt, according to its depth."""
    return f"{'  ' * (summary.depth - 1)}↳ " if summary.depth else ""


def _row(summary: RunSummary, open_run: Callable[[str], Html]) -> Html:
    remarks = join_html(*[join_html(tag("span", "quiet", remark), " ") for remark in _remarks(summary)])
    indent = tag("span", "", _indent(summary).rstrip().replace(" ", "\N{NO-BREAK SPACE}"), " ") if summary.depth else NOTHING
    asked = tag("span", "history-prompt", _first_words(summary))
    tags = join_html(" ", tag("span", "quiet", tag_words(summary))) if summary.tags else NOTHING
    first = tag("span", "history-first", status_html(summary), " ", indent, remarks, asked, tags)
    line = tag("span", "history-line", first, " ", _figures(summary))
    return fold_tag("history-run", "history-summary", line, tag("div", "history-open", open_run(summary.id)))


def tag_words(one: RunSummary) -> str:
    """Return the tags of a run, such as ``#night #v2``."""
    return first_line(" ".join(f"#{name}" for name in one.tags), 80)


def status_html(one: RunSummary) -> Html:
    """Return the state with its mark, including which limit was reached, and the outcome."""
    return listed_state_html(tone_of(_state(one)), status_words(one), one.outcome, outcome_words(one.assessment))


def status_words(one: RunSummary) -> str:
    """Return the state in words, such as ``Done, todos open`` or ``Limit reached: 3 rounds``."""
    return state_words(_state(one))


def _state(summary: RunSummary) -> RunState:
    return RunState(
        summary.status,
        summary.stop_reason,
        summary.limit_value,
        summary.todos_open,
        summary.paused,
        summary.foreign,
        summary.failed_calls,
        summary.blocked_calls,
        summary.substitutes,
        summary.plan_rejected,
        None if summary.assessment is None else summary.outcome,
    )


def work_words(one: RunSummary) -> str:
    """Return ``3 rounds`` or, for a run that works in steps, such as a workflow's, ``6 steps``."""
    in_steps = not one.rounds and (one.steps or one.kind != "agent")
    return pluralize(one.steps, "step") if in_steps else pluralize(one.rounds, "round")


def start_time(one: RunSummary, form: str) -> str:
    """Return the start of the run in local time; empty if it is unknown."""
    return "" if one.started_at is None else one.started_at.astimezone().strftime(form)


def _first_words(one: RunSummary) -> str:
    """Return the first words of the prompt."""
    return first_line(one.prompt, 160) or "(no prompt)"


def _figures(summary: RunSummary) -> Html:
    """Return time, rounds, tokens, cost, model and id as columns."""
    cells = [
        ("when", start_time(summary, "%d %b %H:%M"), start_time(summary, "%Y-%m-%d %H:%M:%S")),
        ("rounds", work_words(summary), None),
        ("tokens", f"{thousands(summary.tokens)} tokens" if summary.tokens is not None else "", None),
        ("cost", cost_words(summary), None),
        ("model", first_line(summary.model, 40), first_line(summary.model, 300)),
        ("id", f"…{short_id(summary.id)}" if len(summary.id) > SHORT_ID else summary.id, summary.id),
    ]
    shown = [piece for name, text, title in cells for piece in (tag("span", f"history-{name}", text, title=title), " ")]
    return tag("span", "history-figures", *shown[:-1])


def cost_words(one: RunSummary) -> str:
    """Return the cost including nested runs. An unknown price is not shown as free."""
    if one.cost is None:
        return "no price"
    return f"${one.cost:.4f}" if one.cost else "$0"


def _rest(summaries: Sequence[RunSummary]) -> Html:
    """Return the runs that cannot be opened, as text in one fold."""
    title = f"{pluralize(len(summaries), 'run')} before these"
    return fold_tag("history-run", "history-summary", title, tag("pre", "history-lines", "\n".join(_lines(summaries))))


def run_list_html(found: Sequence[RunSummary]) -> Html:
    """Return a button for each run, newest first; its ``data-run`` is the run's id."""
    if not found:
        return tag("p", "runs-none", "No runs yet. Runs of cells and of this panel appear here.")
    return tag("ol", "runs", *map(_button_row, found))


def _button_row(summary: RunSummary) -> Html:
    first = tag(
        "span",
        "runs-line",
        status_html(summary),
        " ",
        tag("time", "runs-when", start_time(summary, "%d %b %H:%M"), title=start_time(summary, "%Y-%m-%d %H:%M:%S")),
    )
    figures = (
        [] if summary.status == "running" else [work_words(summary), cost_words(summary)]
    )  # its card shows their current values
    facts = [*figures, *_remarks(summary), first_line(summary.model.partition("?")[0], 40)]
    pieces = (
        first,
        " ",
        tag("span", "runs-asked", _first_words(summary)),
        " ",
        tag("span", "runs-told", " · ".join(filter(None, facts))),
    )
    return tag("li", "runs-item", tag("button", "runs-run", join_html(*pieces), type="button", data_run=summary.id))
