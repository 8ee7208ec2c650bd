"""The row of a cell: what its run came to, whatever happened."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from agentnb.core.messages import ToolResult
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.experiments.planning.checks import MEASURES, Check, Value, values_of
from agentnb.store.check_values import COMPLETED
from agentnb.tables.loops import LOOP, found

Redone: TypeAlias = Literal["", "recovered", "again"]
"""Whether a run that was cut off was recovered, or made again."""
NAMING = ("key", "task", "variant", "model", "repeat", "seed", "run_id", "primary", "cluster")
"""The fields of a row that say nothing of how its run went."""
COVERED = "covered"
"""The status of a row whose outcome is covered."""
UNANSWERED = ("nobody_to_ask", "declined", "denied")
"""Error codes of calls that a person could have answered or allowed."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """One finished cell."""

    key: str
    """The content of the cell, as a hash."""
    task: str
    variant: str
    model: str
    repeat: int
    """From 0."""
    seed: int
    run_id: str = ""
    """Empty if no run began."""
    status: str = "failed"
    stop_reason: str = ""
    error: str = ""
    """The first line of the error that ended it."""
    primary: str = ""
    """The name of the check that decides."""
    values: dict[str, Value] = {}
    """By the name of the check."""
    check_errors: dict[str, str] = {}
    """The checks that raised: their values are unknown."""
    cluster: str = ""
    """The group of tasks that the task belongs to; empty for the task itself."""
    rounds: int = 0
    cost: float | None = None
    """US dollars, nested runs included; None if unknown."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None
    loop_round: int | None = None
    """The first round with a loop, from 1; None without one."""
    unanswered: int = 0
    """Questions to a person that nobody answered."""
    digest: str = ""
    """A hash of what the run said and did, without times and ids."""
    redone: Redone = ""
    at: datetime | None = None
    """When the row was written, UTC."""
    attempt: int = 1
    """Counted up by each retry."""

    @property
    def is_completed(self) -> bool:
        """Whether the run completed: others count as not passed, and are left out of the second analysis."""
        return self.status == COMPLETED

    @property
    def reason(self) -> str:
        """Why the run did not complete, or nobody answered it; empty for one that completed without a question."""
        if self.is_completed:
            return "nobody_to_ask" if self.unanswered else ""
        return self.error or self.stop_reason or self.status

    @property
    def tokens(self) -> int | None:
        """Tokens sent and received; None if unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens

    @property
    def covered(self) -> Row:
        """The row without all that its run came to."""
        return Row(**{name: getattr(self, name) for name in NAMING}, status=COVERED)

    def value(self, name: str) -> float | None:
        """Return the value of a check or measure as a number; None if it is unknown.

        A run that did not complete has not passed: each of its checks counts 0, unless the check raised.
        """
        if self.status == COVERED:
            return None
        if name in MEASURES and name not in self.values:
            measure = getattr(self, name)
            return None if measure is None else float(measure)
        if name in self.check_errors:
            return None
        if not self.is_completed:
            return 0.0
        given = self.values.get(name)
        return None if given is None else float(given)


def row_of(run: Run, checks: Sequence[Check], columns: Mapping[str, Any], **cell: Any) -> Row:
    """Return the row of a run that has ended. ``columns``: the row of its task; ``cell``: the fields that name the cell."""
    values, errors = values_of(checks, run, columns)
    loops = [one.last + 1 for one in found(run) if one.family == LOOP]
    usage = run.usage
    return Row(
        **cell,
        run_id=run.id,
        status=run.status,
        stop_reason=run.stop_reason or "",
        error="" if run.error is None else run.error.message.partition("\n")[0][:300],
        values=values,
        check_errors=errors,
        rounds=len(run.rounds),
        cost=run.cost,
        input_tokens=usage.input,
        output_tokens=usage.output,
        seconds=run.seconds,
        loop_round=min(loops, default=None),
        unanswered=sum(_unanswered(one) for one in run.rounds),
        digest=digest_of(run),
    )


def digest_of(run: Run) -> str:
    """Return a hash of the conversation: texts, calls with their arguments, results, and the end."""
    hashed = hashlib.sha256(f"{run.status} {run.stop_reason} {len(run.rounds)}".encode())
    for message in run.messages[run.inherited :]:
        hashed.update(f"\n{message.role} {message.text}".encode())
        for call in message.calls:
            hashed.update(f"\n{call.name} {call.arguments!r}".encode())
        for part in message.parts:
            if isinstance(part, ToolResult):
                hashed.update(f"\n{part.name} {part.is_error} {part.text}".encode())
    if not run.rounds:
        hashed.update(run.text.encode())
    return hashed.hexdigest()[:16]


def _unanswered(one: WorkflowRound) -> int:
    return sum(record.result is not None and record.result.error_code in UNANSWERED for record in one.records)
