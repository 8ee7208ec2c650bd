"""Assessments of an experiment's runs by its checks, read from the rows stored alongside the runs' logs."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import msgspec

from agentnb.core.log.outcome import Assessment, outcome_of
from agentnb.errors import TraceError
from agentnb.store.bounds import MAX_STREAMED_BYTES
from agentnb.store.regular_files import open_regular

ROWS = "experiment.rows"
"""File with an experiment's rows, as JSON Lines, in the folder of its logs."""
Value: TypeAlias = float | bool | None
WHOLE = ("completed", "unknown")
"""States of runs that were not cut short, as far as is known: other products' traces may lack the end."""
CUT_SHORT = ("limited", "stopped")
"""States of runs that were ended by a limit or a policy. All others were ended by the provider, a person, or the end
of a process.
"""
COVER = "experiment.covered"
"""File that exists until every cell of an experiment has a row; it holds the time of the first look at the runs."""
_OWN_FILE = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # no link, and no pipe that waits


class _Row(msgspec.Struct, frozen=True):
    """The fields of a row that assess its run."""

    run_id: str = ""
    status: str = "failed"
    primary: str = ""
    values: dict[str, Value] = {}
    end: str = ""


_decoder = msgspec.json.Decoder(_Row)


def assessments_of_rows(folder: Path) -> dict[str, tuple[Assessment, ...]]:
    """Return, by run id, the primary check's assessments of the runs in an experiment's folder; empty for other folders."""
    try:
        with open_regular(folder / ROWS, MAX_STREAMED_BYTES) as file:
            lines = file.read().split(b"\n")
    except (OSError, TraceError):
        return {}
    by_run: dict[str, tuple[Assessment, ...]] = {}
    for line in lines:
        try:
            row = _decoder.decode(line)
        except ValueError:  # blank, damaged, or torn
            continue
        if row.run_id and (assessment := _assessment(row)) is not None:
            by_run[row.run_id] = (assessment,)
    return by_run


def settle_value(value: Value, status: str) -> Value:
    """Return a check's value, adjusted for the way the run ended: a run that was cut short has not passed, and has no numeric
    value.

    If the run failed, the value is unknown.
    """
    if status in WHOLE:
        return value
    return False if status in CUT_SHORT and isinstance(value, bool) else None


def note_look(folder: str | Path) -> None:
    """Record the first look at the runs in a folder, if it has an unfinished experiment."""
    with suppress(OSError):  # nothing is covered, or the folder is a copy that only its owner changes
        descriptor = os.open(os.path.join(folder, COVER), _OWN_FILE)  # noqa: PTH118  # of either
        try:
            if not os.fstat(descriptor).st_size:
                os.write(descriptor, datetime.now(UTC).isoformat().encode())
        finally:
            os.close(descriptor)


def _assessment(row: _Row) -> Assessment | None:
    value = row.values.get(row.primary)
    value = value if row.end else settle_value(value, row.status)
    if value is None:
        return None
    return Assessment(outcome_of(value), "check", row.primary, None if isinstance(value, bool) else value)
