"""Recorded requests and replies of runs, for use by `RecordedModel`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentnb import errors
from agentnb.context.request_history import sent_requests
from agentnb.core.log.events import RunError, TextDelta
from agentnb.core.messages import Message, Text
from agentnb.core.run.rounds import WorkflowRound
from agentnb.core.usage import UNKNOWN
from agentnb.detect.run import Run
from agentnb.errors import ModelError, SettingsError
from agentnb.interchange.files import load_traces
from agentnb.models.model import Reply, Retry, StreamItem
from agentnb.models.recorded_model import Recording

MARKERS = {"complete": "[WORKFLOW_COMPLETE]", "continue": "[CONTINUE]", "stop": '{"status":"stop"}'}
"""Marker for each signal. A log stores replies without markers, but the loop reads them from the text."""


def recordings_of(source: Any) -> Iterator[Recording]:
    """Yield the recordings in one run, several runs, or a path. Raises `SettingsError` for anything else."""
    if isinstance(source, Run):
        yield from _of_run(source)
    elif isinstance(source, str | Path):
        for run in load_traces(source):
            yield from _of_run(run)
    elif isinstance(source, Sequence) and all(isinstance(item, Run) for item in source):
        for run in source:
            yield from _of_run(run)
    else:
        raise SettingsError(f"{source!r} is not a recorded run", "Give a run, a list of runs, or a path: RecordedModel(PATH)")


def _of_run(run: Run) -> Iterator[Recording]:
    rounds = {round_.index: round_ for round_ in run.rounds}
    last = run.rounds[-1] if run.rounds else None
    for index, sent in sent_requests(run):
        round_ = rounds[index]
        items = (*_attempts(round_), *_reply(round_))
        if round_.reply is not None and round_.stop_reason != "broken_off":
            yield Recording(run.id, index, sent.request, items)
        elif round_ is last and run.error is not None:
            yield Recording(run.id, index, sent.request, items, _error(run.error))


def _attempts(round_: WorkflowRound) -> Iterable[StreamItem]:
    for attempt in round_.retries:
        if attempt.heard:
            yield TextDelta(attempt.heard)
        yield Retry(attempt.attempt, attempt.seconds, attempt.reason, attempt.status)


def _reply(round_: WorkflowRound) -> Iterable[StreamItem]:
    if round_.reply is None:
        return
    if round_.stop_reason == "broken_off":
        yield TextDelta(round_.text)
        return
    yield Reply(
        _with_markers(round_.reply, round_.signals),
        usage=round_.usage or UNKNOWN,
        stop_reason=round_.stop_reason,
        metadata=round_.metadata,
        seconds=round_.model_seconds,
    )


def _with_markers(message: Message, signals: Sequence[str]) -> Message:
    """Return the reply as the model sent it, with its markers as a separate part at the end."""
    if not signals:
        return message
    return replace(message, parts=(*message.parts, Text("\n".join(MARKERS[signal] for signal in signals))))


def _error(error: RunError) -> Exception:
    """Return the model's error, as an instance of its original class if that is one of ours."""
    kind = getattr(errors, error.type, None)
    is_ours = isinstance(kind, type) and issubclass(kind, ModelError)
    return kind(error.message, error.advice) if is_ours else ModelError(error.message, error.advice)  # type: ignore[misc]  # just looked
