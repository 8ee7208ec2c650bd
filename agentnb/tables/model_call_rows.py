"""The model calls of a run, with their purpose, attempts and usage, as rows of the usage table."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from agentnb.core.log.events import ScopeSet
from agentnb.core.plans.plan_steps import EXECUTOR
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import BROKEN_OFF, Retry, WorkflowRound
from agentnb.core.run.timeline import CHAT, CLARIFY_BLANK, COMPACTION, JUDGE, ModelCall, first_seq, timeline
from agentnb.core.usage import UNKNOWN, Usage

NESTED = "nested"
"""Operation of a row that sums up the calls of a nested run."""
MAX_SECONDS = "max_seconds"
"""Name of a run's time limit."""


class Call(NamedTuple):
    """A model call of any operation."""

    run: RunFacts
    round: int | None
    operation: str
    started_at: datetime | None
    replied: bool = False
    """True if the model replied, even if only in part."""
    failed: bool = False
    """True if there was no complete reply."""
    retries: Sequence[Retry] = ()
    usage: Usage = UNKNOWN
    seconds: float | None = None
    stop_reason: str | None = None
    """The reply's stop reason, or None if unknown or without a reply."""
    metadata: Mapping[str, Any] = MappingProxyType({})
    not_waited: float = 0.0
    """Seconds left of the last wait when the person stopped the run, otherwise 0."""
    problem: str = ""
    """An error that did not end the run."""
    model: str = ""
    """The model of a side call; empty for other calls, which use the run's own."""
    author: str = ""
    """Author of the reply, if several agents share a conversation."""
    nested_run: str | None = None
    """The nested run that the row sums up, or None for a call made by the run itself."""
    profile: str = ""
    """The profile whose model was called, if any."""
    context: str = ""
    """The context type in force when it started."""
    execution_mode: str = ""
    """Execution mode of the plan that the call is made for or follows."""
    call_id: str = ""
    """The tool call that made it, if any."""
    conversation: str = ""
    """First run of the conversation, if it is not the run's."""

    @property
    def response_id(self) -> str | None:
        """The provider's id for the reply, if recorded."""
        response_id = self.metadata.get("response_id")
        return response_id if isinstance(response_id, str) else None

    @property
    def copied_from(self) -> str | None:
        """The run that originally made the call, in a fork that repeats it."""
        fork = self.run.forked_from
        is_copy = fork is not None and self.run.origin is None and self.round is not None and self.round < fork.round
        return fork.run_id if fork is not None and is_copy else None

    @property
    def attempts(self) -> int:
        """Number of attempts."""
        if self.operation == CLARIFY_BLANK:
            return 0
        return sum(retry.attempt > 0 for retry in self.retries) + (not self.not_waited)

    @property
    def waited(self) -> float:
        """Seconds spent between the attempts."""
        return sum(retry.seconds for retry in self.retries) - self.not_waited

    @property
    def error(self) -> str | None:
        """Reason why the reply is missing or incomplete."""
        if not self.failed:
            return None
        if self.problem:
            return self.problem
        return str(self.run.error) if self.run.error else self.run.stop_reason


def model_calls(run: RunFacts) -> Iterator[Call]:
    """Yield all of a run's model calls."""
    executor = executor_of(run)
    operation = EXECUTOR if executor else JUDGE if JUDGE in _extensions(run) else CHAT
    contexts, modes = _contexts(run), [(event.seq, event.execution_mode) for event in run.model_calls if event.execution_mode]
    for part in timeline(run, ModelCall):
        if isinstance(part, ModelCall):
            seq = first_seq(part)
            side = part.side_call
            call = _call(run, part)
            yield call._replace(
                operation=operation if call.operation == CHAT else call.operation,
                context=_latest(contexts, seq) or executor.get("context", ""),
                profile=(side.profile if side else "") or run.profile or executor.get("profile", ""),
                execution_mode=(side.execution_mode if side else _latest(modes, seq)) or executor.get("execution_mode", ""),
                call_id=(side.call_id if side else "") or executor.get("call_id", ""),
                conversation=executor.get("conversation", ""),
            )


def executor_of(run: RunFacts) -> Mapping[str, str]:
    """Return the settings of the model call behind a run that executes a chat plan or one of its steps, if any."""
    return _extensions(run).get(EXECUTOR, {})


def _extensions(run: RunFacts) -> dict[str, Mapping[str, str]]:
    """Return the settings of a run's extensions by name; if a name occurs twice, the first counts."""
    return {
        extension.get("name", ""): extension.get("settings", {}) for extension in reversed(run.settings.get("extensions", ()))
    }


def _contexts(run: RunFacts) -> list[tuple[int, str]]:
    """Return each context type, with the number of the event that set it."""
    return [(event.seq, event.context_type) for event in run.events if isinstance(event, ScopeSet)]


def _latest(values: Sequence[tuple[int, str]], seq: int) -> str:
    """Return the last value logged before the event with this number, or an empty string."""
    index = bisect_left(values, (seq,))
    return values[index - 1][1] if index else ""


def _call(run: RunFacts, part: ModelCall) -> Call:
    """Return the call, with data from its first and last event."""
    retries = tuple([Retry(retry.attempt, retry.seconds, retry.reason, retry.status, retry.heard) for retry in part.retries])
    call = Call(
        run,
        part.round,
        part.operation,
        None if part.begun is None else part.begun.at,
        failed=True,
        retries=retries,
        usage=part.usage or UNKNOWN,
        problem=part.problem,
    )
    if (side := part.side_call) is not None:
        is_ok = not side.error
        stop_reason = "" if is_ok and part.operation != CLARIFY_BLANK else None
        call = call._replace(usage=side.usage, seconds=side.seconds, model=side.model)
        return call._replace(replied=is_ok, failed=not is_ok, stop_reason=stop_reason)
    if part.operation == COMPACTION:
        return _of_summary(call, part)
    if part.is_refused or part.round is None:
        return call
    current = run.rounds[part.round]
    is_cut_off = _is_out_of_time(run, current)
    return call._replace(
        replied=current.reply is not None,
        failed=current.reply is None or current.stop_reason == BROKEN_OFF,
        usage=current.usage or call.usage,
        seconds=current.seconds if current.reply is None else current.model_seconds,
        stop_reason=BROKEN_OFF if is_cut_off else None if current.reply is None else current.stop_reason,
        metadata=current.metadata,
        not_waited=_not_waited(current, part),
        problem=MAX_SECONDS if is_cut_off else call.problem,
        author=current.reply.author if current.reply is not None else "",
    )


def _is_out_of_time(run: RunFacts, one: WorkflowRound) -> bool:
    """True if the run's time limit cut off the reply of the round."""
    is_whole = one.reply is not None and one.stop_reason != BROKEN_OFF
    return not is_whole and one.status == "cancelled" and run.limit is not None and run.limit.limit == MAX_SECONDS


def _of_summary(call: Call, part: ModelCall) -> Call:
    if (ended := part.summary) is None:
        return call._replace(seconds=0.0)
    is_ok = not ended.problem
    stop_reason = "" if is_ok else None
    return call._replace(replied=is_ok, failed=not is_ok, usage=ended.usage, seconds=ended.seconds, stop_reason=stop_reason)


def _not_waited(one: WorkflowRound, part: ModelCall) -> float:
    """Return the seconds left of a stopped call's last wait."""
    if one.reply is not None or one.status != "cancelled" or not part.retries or one.ended_at is None:
        return 0.0
    last = part.retries[-1]
    return 0.0 if last.at is None else max(0.0, last.seconds - (one.ended_at - last.at).total_seconds())
