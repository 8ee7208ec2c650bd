"""The row of a cell: the result of its run, even if the run failed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from agentnb.acp.external_agent import PROVIDER
from agentnb.core.messages import ToolResult
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.agent_runs import works_in_steps
from agentnb.detect.run import Run
from agentnb.experiments.planning.experiment_checks import MEASURES, Check, values_of
from agentnb.experiments.planning.experiment_tasks import ClusterKey, cluster_key
from agentnb.runtime.run_end import OF_THE_REPLY
from agentnb.store.check_values import CUT_SHORT, WHOLE, Value, settle_value
from agentnb.tables.loops_table import LOOP, find_loops

Redone: TypeAlias = Literal["", "recovered", "again"]
"""The way in which a run that was cut off was repeated: recovered, or made again."""
NAMING = ("key", "task", "variant", "model", "repeat", "seed", "run_id", "primary", "cluster")
"""Fields of a row that do not reveal how the run went."""
COVERED = "covered"
"""Status of a row whose outcome is covered."""
UNANSWERED = ("nobody_to_ask", "declined", "denied")
"""Error codes of calls that a person could have answered or allowed."""
NOT_RUN = "not_run"
"""Status of the placeholder row for a planned cell that has not run."""
LOST = "lost"
"""Status of an attempt whose worker died; the cell has another row or is run again."""
STATES = ("scored", "unknown", "failed", "not run")
"""States of a cell's value: known, unknown although the run ended, lost with the run, or yet to come."""


class Row(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finished cell."""

    key: str
    """Hash of the cell's content."""
    task: str
    variant: str
    model: str
    repeat: int
    """Number of the repeat, from 0."""
    seed: int | None
    """The seed of the draws, or None if the run was recorded elsewhere."""
    run_id: str = ""
    """Id of the run; empty if none started."""
    status: str = "failed"
    stop_reason: str = ""
    error: str = ""
    """First line of the error that ended the run."""
    primary: str = ""
    """Name of the check that decides."""
    values: dict[str, Value] = {}
    """Values by the name of the check."""
    end: str = ""
    """End of the run, which determines the values that count; empty in rows from earlier versions."""
    check_errors: dict[str, str] = {}
    """Errors raised by checks, by the check's name; the values of these checks are unknown."""
    judged: dict[str, str] = {}
    """Ids of judges' runs, by the name of the check."""
    cluster: str = ""
    """The group of related tasks; empty if the task belongs to none."""
    rounds: int = 0
    cost: float | None = None
    """US dollars, including nested runs, or None if unknown."""
    judging_cost: float | None = 0.0
    """US dollars spent on judging the run, not included in ``cost``; 0 for cached verdicts."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None
    loop_round: int | None = None
    """First round with a loop, from 1, or None if there is no loop."""
    unanswered: int = 0
    """Number of questions to a person that were never answered."""
    has_tools: bool = True
    """True if the model was offered any tool besides the todo list."""
    lacked: tuple[str, ...] = ()
    """Tools that the model called but the agent does not have."""
    digest: str = ""
    """Hash of the run's texts and calls, excluding times and ids."""
    redone: Redone = ""
    at: datetime | None = None
    """When the row was written, in UTC."""
    attempt: int = 1
    """Number of the attempt; each retry increments it."""

    @property
    def cluster_key(self) -> ClusterKey:
        """The cluster of its task, or the task itself if it has none."""
        return cluster_key(self.cluster, self.task)

    @property
    def is_completed(self) -> bool:
        """True if, as far as is known, the run was not cut short. Other runs are left out of the second analysis."""
        return self.status in WHOLE

    @property
    def is_lost(self) -> bool:
        """True if the run was ended by the provider, a person, or the end of a process."""
        return (self.end or self.status) not in (*WHOLE, *CUT_SHORT)

    @property
    def reason(self) -> str:
        """Why the run is incomplete or has unanswered questions; empty if neither applies."""
        if self.is_completed:
            return "nobody_to_ask" if self.unanswered else ""
        return self.error or self.stop_reason or self.status

    @property
    def tokens(self) -> int | None:
        """Tokens sent and received, or None if unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return None
        return self.input_tokens + self.output_tokens

    @property
    def spent(self) -> float | None:
        """US dollars spent on the run and on judging it, or None if unknown."""
        return None if self.cost is None or self.judging_cost is None else self.cost + self.judging_cost

    @property
    def known_cost(self) -> float:
        """US dollars spent on the run and on judging it, as far as is known."""
        return self.spent or self.cost or 0.0

    @property
    def covered(self) -> Row:
        """The row without any of its run's results."""
        return Row(**{name: getattr(self, name) for name in NAMING}, status=COVERED)

    def value(self, name: str) -> float | None:
        """Return the value of a check or measure as a number, or None if unknown."""
        if name in self.check_errors:
            return None
        if name in MEASURES and name not in self.values:
            value = None if self.is_lost else getattr(self, name)
        else:
            value = self.values.get(name) if self.end else settle_value(self.values.get(name), self.status)
        return None if value is None else float(value)

    def state(self, name: str) -> str:
        """Return the state of the value, one of `STATES`."""
        if self.value(name) is not None:
            return "scored"
        return "not run" if self.status == NOT_RUN else "failed" if self.is_lost else "unknown"

    def why_missing(self, name: str) -> str:
        """Return why a value is missing; empty if there is a value."""
        if self.value(name) is not None:
            return ""
        return self.check_errors.get(name) or self.reason or f"{name} returned no value"


def row_of(run: Run, checks: Sequence[Check], columns: Mapping[str, Any], **cell: Any) -> Row:
    """Return the row of a run that has ended. ``columns``: the row of its task; ``cell``: fields that identify the cell."""
    values, errors = values_of(checks, run, columns)
    end = _end_of(run)
    settled = {
        check.name: values[check.name] if check.name in errors else check.settle(run, values[check.name], end)
        for check in checks
    }
    codes = [
        (record.call.name, record.result.error_code) for round_ in run.rounds for record in round_.records if record.result
    ]
    loops = [row.last + 1 for row in find_loops(run) if row.family == LOOP]
    usage = run.usage
    return Row(
        **cell,
        run_id=run.id,
        status=run.status,
        stop_reason=run.stop_reason or "",
        error="" if run.error is None else run.error.message.partition("\n")[0][:300],
        values=settled,
        end=end,
        check_errors=errors,
        rounds=len(run.rounds),
        cost=run.cost,
        input_tokens=usage.input,
        output_tokens=usage.output,
        seconds=run.seconds,
        loop_round=min(loops, default=None),
        unanswered=sum(code in UNANSWERED for _, code in codes),
        has_tools=works_in_steps(run)
        or run.model.startswith(f"{PROVIDER}:")
        or any(tool.name != TODO_TOOL for tool in run.tools),
        lacked=tuple(dict.fromkeys([name for name, code in codes if code == "unknown_tool"])),
        digest=digest_of(run),
    )


def _end_of(run: Run) -> str:
    """Return how the run ended; a ``failed`` run counts as cut short if a verdict on its reply ended it."""
    if run.status != "failed" or run.stop_reason == "step_failed":
        return run.status
    return CUT_SHORT[-1] if run.failed_at == OF_THE_REPLY else run.status


def digest_of(run: Run) -> str:
    """Return a hash of the conversation: its texts, its calls with arguments and results, and how it ended."""
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
