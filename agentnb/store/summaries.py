"""Summaries for the list of runs, read from their logs without folding them.

A stored run logs totals at its end, so that only the first and the last line of its log need be read, unless the log
has been changed since. Other logs are read completely.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from io import BufferedReader
from itertools import groupby
from sys import intern
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from agentnb.core.log.events import Origin, RunFinished, Totals
from agentnb.core.log.outcome import Assessment, Outcome
from agentnb.core.log.wire import TooDeep
from agentnb.core.messages import Message
from agentnb.core.redaction import FileRedactor
from agentnb.core.run.work_records import is_substituted
from agentnb.core.todos import Todo, has_open
from agentnb.core.usage import NOTHING_USED, UNKNOWN, NestedUsage, Usage, counts, logged_nested_usage
from agentnb.errors import TraceError
from agentnb.store.bounds import MAX_LINE_BYTES
from agentnb.store.regular_files import SMALL
from agentnb.store.state_lines import BEGINNINGS, RECOVERED, SUSPENDED, StateLines


class RunSummary(msgspec.Struct, frozen=True, gc=False):
    """A line in the list of runs."""

    id: str
    started_at: datetime | None
    status: str
    stop_reason: str
    rounds: int
    seconds: float | None
    model: str
    prompt: str
    tokens: int | None
    """Tokens sent and received, as far as known, including nested runs, or None if unknown."""
    cost: float | None
    """Cost in US dollars, including nested runs, or None if the cost of any call is unknown."""
    recovered: int = 0
    """Number of times that another process resumed it after its process died."""
    parent_id: str | None = None
    """Id of the run whose tool started it, if it is nested."""
    nested: int = 0
    """Number of nested runs, at any depth; counted by `families`."""
    depth: int = 0
    """Nesting depth: 0 for a top-level run; counted by `families`."""
    tags: tuple[str, ...] = ()
    notebook: str = ""
    """The notebook from which it was started, if known."""
    foreign: bool = False
    """True if another product recorded it, so that no agentnb command can resume or answer it."""
    kind: str = "agent"
    """``workflow`` if it works in steps."""
    steps: int = 0
    """Number of steps that began or were skipped, not counting jumps."""
    own_cost: float | None = None
    """Cost in US dollars of its own model calls, without nested runs; this can be summed over runs."""
    assessment: Assessment | None = None
    """The assessment that determines its outcome, or None."""
    limit_value: float | None = None
    """Value of the limit that ended it; ``stop_reason`` says which limit."""
    todos_open: bool = False
    """True if any todo on its list is not completed."""
    paused: bool = False
    """True if it waits without an open question."""
    failed_calls: int = 0
    """Number of calls, by the model and by steps, that failed."""
    blocked_calls: int = 0
    """Number of such calls that a gate, a limit or the person refused."""
    plan_rejected: bool = False
    """True if its last plan was rejected."""
    substitutes: int = 0
    """Number of steps that failed and used a substitute."""

    @property
    def outcome(self) -> Outcome:
        """Its outcome: passed, failed or unknown."""
        return "unknown" if self.assessment is None else self.assessment.outcome

    @property
    def can_be_recovered(self) -> bool:
        """True if it was interrupted and agentnb can resume it."""
        return self.status == "interrupted" and not self.foreign

    @property
    def can_be_answered(self) -> bool:
        """True if it is suspended until the person answers and agentnb can resume it with the answer."""
        return self.status == "waiting_on_user" and self.stop_reason != "running" and not self.foreign


class _Started(msgspec.Struct, tag="run_started", tag_field="kind", gc=False):
    """The part of a ``run_started`` event that is needed here; the rest of the line (most of it) is skipped."""

    seq: int
    at: datetime | None
    run_id: str
    schema: int
    prompt: Message
    model: str
    parent_id: str | None = None
    tags: tuple[str, ...] = ()
    notebook: str = ""
    origin: Origin | None = None
    run_kind: str = "agent"
    todos: tuple[Todo, ...] = ()


class _Reply(msgspec.Struct, gc=False):
    """The part of a ``model_replied`` event that is needed here."""

    usage: Usage = UNKNOWN


class _Step(msgspec.Struct, gc=False):
    """The part of a ``step_started``, ``step_skipped`` or ``step_finished`` event that is needed here."""

    step: str
    step_kind: str = ""
    status: str = "completed"
    error: str = ""


class _Summary(msgspec.Struct, gc=False):
    """The part of a ``context_compacted`` event that is needed here."""

    usage: Usage = NOTHING_USED


class _Besides(msgspec.Struct, gc=False):
    """The part of a ``spent_besides`` event that is needed here."""

    usage: Usage = NOTHING_USED
    error: str = ""
    inside: float = 0.0
    nested_run: str = ""
    nested: Usage = NOTHING_USED


class _Finished(msgspec.Struct, gc=False):
    """The part of an earlier version's ``round_finished`` event that is needed here."""

    spent_inside: float = 0.0


class _Called(msgspec.Struct, gc=False):
    """The part of a ``model_called`` event that is needed here."""

    usage: Usage = UNKNOWN
    error: str = ""


_started = msgspec.json.Decoder(_Started)
_finished_run = msgspec.json.Decoder(RunFinished)
_DECODERS: dict[bytes, msgspec.json.Decoder[Any]] = {
    b'{"kind":"model_replied"': msgspec.json.Decoder(_Reply),
    b'{"kind":"context_compacted"': msgspec.json.Decoder(_Summary),
    b'{"kind":"spent_besides"': msgspec.json.Decoder(_Besides),
    b'{"kind":"model_called"': msgspec.json.Decoder(_Called),
}
"""Decoders for the usage of a model call, by the beginning of the line."""
_ROUND = b'{"kind":"round_started"'
_BESIDES = next(beginning for beginning in _DECODERS if b"besides" in beginning)
_FINISHED = b'{"kind":"round_finished"'
_finished = msgspec.json.Decoder(_Finished)
_SPENT_INSIDE = re.compile(rb'"spent_inside":(?!0\.0[,}])')
"""Matches the US dollars spent by nested runs, as earlier versions logged them at the end of a round."""
_NESTED = (_BESIDES, _FINISHED)
_STEPS = (b'{"kind":"step_started"', b'{"kind":"step_skipped"', b'{"kind":"step_finished"')
_step = msgspec.json.Decoder(_Step)
_WIDTH = len(b'{"kind":"model_rep')
_COUNTED = {beginning[:_WIDTH]: beginning for beginning in (*_DECODERS, _ROUND, _FINISHED, *BEGINNINGS, *_STEPS)}
"""Beginnings of the relevant lines, by their first bytes, so that a single lookup rules out most lines."""
_TAIL = 4_096
"""Number of bytes at the end of a log in which to look for the line that ends its run."""
SECONDS = len("20260504-120000")
"""Number of leading characters of an id that give the time at which the run began, to the second."""
NEVER = datetime.min.replace(tzinfo=UTC)
"""Value that sorts unknown times first."""


def log_summary(file: BufferedReader, is_being_written: Callable[[BufferedReader], bool]) -> RunSummary:
    """Return the summary of a log; if the last line has totals, it is read from the first line and the last.

    ``is_being_written``: returns whether a run is writing the file. Raises `TraceError` if it is not a run log.
    """
    result = _summary_of_file(file)
    if result is None:
        file.seek(0)
        without_end = "running" if is_being_written(file) else "interrupted"  # before it is read: the run may end at any time
        result = summary(iter(partial(file.readline, MAX_LINE_BYTES), b""), without_end)
    return result


def _summary_of_file(file: BufferedReader) -> RunSummary | None:
    """Return the summary of a log that is unchanged since its run wrote it, or None if all of it must be read to find
    the totals.
    """
    head = file.read1(SMALL)
    if len(head) < SMALL:  # all of it
        return summary_of_data(head)
    first = head[: head.find(b"\n") + 1] or head + file.readline(MAX_LINE_BYTES)
    size = file.seek(0, os.SEEK_END)
    file.seek(max(len(first), size - _TAIL))
    return _summary_of_ends(first, file.read(), size)


def summary_of_data(log: bytes) -> RunSummary | None:
    """Return the summary of a log, or None if its last line has no totals, or totals of another log."""
    first = log[: log.find(b"\n") + 1] or log
    return _summary_of_ends(first, log[max(len(first), len(log) - _TAIL) :], len(log))


def _summary_of_ends(first: bytes, last: bytes, size: int) -> RunSummary | None:
    last = last[last.rfind(b"\n", 0, -1) + 1 :]
    redactor = FileRedactor(first)
    finished = _end(last, redactor)
    if finished is None or (totals := finished.totals) is None or totals.size != size - len(last):
        return None
    if totals.failed_calls is None or (totals.steps and totals.substitutes is None):  # of an earlier version, with fewer totals
        return None
    return _summary(first, _start(first), finished, totals, redactor)


def summary(lines: Iterable[bytes], without_end: str) -> RunSummary:
    """Return the summary of a complete log, read line by line. ``without_end``: its status if no end is logged."""
    remaining = iter(lines)
    first = next(remaining, b"")
    started = _start(first)
    used: Usage | None = None
    nested: Usage | None = None
    last, rounds, recovered = b"", 0, 0
    steps: dict[str, bool] = {}
    state, redactor, counted = StateLines(), FileRedactor(first), _COUNTED.get
    for line in remaining:
        beginning = counted(line[:_WIDTH])
        if line != b"\n":
            last = line
        if beginning is None or not line.startswith(beginning):
            continue
        if beginning is _ROUND:
            rounds += 1
        elif beginning in BEGINNINGS:
            state.take(beginning, line)
            recovered += beginning is RECOVERED
        elif beginning in _STEPS:
            steps |= _steps(line)
        elif beginning in _DECODERS and (call_usage := _usage(beginning, line)) is not None:
            used = call_usage if used is None else used + call_usage
        if beginning in _NESTED and (within := _inside(beginning, line)) is not None:
            nested = within if nested is None else nested + within
    if last.startswith(SUSPENDED) and last.endswith(b"\n"):
        without_end = "waiting_on_user"
    totals = Totals(
        0,
        rounds,
        NOTHING_USED if used is None else used,
        recovered,
        len(steps),
        nested=nested,
        assessment=state.assessment,
        limit_value=state.limit_value,
        todos_open=has_open(state.todos(started.todos)),
        failed_calls=state.failed_calls,
        blocked_calls=state.blocked_calls,
        plan_rejected=state.is_plan_rejected,
        substitutes=sum(steps.values()),
    )
    return _waiting(_summary(first, started, _end(last, redactor), totals, redactor, without_end), state)


def _waiting(row: RunSummary, state: StateLines) -> RunSummary:
    """Return the summary of a log, updated if its run is live and waits."""
    if row.status == "running" and state.waits:
        row = replace(row, status="waiting_on_user")
    return replace(row, paused=row.status == "waiting_on_user" and not state.questions)


def _summary(
    first: bytes,
    started: _Started,
    finished: RunFinished | None,
    totals: Totals,
    redactor: FileRedactor,
    without_end: str = "",
) -> RunSummary:
    """Return the summary of a log with this ``first`` line, redacted as the events of the log are."""
    decided = totals.assessment
    started = redactor.redact(started, first, is_log=True)
    if decided is not None:
        decided = redactor.redact(decided, msgspec.json.encode(decided), is_log=True)
    if started.origin is not None and started.origin.usage is not None:  # reported for the whole run
        totals = replace(totals, usage=started.origin.usage)
    used = _with_nested(totals)
    return RunSummary(
        started.run_id,
        started.at,
        finished.status if finished else without_end,
        intern(finished.stop_reason) if finished else without_end,  # interned, shared by all runs, as is the model
        totals.rounds,
        finished.seconds if finished else None,
        intern(started.model),
        started.prompt.text,
        None if used.input is None and used.output is None else (used.input or 0) + (used.output or 0),
        used.cost,
        totals.recovered,
        started.parent_id,
        tags=started.tags,
        notebook=started.notebook,
        foreign=started.origin is not None,
        kind=started.run_kind,
        steps=totals.steps,
        own_cost=totals.usage.cost,
        assessment=decided,
        limit_value=totals.limit_value,
        todos_open=bool(totals.todos_open),
        failed_calls=totals.failed_calls or 0,
        blocked_calls=totals.blocked_calls,
        plan_rejected=totals.plan_rejected,
        substitutes=totals.substitutes or 0,
    )


def _with_nested(totals: Totals) -> Usage:
    """Return the usage of a run and its nested runs, added up as in `RunFacts.usage`."""
    own, nested = totals.usage, totals.nested
    if nested is None and totals.inside:  # by a version that logged only dollars
        nested = NestedUsage.of_dollars(totals.inside).usage
    if nested is None:
        return own
    return nested if own == NOTHING_USED else own + nested


def families(found: Iterable[RunSummary], known: Container[str]) -> Iterator[list[RunSummary]]:
    """Yield each top-level run, newest first, followed by its nested runs, each below its parent, oldest first.

    ``found``: newest first by id; ``known``: the ids of all runs that exist. A nested run whose parent is missing
    counts as top-level. Only as much of ``found`` is read as needed.
    """
    nested: dict[str, list[RunSummary]] = {}
    for _, same_second in groupby(found, key=lambda one: one.id[:SECONDS]):  # ids within one second have no order
        for row in sorted(same_second, key=lambda one: one.started_at or NEVER, reverse=True):
            if row.parent_id is not None and row.parent_id in known:
                nested.setdefault(row.parent_id, []).append(row)
            else:
                yield _family(row, nested)


def _family(one: RunSummary, nested: dict[str, list[RunSummary]], depth: int = 0) -> list[RunSummary]:
    within = [row for child in nested.pop(one.id, [])[::-1] for row in _family(child, nested, depth + 1)]
    return [replace(one, nested=len(within), depth=depth), *within]


def _start(line: bytes) -> _Started:
    try:
        return _started.decode(line)
    except RecursionError as error:
        raise TooDeep from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"no run_started event: {error}") from error


def _end(last: bytes, redactor: FileRedactor) -> RunFinished | None:
    """Return the end of the run, redacted, if this line has it, or None for any other line, or a torn one."""
    if not last.startswith(b'{"kind":"run_finished"'):
        return None
    try:
        return redactor.redact(_finished_run.decode(last), last)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _usage(beginning: bytes, line: bytes) -> Usage | None:
    """Return the usage of a model call, or None if it does not count. Usages must be added in log order, as by the fold."""
    try:
        decoded = _DECODERS[beginning].decode(line)
    except RecursionError as error:
        raise TooDeep from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNKNOWN if line.endswith(b"\n") else None  # a torn line is not part of the run
    kind, used = type(decoded), cast("Usage", decoded.usage)
    return used if kind is _Reply or kind is _Summary or counts(used, decoded.error) else None


def _inside(beginning: bytes, line: bytes) -> Usage | None:
    """Return the nested run's usage that this event logs, or None if it has no readable usage."""
    try:
        if beginning is _FINISHED:
            spent = _finished.decode(line).spent_inside if _SPENT_INSIDE.search(line) else 0.0
            return NestedUsage.of_dollars(spent).usage if spent else None
        decoded: _Besides = _DECODERS[_BESIDES].decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    nested = logged_nested_usage(decoded.nested_run, decoded.inside, decoded.nested)
    return None if nested is None else nested.usage


def _steps(line: bytes) -> dict[str, bool]:
    """Return the path of this event's step, and whether it used a substitute; empty if it cannot be read or is a jump."""
    try:
        decoded = _step.decode(line)
    except RecursionError as error:
        raise TooDeep from error
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return {} if decoded.step_kind == "goto" else {decoded.step: is_substituted(decoded.status, decoded.error)}
