"""The model calls of a run, one by one, with their purpose, attempts and usage: rows of the usage table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from agentnb.core.log.events import AnyEvent, CompactionStarted, ContextCompacted
from agentnb.core.log.work_events import ModelCalled
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import BROKEN_OFF, Retry, WorkflowRound
from agentnb.core.run.timeline import COMPACTION, ModelCall, timeline
from agentnb.core.usage import Usage

NESTED = "nested"
"""The operation of a row for all calls of a nested run."""


class Call(NamedTuple):
    """A model call of any operation."""

    run: RunFacts
    round: int | None
    operation: str
    started_at: datetime | None
    replied: bool
    """Whether a reply came, even a partial one."""
    failed: bool
    """Whether no whole reply came."""
    retries: Sequence[Retry]
    usage: Usage
    seconds: float | None
    stop_reason: str
    metadata: dict[str, Any]
    not_waited: float
    """Seconds of the last wait that did not pass because the person stopped the run; else 0."""
    problem: str = ""
    """Why it failed, if that did not end the run."""
    model: str = ""
    """Its model, if that is not the run's."""
    author: str = ""
    """Who replied, where several agents share a conversation."""
    nested_run: str | None = None
    """The nested run whose calls it sums up; None for a call of the run itself."""

    @property
    def attempts(self) -> int:
        """Attempts made."""
        return sum(retry.attempt > 0 for retry in self.retries) + (not self.not_waited)

    @property
    def waited(self) -> float:
        """Seconds between the attempts."""
        return sum(retry.seconds for retry in self.retries) - self.not_waited

    @property
    def error(self) -> str | None:
        """Why no whole reply came."""
        if not self.failed:
            return None
        if self.problem:
            return self.problem
        return str(self.run.error) if self.run.error else self.run.stop_reason


def model_calls(run: RunFacts) -> Iterator[Call]:
    """Yield all model calls of a run."""
    for part in timeline(run, ModelCall):
        if isinstance(part, ModelCall):
            yield _call(run, part)


def _call(run: RunFacts, part: ModelCall) -> Call:
    """Return the call with what the events at its ends say of it."""
    ended = part.ended
    retries = tuple([Retry(one.attempt, one.seconds, one.reason, one.status, one.heard) for one in part.retries])
    call = Call(
        run,
        part.round,
        part.operation,
        None if part.begun is None else part.begun.at,
        replied=False,
        failed=True,
        retries=retries,
        usage=part.usage or Usage(),
        seconds=None,
        stop_reason="",
        metadata={},
        not_waited=0.0,
        problem=part.problem,
    )
    if isinstance(ended, ModelCalled):
        is_ok = not ended.error
        return call._replace(replied=is_ok, failed=not is_ok, usage=ended.usage, seconds=ended.seconds, model=ended.model)
    if part.operation == COMPACTION:
        return _of_summary(call, ended)
    if isinstance(ended, CompactionStarted) or part.round is None:
        return call
    one = run.rounds[part.round]
    return call._replace(
        replied=one.reply is not None,
        failed=one.reply is None or one.stop_reason == BROKEN_OFF,
        usage=one.usage or call.usage,
        seconds=one.seconds if one.reply is None else one.model_seconds,
        stop_reason=one.stop_reason,
        metadata=one.metadata,
        not_waited=_not_waited(one, part),
        author=one.reply.author if one.reply is not None else "",
    )


def _of_summary(call: Call, ended: AnyEvent | None) -> Call:
    if not isinstance(ended, ContextCompacted):
        return call._replace(seconds=0.0)
    is_ok = not ended.problem
    return call._replace(replied=is_ok, failed=not is_ok, usage=ended.usage, seconds=ended.seconds)


def _not_waited(one: WorkflowRound, part: ModelCall) -> float:
    """Return the seconds of a stopped call's last wait that did not pass."""
    if one.reply is not None or one.status != "cancelled" or not part.retries or one.ended_at is None:
        return 0.0
    last = part.retries[-1]
    return 0.0 if last.at is None else max(0.0, last.seconds - (one.ended_at - last.at).total_seconds())
