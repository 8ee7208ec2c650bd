"""Lists of steps: a run's step, a plan's step and a plan itself are rows, drawn as HTML and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from agentnb.advice import LoadRun
from agentnb.core.log.events import NestedStart
from agentnb.core.plans.plan_steps import CALL, DROPPED, KNOWN, NOT_RUN, PASSED, PENDING
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.work_records import StepRecord
from agentnb.detect.run import Run
from agentnb.display.defaults import MAX_STEPS
from agentnb.display.form import Form
from agentnb.display.markdown.markdown import markdown_html
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag, words
from agentnb.display.parts.begun_runs import begun_html
from agentnb.display.parts.long_text import Way
from agentnb.display.parts.tool_results import as_text, traceback_html
from agentnb.display.texts.labels import cut, first_line, pluralize
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.display.texts.step_labels import (
    KINDS,
    TONES,
    about,
    counts,
    figures,
    mark_of,
    name_of_step,
    state_of_step,
    word_of,
)
from agentnb.workflow.graph.drawing import DrawnNode
from agentnb.workflow.graph.node_states import NodeState, status_of, waiting_paths

Key = TypeVar("Key", bound=int | str)
FIRST = 20
"""Number of steps listed from the start of a long list."""
MAX_OUTPUT = 4_000
"""Maximum characters of an output in a saved card."""
MAX_WHOLE = 100_000
"""Maximum characters of an output in a page."""
BLOCKS = ("parallel", "map")
"""Kinds of steps whose errors are those of the steps within them."""
UNRUN = ("", PENDING)
"""The states of steps that have not started."""
_QUIET = (*UNRUN, "completed", "skipped", DROPPED, KNOWN, PASSED, NOT_RUN)
"""The states of steps that a long list may omit."""


class StepRow(NamedTuple):
    """A step of a run or a plan, or a plan itself, as it is listed."""

    key: str
    """The key of the step's piece and fold."""
    state: str | None
    """The state in which it is shown, or None in a list without states."""
    name: str
    number: str = ""
    arguments: str | None = None
    """For a call: its arguments in short form."""
    title: str = ""
    """The question that a step asks, or the purpose of a plan."""
    words: str = ""
    """The kind of step, and where it continues."""
    figures: str = ""
    note: str = ""
    """Text that replaces the word for the state."""
    outcome: str = ""
    """Its result in short form, or its error."""
    reason: str = ""
    """Why the planner wants this step."""
    depth: int = 0
    record: StepRecord | None = None
    """The step in the log, or None if it has not started."""
    given: Any = None
    """The arguments shown when the row is expanded."""
    has_runs: bool = True
    """True if the runs nested at the step's path belong to this execution."""
    begun: Sequence[NestedStart] = ()
    """The runs that its tool started, as the log lists them."""
    traceback: str = ""


class LeftOut(str):
    """The text shown in place of omitted steps."""

    __slots__ = ()


def shorten_list(states: dict[Key, str], order: Callable[[list[Key]], Iterable[Key]] = iter) -> Iterator[Key | LeftOut]:
    """Yield the keys of listed steps, and text in place of the others. ``order``: puts the keys in order."""
    keys = list(states)
    if len(keys) <= MAX_STEPS:
        yield from order(keys)
        return
    loud = [key for key in keys if states[key] not in _QUIET]
    chosen = {*keys[:FIRST], *loud[: MAX_STEPS // 3]}
    others = [key for key in keys if key not in chosen]
    chosen.update(others[len(chosen) - MAX_STEPS :])
    left_out = Counter(state for key, state in states.items() if key not in chosen)
    for position, key in enumerate(order([key for key in keys if key in chosen])):
        if position == FIRST:
            cells = "" if left_out.keys() <= {*UNRUN} else f": {counts(left_out)}"
            yield LeftOut(f"… {pluralize(left_out.total(), 'step')}{cells}")
        yield key


def has_steps(run: Run) -> bool:
    """Return whether the run worked in steps, as runs of workflows and other orchestrators do."""
    return run.kind != "agent" and not run.rounds and bool(run.step_records)


def shown_records(run: Run, hidden: Collection[str] = ()) -> dict[str, StepRecord]:
    """Return the steps that did some work, by path; gotos are omitted. ``hidden``: other paths to omit."""
    return {path: record for path, record in run.step_records.items() if record.kind != "goto" and path not in hidden}


def step_rows(run: Run, hidden: Collection[str] = ()) -> Iterator[tuple[StepRecord, str] | LeftOut]:
    """Yield the steps of a run that are listed, each with its status. ``hidden``: paths of steps that plans show."""
    records, waits = shown_records(run, hidden), waiting_paths(run)
    states = {path: status_of(record, run, waits) for path, record in records.items()}
    for path in shorten_list(states, _in_block_order):
        yield path if isinstance(path, LeftOut) else (records[path], states[path])


def _in_block_order(paths: list[str]) -> Iterator[str]:
    """Yield the paths, ordered so that each block is followed by its contents."""
    inside: dict[str, list[str]] = {}
    shown = set(paths)
    for path in paths:
        block = path.rpartition("/")[0]
        inside.setdefault(block if block in shown else "", []).append(path)
    waiting = inside.get("", [])[::-1]
    while waiting:
        path = waiting.pop()
        yield path
        waiting += inside.get(path, [])[::-1]


def begun_by_steps(run: Run) -> dict[str, list[NestedStart]]:
    """Return the runs that steps' tools started, by the path of the step, in log order."""
    begun: dict[str, list[NestedStart]] = {}
    for call in run.step_calls:
        for _, record in with_inner((call.record,)):
            if record.nested:
                begun.setdefault(call.step, []).extend(record.nested)
    return begun


def tracebacks_of_steps(run: Run) -> dict[str, str]:
    """Return the traceback of each step whose tool raised an error, by path. If the step has several, return the last
    call's.
    """
    return {call.step: call.record.traceback for call in run.step_calls if call.record.traceback}


def row_of(record: StepRecord, status: str, begun: Sequence[NestedStart] = (), traceback: str = "") -> StepRow:
    """Return the row for a run's step. Errors that led to a substitute output or that belong to an inner step are omitted."""
    state = state_of_step(record, status)
    return StepRow(
        f"step:{record.id}",
        state,
        first_line(name_of_step(record), 80),
        words=first_line(about_record(record), 120),
        figures="" if status == "skipped" else figures_of(record, status),
        outcome="" if state == "completed" or record.kind in BLOCKS else first_line(record.error, 160),
        depth=record.id.count("/"),
        record=record,
        begun=begun,
        traceback=traceback,
    )


def row_of_node(node: DrawnNode, state: NodeState) -> StepRow:
    """Return the row for a graph's step; if it was executed several times, include the count for each state."""
    return StepRow(
        node.path,
        state_of_step(state, state.status),
        first_line(node.id, 60),
        words=KINDS.get(node.kind, node.kind) if state.items else about(node, 60),
        figures=counts(state.items) if state.items else figures(state.times, state.attempts, state.status),
        outcome=first_line(state.error, 110),
    )


def about_record(record: StepRecord) -> str:
    """Return a step's kind and where it continued: ``agent writer``, ``if → true``, ``goto → draft``."""
    if record.kind == CALL:
        return _continues(record)
    name = record.agent if record.agent != record.id.rpartition("/")[2] else ""
    kind = KINDS.get(record.kind, record.kind).rstrip(":")
    return " ".join(filter(None, [kind, name, record.title, _continues(record)]))


def _continues(record: StepRecord) -> str:
    has_ended_loop = record.status == "skipped" and record.times > 0
    return f"→ {record.goes_to}" if record.goes_to else "" if has_ended_loop else record.reason


def figures_of(record: StepRecord, status: str) -> str:
    """Return the figures of a step; for a plan, without the number of calls."""
    return figures(1 if record.kind == CALL else record.times, record.attempts, status, record.seconds)


def row_html(row: StepRow, form: Form, asked: Html = NOTHING) -> Html:
    """Return a step on one line, with the planner's reason below; it expands to the work done.

    ``asked``: the questions that the step asked, with their answers.
    """
    body = [*_body(row, form), *filter(None, [asked])]
    look = "plan-reason" if body else "plan-reason plan-reason-flat"
    line = join_html(line_html(row), tag("span", look, row.reason)) if row.reason else line_html(row)
    is_open = form.is_open(row.key, form.whole and row.state == "failed")
    opened = opening_html(line, tag("div", "step-body", *body) if body else NOTHING, row.key, is_open)
    return tag("div", "step", indent_html(row.depth, opened))


def line_html(row: StepRow) -> Html:
    """Return the line of a row, omitting empty texts."""
    state = row.state or ""
    pieces = (
        ("plan-number", row.number),
        ("step-name", row.name),
        ("plan-args", row.arguments),
        ("", row.title),
        ("step-words", row.words),
        ("meta", row.figures),
        ("step-words" if row.note else look_of(state), row.note or word_of(state)),
        ("step-words", row.outcome),
    )
    mark = NOTHING if row.state is None else mark_html(state)
    return tag("span", "step-line", mark, *[join_html(" ", tag("span", look, text)) for look, text in pieces if text])


def mark_html(state: str) -> Html:
    """Return the mark of a state, in its tone."""
    return tag("span", f"mark {TONES.get(state, '')}".strip(), mark_of(state), aria_hidden="true")


def look_of(state: str) -> str:
    """Return the classes for a state's word, to hide it if the mark already says the same."""
    if state in ("", "completed"):
        return "unseen"
    return f"step-state {TONES[state]}" if state in TONES else "step-words"


def state_html(state: str) -> Html:
    """Return the word for a state, in its tone; empty for a state without a word."""
    word = word_of(state)
    return tag("span", look_of(state), word) if word else NOTHING


def opening_html(line: Html, body: Html, key: str, is_open: bool) -> Html:
    """Return a line that expands to its body, under the key of its fold; if there is no body, return just the line."""
    if not body:
        return tag("div", "step-summary step-flat", line)
    return fold_tag("", "step-summary", line, body, data_fold=key, open=is_open)


def left_out_html(told: str, depth: int = 0) -> Html:
    """Return the line shown in place of omitted steps."""
    return tag("div", "step", indent_html(depth, tag("div", "step-summary step-flat quiet", told)))


def indent_html(depth: int, html: Html) -> Html:
    """Return the HTML of a step, indented by the number of blocks around it."""
    margin = min(depth, 4) * 18
    return Html(f'<div style="margin-left:{margin}px">{html}</div>') if margin else html


def _body(row: StepRow, form: Form) -> Iterator[Html]:
    """Yield the expanded step: input, error, output, nested runs, and the command that shows these."""
    record, most = row.record, MAX_WHOLE if form.whole else MAX_OUTPUT
    if record is None:
        return
    if row.given:
        yield output_html(row.given, most)
    if record.error:
        yield tag("div", "why why-bad", words(record.error, most))
    if record.error and row.traceback:
        yield traceback_html(row.traceback, row.key, Way())
    if record.kind == "agent" and isinstance(record.output, str) and record.output:
        yield tag("div", "text", markdown_html(record.output.strip(), most))
    elif record.output not in (None, "", [], {}):
        yield output_html(record.output, most)
    runs = (form.nested(record.id, form.folds) if row.has_runs else NOTHING) or begun_html(row.begun)
    if record.nested and not runs:
        command = tag("code", "compact-code", in_notebook((LoadRun(record.nested),)))
        yield tag("div", "quiet", command, " shows its run, if it was stored")
    if runs:
        yield runs


def output_html(value: Any, most: int) -> Html:
    """Return a step's output or input."""
    return tag("div", "step-output", cut(as_text(value), most))


def row_text(row: StepRow) -> str:
    """Return a row as a line of text, indented if it is inside a block: ``  ✓ draft  agent writer  2 attempts``."""
    called = row.name if row.arguments is None else f"{row.name}({row.arguments})"
    word = "" if row.state in (None, "completed") else word_of(row.state) or row.state
    reason = f"({first_line(row.reason, 80)})" if row.reason else ""
    cells = [called, row.title, row.words, row.note or word, row.figures, row.outcome, reason]
    mark = "" if row.state is None else mark_of(row.state)
    return "  " * min(row.depth, 6) + " ".join(filter(None, [mark, row.number, "  ".join(filter(None, cells))]))


def step_lines(run: Run, hidden: Collection[str] = ()) -> Iterator[str]:
    """Yield the listed steps as lines of text."""
    for row in step_rows(run, hidden):
        yield f"  {row if isinstance(row, LeftOut) else row_text(row_of(*row))}"
