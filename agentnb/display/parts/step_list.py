"""The steps of a run as a list: what each did, folded, with the runs nested in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from agentnb.advice import LoadRun
from agentnb.core.log.events import NestedStart
from agentnb.core.plans.plan_steps import CALL
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.work_records import StepRecord
from agentnb.detect.run import Run
from agentnb.display.form import Form
from agentnb.display.markdown.markdown import markdown_html
from agentnb.display.markup import NOTHING, Html, joined, tag, words
from agentnb.display.parts.begun_runs import begun_html
from agentnb.display.parts.long_text import Way
from agentnb.display.parts.results import as_text, traceback_html
from agentnb.display.texts.labels import clean, counted, cut, duration, first_line, times
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.display.texts.step_labels import KINDS, TONES, attempts_told, counts, mark_of, name_of_step, state_of_step, word_of
from agentnb.workflow.graph.node_states import INTERRUPTED, status_of, waiting_paths

MAX_STEPS = 60
"""Steps that are listed; of more, the last, and those that failed or are open."""
FIRST = 5
"""Of a long list, the steps from its begin that are listed."""
MAX_OUTPUT = 4_000
"""Characters of an output in a saved card."""
MAX_WHOLE = 100_000
"""The same in a page."""
SHORTEST = 0.1
"""Shortest time of a step that is shown, in seconds."""
BLOCKS = ("parallel", "map")
"""Kinds of steps whose errors are those of the steps inside them."""
_QUIET = ("completed", "skipped")


class Listed(NamedTuple):
    """Which steps are listed, in the order in which blocks hold them, and how many are not, by status."""

    paths: tuple[str, ...]
    left_out: Mapping[str, int]
    after: int = 0
    """How many of the listed steps come before those that are left out."""


def has_steps(run: Run) -> bool:
    """Return whether the run worked in steps, as those of workflows and of other orchestrators do."""
    return run.kind != "agent" and not run.rounds and bool(run.step_records)


def shown_records(run: Run, hidden: Collection[str] = ()) -> dict[str, StepRecord]:
    """Return the steps that did something, by path: gotos only lead elsewhere. ``hidden``: paths to leave out."""
    return {path: one for path, one in run.step_records.items() if one.kind != "goto" and path not in hidden}


def listed(run: Run, hidden: Collection[str] = ()) -> Listed:
    """Return which steps of a run are listed. ``hidden``: the paths of those that plans show."""
    records = shown_records(run, hidden)
    if len(records) <= MAX_STEPS:
        return Listed(tuple(_nested(records, [*records])), {})
    loud = [path for path, one in records.items() if one.status not in _QUIET][: MAX_STEPS // 2]
    chosen = {*islice(records, FIRST), *loud}
    chosen |= {*islice(reversed(records), MAX_STEPS - len(chosen))}
    left_out = Counter(one.status for one in records.values())
    left_out.subtract(records[path].status for path in chosen)
    if not run.should_continue and left_out["running"]:
        left_out[INTERRUPTED] += left_out.pop("running")
    return Listed(tuple(_nested(records, [path for path in records if path in chosen])), +left_out, FIRST)


def _nested(records: Mapping[str, StepRecord], paths: list[str]) -> Iterator[str]:
    """Yield paths so that each block is followed by what is inside it."""
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


def step_pieces(run: Run, draw: Callable[[StepRecord, str], Html], hidden: Collection[str] = ()) -> dict[str, Html]:
    """Return the listed steps by their keys, in order. ``draw`` makes the HTML of a step with its status."""
    shown: dict[str, Html] = {}
    for row in _rows(run, hidden):
        if isinstance(row, str):
            shown["steps:more"] = tag("div", "step step-summary quiet", row)
        else:
            shown[f"step:{row[0].id}"] = draw(*row)
    return shown


def _rows(run: Run, hidden: Collection[str]) -> Iterator[tuple[StepRecord, str] | str]:
    """Yield the listed steps, each with its status, and the words in place of those left out."""
    found, records, waits = listed(run, hidden), shown_records(run), waiting_paths(run)
    for place, path in enumerate(found.paths):
        if place == found.after and found.left_out:
            yield left_out_told(found.left_out, counts)
        yield records[path], status_of(records[path], run, waits)


def left_out_told(left_out: Mapping[str, int], told: Callable[[Mapping[str, int]], str]) -> str:
    """Return the words in place of steps that are not listed. ``told`` words their numbers by state."""
    return f"… {counted(sum(left_out.values()), 'step')}: {told(left_out)}"


def begun_by_steps(run: Run) -> dict[str, list[NestedStart]]:
    """Return the runs that the tools of steps began, by the path of the step, as the log lists them."""
    begun: dict[str, list[NestedStart]] = {}
    for call in run.step_calls:
        for _, record in with_inner((call.record,)):
            if record.nested:
                begun.setdefault(call.step, []).extend(record.nested)
    return begun


def tracebacks_of_steps(run: Run) -> dict[str, str]:
    """Return the traceback of each step whose tool raised, by the path of the step: of its last call."""
    return {call.step: call.record.traceback for call in run.step_calls if call.record.traceback}


def mark_html(state: str) -> Html:
    """Return the mark of a state, in its tone."""
    return tag("span", f"mark {TONES.get(state, '')}".strip(), mark_of(state), aria_hidden="true")


def look_of(state: str, toneless: str = "step-state") -> str:
    """Return the classes of the word for a state: unseen where the mark says it. ``toneless``: that of a quiet state."""
    if state in ("", "completed"):
        return "unseen"
    return f"step-state {TONES[state]}" if state in TONES else toneless


def state_html(state: str) -> Html:
    """Return the word for a state, in its tone; nothing for a state without a word."""
    word = word_of(state)
    return tag("span", look_of(state), word) if word else NOTHING


def line_html(state: str, *pieces: tuple[str, str]) -> Html:
    """Return a line: the mark of the state, and each text with its classes; empty texts are left out."""
    shown = [joined(" ", tag("span", look, text)) for look, text in pieces if text]
    return tag("span", "step-line", mark_html(state), *shown)


def opening_html(line: Html, body: Html, key: str, is_open: bool) -> Html:
    """Return a line that opens to its body, under the key of its fold; without a body, the line alone."""
    if not body:
        return tag("div", "step-summary step-flat", line)
    return tag("details", "", tag("summary", "step-summary", line), body, data_fold=key, open=is_open)


def step_html(record: StepRecord, status: str, form: Form, begun: Sequence[NestedStart] = (), traceback: str = "") -> Html:
    """Return a step on one line, which opens to what it did.

    ``begun``: the runs that its tool began, as the log lists them; ``traceback``: of its tool's code.
    """
    line = _line(record, status)
    body = _body(record, form, begun)
    if traceback and record.error:
        body.insert(1, traceback_html(traceback, f"step:{record.id}", Way()))
    key = f"step:{record.id}"
    opened = form.is_open(key, status == "failed" and form.whole)
    whole = tag("div", "step-body", *body) if body else NOTHING
    return tag("div", "step", indented(record.id, opening_html(line, whole, key, opened)))


def indented(path: str, html: Html) -> Html:
    """Return the HTML as far from the left as the step with this path stands in the list."""
    margin = min(path.count("/"), 4) * 18
    return Html(f'<div style="margin-left:{margin}px">{html}</div>') if margin else html


def _line(record: StepRecord, status: str) -> Html:
    state = state_of_step(record, status)
    return line_html(
        state,
        ("step-name", first_line(clean(name_of_step(record)), 80)),
        ("step-words", first_line(about_record(record), 120)),
        ("meta", figures_of(record)),
        (look_of(state), word_of(state)),
        ("step-words", _error_of(record, state, 160)),
    )


def _error_of(record: StepRecord, state: str, most: int) -> str:
    """Return the error of a step on a line; empty if a substitute mended it, or if it is that of a step inside."""
    return "" if state == "completed" or record.kind in BLOCKS else first_line(clean(record.error[:10_000]), most)


def about_record(record: StepRecord) -> str:
    """Return what a step is and where it continued: ``agent writer``, ``if → true``, ``goto → draft``."""
    if record.kind == CALL:
        return clean(_continues(record))
    name = record.agent if record.agent != record.id.rpartition("/")[2] else ""
    kind = KINDS.get(record.kind, record.kind).rstrip(":")
    return clean(" ".join(filter(None, [kind, name, record.title, _continues(record)])))


def _continues(record: StepRecord) -> str:
    has_ended_loop = record.status == "skipped" and record.times > 0
    return f"→ {record.goes_to}" if record.goes_to else "" if has_ended_loop else record.reason


def figures_of(record: StepRecord) -> str:
    """Return ``3 times, 2 attempts, 1 retry, 1.2 s``; empty where all is routine. Each plan has calls of its own."""
    parts = [times(record.times)] if record.times > 1 and record.kind != CALL else []
    parts += [attempts_told(record.attempts)] if record.attempts > 1 else []
    parts += [duration(record.seconds)] if record.seconds and record.seconds >= SHORTEST else []
    return ", ".join(parts)


def _body(record: StepRecord, form: Form, begun: Sequence[NestedStart]) -> list[Html]:
    """Return what a step opens to: why it failed, its output, the runs nested in it, and how to see them whole."""
    most = MAX_WHOLE if form.whole else MAX_OUTPUT
    runs = form.nested(record.id, form.folds) or begun_html(begun)
    found = [tag("div", "why why-bad", words(record.error, most))] if record.error else []
    found += [_output(record.output, record.kind, most, form)] if record.output not in (None, "", [], {}) else []
    if record.nested and not runs:
        command = tag("code", "compact-code", in_notebook((LoadRun(record.nested),)))
        found.append(tag("div", "quiet", command, " shows its run, if that was stored"))
    return [*found, runs] if runs else found


def _output(output: Any, kind: str, most: int, form: Form) -> Html:
    if kind == "agent" and isinstance(output, str):
        return tag("div", "text", markdown_html(output.strip(), most))
    return output_html(output, most)


def output_html(value: Any, most: int) -> Html:
    """Return what a step outputs, or is given."""
    return tag("div", "step-output", words(cut(as_text(value), most)))


def step_lines(run: Run, hidden: Collection[str] = ()) -> Iterator[str]:
    """Yield the listed steps as lines of text."""
    for row in _rows(run, hidden):
        yield f"  {row}" if isinstance(row, str) else step_line(*row)


def step_line(record: StepRecord, status: str) -> str:
    """Return a step as a line of text, further in if it is inside a block: ``  ✓ draft  agent writer  2 attempts``."""
    status = state_of_step(record, status)
    name = first_line(clean(name_of_step(record)), 60)
    word = "" if status == "completed" else word_of(status) or status
    figures = "" if status == "skipped" else figures_of(record)
    told = [first_line(about_record(record), 60), word, figures, _error_of(record, status, 110)]
    margin = "  " * min(record.id.count("/"), 6)
    return f"  {margin}{mark_of(status)} {'  '.join([name, *filter(None, told)])}"
