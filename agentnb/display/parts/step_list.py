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
from agentnb.display.parts.results import as_json, traceback_html
from agentnb.display.texts.labels import clean, counted, cut, duration, first_line, times
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.display.texts.step_labels import KINDS, MARKS, TONES, attempts_told, counts, name_of_step, state_of_step, word_of
from agentnb.workflow.graph.node_states import INTERRUPTED, status_of, step_records, waiting_paths

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
    return run.kind != "agent" and not run.rounds and bool(step_records(run))


def shown_records(run: Run, hidden: Collection[str] = ()) -> dict[str, StepRecord]:
    """Return the steps that did something, by path: gotos only lead elsewhere. ``hidden``: paths to leave out."""
    return {path: one for path, one in step_records(run).items() if one.kind != "goto" and path not in hidden}


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


def waiting_steps(run: Run) -> set[str]:
    """Return the steps that wait for the person."""
    return waiting_paths(run)


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
    found, shown = listed(run, hidden), {}
    records, waits = shown_records(run), waiting_steps(run)
    for place, path in enumerate(found.paths):
        if place == found.after and found.left_out:
            shown["steps:more"] = _left_out(found.left_out)
        shown[f"step:{path}"] = draw(records[path], status_of(records[path], run, waits))
    return shown


def _left_out(left_out: Mapping[str, int]) -> Html:
    told = f"… {counted(sum(left_out.values()), 'step')}: {counts(left_out)}"
    return tag("div", "step step-summary quiet", told)


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


def step_html(record: StepRecord, status: str, form: Form, begun: Sequence[NestedStart] = (), traceback: str = "") -> Html:
    """Return a step on one line, which opens to what it did.

    ``begun``: the runs that its tool began, as the log lists them; ``traceback``: of its tool's code.
    """
    line = tag("span", "step-line", *_line(record, status))
    body = _body(record, form, begun)
    if traceback and record.error:
        body.insert(1, traceback_html(traceback, f"step:{record.id}", Way()))
    key = f"step:{record.id}"
    if not body:
        shown = tag("div", "step-summary step-flat", line)
    else:
        summary = tag("summary", "step-summary", line)
        opened = form.is_open(key, status == "failed" and form.whole)
        shown = tag("details", "", summary, tag("div", "step-body", *body), data_fold=key, open=opened)
    return tag("div", "step", indented(record.id, shown))


def indented(path: str, html: Html) -> Html:
    """Return the HTML as far from the left as the step with this path stands in the list."""
    margin = min(path.count("/"), 4) * 18
    return Html(f'<div style="margin-left:{margin}px">{html}</div>') if margin else html


def _line(record: StepRecord, status: str) -> Iterator[Html]:
    status = state_of_step(record, status)
    tone = TONES.get(status, "")
    yield tag("span", f"mark {tone}".strip(), MARKS.get(status, MARKS[""]), aria_hidden="true")
    yield words(" ")
    yield tag("span", "step-name", first_line(clean(name_of_step(record)), 80))
    if about := about_record(record):
        yield joined(" ", tag("span", "step-words", first_line(about, 120)))
    if told := figures_of(record):
        yield joined(" ", tag("span", "meta", told))
    is_routine = status == "completed"
    word = word_of(status)
    yield joined(" ", tag("span", "unseen" if is_routine else f"step-state {tone}".strip(), word)) if word else NOTHING
    if record.error and status != "completed" and record.kind not in BLOCKS:
        yield joined(" ", tag("span", "step-words", first_line(clean(record.error[:10_000]), 160)))


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
    text = output if isinstance(output, str) else as_json(output)
    return tag("div", "step-output", words(cut(text, most)))


def step_lines(run: Run, hidden: Collection[str] = ()) -> Iterator[str]:
    """Yield the listed steps as lines of text."""
    found = listed(run, hidden)
    records, waits = shown_records(run), waiting_steps(run)
    for place, path in enumerate(found.paths):
        if place == found.after and found.left_out:
            yield f"  … {counted(sum(found.left_out.values()), 'step')}: {counts(found.left_out)}"
        yield step_line(records[path], status_of(records[path], run, waits))


def step_line(record: StepRecord, status: str) -> str:
    """Return a step as a line of text, further in if it is inside a block: ``  ✓ draft  agent writer  2 attempts``."""
    status = state_of_step(record, status)
    name = first_line(clean(name_of_step(record)), 60)
    word = "" if status == "completed" else word_of(status) or status
    error = "" if status == "completed" or record.kind in BLOCKS else first_line(clean(record.error[:10_000]), 110)
    figures = "" if status == "skipped" else figures_of(record)
    told = [first_line(about_record(record), 60), word, figures, error]
    margin = "  " * min(record.id.count("/"), 6)
    return f"  {margin}{MARKS.get(status, MARKS[''])} {'  '.join([name, *filter(None, told)])}"
