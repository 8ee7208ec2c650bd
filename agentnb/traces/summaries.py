"""Summaries for the list of runs, read from their logs without folding them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import msgspec

from agentnb.core.events import RunFinished, RunStarted
from agentnb.core.usage import NOTHING_USED, Usage
from agentnb.core.wire import TooDeep, decode
from agentnb.errors import TraceError


class RunSummary(NamedTuple):
    """One line of the list of runs."""

    id: str
    started_at: datetime | None
    status: str
    stop_reason: str
    rounds: int
    seconds: float | None
    model: str
    prompt: str
    tokens: int | None
    """Sent and received, as far as known; None if none are."""
    cost: float | None
    """US dollars; None if the cost of any call is unknown."""
    recovered: int = 0
    """How often it was resumed by another process after one had died."""


class _Reply(msgspec.Struct, gc=False):
    """The part of a `ModelReplied` event needed here; the rest of its line is skipped."""

    usage: Usage = Usage()


class _Summary(msgspec.Struct, gc=False):
    """The part of a `ContextCompacted` event needed here."""

    usage: Usage = NOTHING_USED


_replies = msgspec.json.Decoder(_Reply)
_summaries = msgspec.json.Decoder(_Summary)
_SUSPENDED = b'{"kind":"run_suspended"'
"""Prefix of the last line of a run that waits for an answer without a process."""
_REPLY, _COMPACTED = b'{"kind":"model_replied"', b'{"kind":"context_compacted"'
"""Prefixes of the lines that hold the usage of a model call."""


def summary(data: bytes, without_end: str) -> RunSummary:
    """Return the summary of a whole log; ``without_end``: status if it has no end and the run is not suspended.

    Raises `TraceError` if it is no run log.
    """
    first, _, rest = data.partition(b"\n")
    started = decode(first)
    if not isinstance(started, RunStarted):
        raise TraceError("no run_started event")
    last = rest[rest.rstrip(b"\n").rfind(b"\n") + 1 :]
    finished = _end(last)
    if last.startswith(_SUSPENDED) and last.endswith(b"\n"):
        without_end = "waiting_on_user"
    used = _usage(rest)
    return RunSummary(
        started.run_id,
        started.at,
        finished.status if finished else without_end,
        finished.stop_reason if finished else without_end,
        rest.count(b'{"kind":"round_started"'),
        finished.seconds if finished else None,
        started.model,
        started.prompt.text,
        None if used.input is None and used.output is None else (used.input or 0) + (used.output or 0),
        used.cost,
        rest.count(b'{"kind":"run_recovered"'),
    )


def _end(last: bytes) -> RunFinished | None:
    if not last.startswith(b'{"kind":"run_finished"'):
        return None
    try:
        end = decode(last)
    except TraceError:  # a torn line
        return None
    return end if isinstance(end, RunFinished) else None


def _usage(rest: bytes) -> Usage:
    """Return the total usage of all replies and compaction summaries, added in log order, as the fold adds them."""
    used: Usage | None = None
    lines = rest.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.startswith((_REPLY, _COMPACTED)):
            continue
        try:
            one = (_replies if line.startswith(_REPLY) else _summaries).decode(line).usage
        except RecursionError as error:
            raise TooDeep from error
        except (msgspec.DecodeError, UnicodeDecodeError):
            if number == len(lines):  # a torn line: the run is read without it
                break
            one = Usage()
        used = one if used is None else used + one
    return NOTHING_USED if used is None else used
