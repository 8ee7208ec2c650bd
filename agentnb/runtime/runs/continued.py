"""End of a waiting run when another run continues it: from then on nobody else can answer or continue the waiting run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from agentnb.core.log.events import QuestionAnswered, RunFinished
from agentnb.core.log.stores import ReopeningStore, Writer
from agentnb.core.run.approvals import CONTINUED
from agentnb.detect.run import Run
from agentnb.runtime.clock import seconds_taken
from agentnb.runtime.event_log import EventLog


async def open_after_ending(before: Run, store: object, open_log: Callable[[], Awaitable[Writer]]) -> Writer:
    """Open the log of a new run, once the run that it continues has ended in its store.

    Raises `StoreError` if another process is resuming that run, and `SettingsError` if it has ended in the meantime.
    """
    if isinstance(store, ReopeningStore) and store.has(before.id):
        writer, run = store.reopen(before.id)
        try:
            end_waiting(run, writer)
        finally:
            writer.close()
    return await open_log()


def end_waiting(run: Run, writer: Writer | None = None) -> None:
    """Log the end of a suspended run. ``writer``: writes to its open log; without one, the run is in memory only."""
    log = EventLog(run.id, parent_id=run.parent_id, run=run)
    if writer is not None:
        log.keep_in(writer)
    for question in run.waiting:
        log.emit(QuestionAnswered, question_id=question.id, withdrawn=True)
    seconds = seconds_taken(run.events)
    log.emit(RunFinished, status="completed", stop_reason=CONTINUED, seconds=seconds, totals=log.totals())
