"""Log of a run in progress: each event is redacted, stored, folded, and sent to the watchers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakMethod

from agentnb.advice import Advised, AnyAdvice, FreeDisk, as_advice
from agentnb.core.log.event_bounds import EventTooLarge, cut_event
from agentnb.core.log.events import (
    AnyEvent,
    Delta,
    Event,
    ReplyDelta,
    ReplyStreamed,
    RunFinished,
    ToolFinished,
    ToolPrinted,
    ToolProgress,
    Topic,
    Totals,
    Warned,
)
from agentnb.core.log.stores import FileBefore, RunStore, Watcher, Writer
from agentnb.core.messages import Text
from agentnb.core.redaction import StreamRedactor, redact
from agentnb.core.todos import has_open
from agentnb.detect.run import Run
from agentnb.errors import StoreError
from agentnb.settings import SHORTEST_SECRET, secrets, secrets_holder

AnEvent = TypeVar("AnEvent", bound=Event)
now = datetime.now
"""Bound once, since every round and step calls it."""
file_watchers: list[WeakMethod[Callable[[FileBefore], None]]] = []
"""Called, from any thread, before a call of a run in this process changes a file."""
FREE_DISK = FreeDisk()
ROOM_FOR_COPY = (
    "agentnb keeps copies so that changes can be undone. Check that the folder of the run log is writable and has free space"
)
LEFT_ALONE = "The run is still in memory: save it with save_trace(run, PATH), and check what else writes to its folder"
"""Advice for a log that cannot be written because something else has removed, replaced or changed it."""


class EventLog:
    """Creates, redacts, stores and folds the events of one run, and sends them to watchers. Used from a single thread."""

    def __init__(
        self,
        run_id: str,
        *,
        parent_id: str | None = None,
        watchers: Iterable[Watcher] = (),
        run: Run | None = None,
        store: RunStore | None = None,
    ) -> None:
        """Create a log. ``run``: a run to resume, folded from its unfinished log; ``store``: keeps the logs of a new
        run and of its nested runs.
        """
        self.id = run_id
        self.run = Run() if run is None else run
        self.store = store
        self.parent_id = parent_id
        self.seq = 0 if run is None else len(run.events)
        """Sequence number of the next event."""
        self._writer: Writer | None = None
        self._keep_before: Callable[[FileBefore], None] | None = None
        self.keep_stderr: Callable[[bytes], Path] | None = None
        """Appends lines, already redacted, of a program's standard error to a file beside the log, if the log is stored."""
        self._closed = False
        self._untold: AnyEvent | None = None
        self._watchers = tuple(watchers)
        self._streaming: type[ReplyDelta] | None = None
        """Type of the streaming deltas, if they are searched for keys."""
        self._known = secrets_holder()
        secrets()  # the first search; keys found later are redacted from then on

    @cached_property
    def _stream(self) -> StreamRedactor:
        """Redacts streamed text if any keys are known."""
        return StreamRedactor()

    @property
    def shows_prints(self) -> bool:
        """True if a watcher shows the printed output of tools."""
        return any(getattr(watcher, "shows_prints", False) for watcher in self._watchers)

    def watch(self, watcher: Watcher) -> None:
        """Send events and deltas to this watcher too, from now on."""
        self._watchers = (*self._watchers, watcher)

    def child(self, run_id: str, *, watchers: Iterable[Watcher] = ()) -> EventLog:
        """Return the log of a new nested run, kept in the same store."""
        return EventLog(run_id, parent_id=self.id, watchers=watchers, store=self.store)

    def open(self) -> Awaitable[Writer]:
        """Open the log of this new run in its store. May wait for other runs to end, unless the run is nested."""
        assert self.store is not None, "the log has a store"
        return self.store.open(self.id, nested=self.parent_id is not None)

    def keep_in(self, writer: Writer) -> None:
        """Store every event with this writer from now on."""
        self._writer = writer
        self._keep_before = getattr(writer, "keep_before", None)
        self.keep_stderr = getattr(writer, "keep_stderr", None)

    @property
    def keeps_files(self) -> bool:
        """True if files are backed up before calls change them."""
        return self._keep_before is not None

    def keep_before(self, file: FileBefore) -> None:
        """Back up a file before a call changes it, if the log is stored. Thread-safe.

        Raises `StoreError` on failure; the file must not be changed then.
        """
        if self._closed:
            raise asyncio.CancelledError
        if self._keep_before is not None:
            try:
                self._keep_before(file)
            except OSError as error:
                problem = f"{file.path.name} was not changed: agentnb could not back it up: {error.strerror or error}"
                raise StoreError(problem, ROOM_FOR_COPY) from error
        for reference in [*file_watchers]:
            if (watcher := reference()) is not None:
                watcher(file)

    def totals(self) -> Totals | None:
        """Return the run's totals so far, for the last event of its log, or None if the log's writer does not know the log's
        size.
        """
        size = getattr(self._writer, "size", None)
        if size is None:
            return None
        run = self.run
        usage, inside, nested = run.own_usage, run.counters.spent_inside, run.usage_inside
        return Totals(
            size,
            len(run.rounds),
            usage,
            run.times_recovered,
            run.step_count,
            inside,
            nested,
            run.assessment,
            run.limit.value if run.limit is not None else None,
            has_open(run.todos),
            run.failed_calls,
            run.blocked_calls,
            run.is_plan_rejected,
            run.substitutes,
        )

    def warn_once(self, message: str, advice: Advised = "", topic: Topic = "") -> None:
        """Log a warning, unless the log already has it: a process that died may have written it."""
        warning = (message, as_advice(advice), topic)
        if all((logged.message, logged.advice, logged.topic) != warning for logged in self.run.warned):
            self.warn(*warning)

    def warn(self, message: str, advice: tuple[AnyAdvice, ...] = (), topic: Topic = "") -> None:
        """Log a warning for the person."""
        self.emit(Warned, message=message, advice=advice, topic=topic)

    def begin(self, first: AnyEvent) -> None:
        """Append the first event of this process; from then on the run's content counts as the person's own.

        For a log from elsewhere, this event records whether the person accepted its answers; if not, the fold voids
        them.
        """
        self.run.set_consent(True)
        self.append(first)

    def emit(self, kind: type[AnEvent], **fields: Any) -> AnEvent:
        """Create an event of this kind, and log it with `append`. Events that are frequent in every round are created
        at their call sites.
        """
        return self.append(kind(self.seq, now(UTC), self.id, self.parent_id, **fields))

    def append(self, made: AnEvent) -> AnEvent:
        """Redact, store and fold an event, and send it to the watchers.

        Returns it as logged: redacted, and truncated if the log has no room. If it cannot be stored, the run in
        memory still contains it, nothing more is stored, and `StoreError` is raised once. Watchers get that event
        with the next one, once the log is known to have failed.
        """
        if self._closed:
            # The caller belongs to a run that ended without waiting for it.
            raise asyncio.CancelledError
        event: Any = made
        # A tool may set a variable that holds a key, and print it: search again, but only after a tool.
        texts = secrets() if type(event) is ToolFinished and _could_show_a_key(event) else self._known.texts
        if texts:
            event = redact(event, texts)
        if self._writer is not None:
            event = self._store(event, self._writer)
        self.seq += 1
        self.run.apply(event)
        if self._watchers:
            if self._untold is not None:
                self._tell_untold()
            if self._streaming is not None and type(event) is not ReplyStreamed:  # in the middle of a stream
                self._end_stream()
            self.tell(event)
        return event  # type: ignore[no-any-return]  # of this kind

    def stream(self, delta: Delta) -> None:
        """Send a delta to the watchers, redacted. Text that may be the beginning of a key is held back until more arrives."""
        texts = self._known.texts
        if isinstance(delta, ToolProgress | ToolPrinted):
            delta = redact(delta, texts) if texts else delta
        elif texts:
            kind = type(delta)
            if kind is not self._streaming:
                self._end_stream()
                self._streaming = kind
            text = self._stream.feed(delta.text, texts)
            if text != delta.text:
                if not text:
                    return
                delta = kind(text)
        self.tell(delta)

    def _end_stream(self) -> None:
        """Send the text that was held back, since the stream has ended."""
        kind, self._streaming = self._streaming, None
        if kind is not None and (text := self._stream.rest(self._known.texts)):
            self.tell(kind(text))

    def tell(self, item: AnyEvent | Delta) -> None:
        """Send an item to the watchers, until the log is closed. A watcher that fails is dropped and logged."""
        if self._closed:
            return
        for watcher in self._watchers:
            try:
                watcher(item)
            except KeyboardInterrupt:  # from the person
                raise
            except BaseException:  # also SystemExit, which would end the run without an end in its log
                self._watchers = tuple([kept for kept in self._watchers if kept is not watcher])
                logging.getLogger("agentnb").exception("A watcher of run %s failed and was dropped", self.run.id)

    def close(self) -> None:
        """Close the log and its writer, if any; further events are refused."""
        if self._untold is not None:  # the last event of the run may be the one that could not be stored
            self._tell_untold()
        self._closed = True
        if self._writer is not None:
            self._writer.close()

    def _tell_untold(self) -> None:
        untold, self._untold = self._untold, None
        if untold is not None:
            self.tell(untold)

    def _store(self, event: AnyEvent, writer: Writer) -> AnyEvent:
        """Store the event and return it as stored. On failure, fold it anyway and raise `StoreError`.

        A `RunFinished` that could not be stored is not folded: the run then ends as failed.
        """
        try:
            try:
                writer.append(event)
            except EventTooLarge as error:
                event = cut_event(event, error.most)
                writer.append(event)
        except OSError as error:
            writer.close()
            self._writer = None
            if type(event) is not RunFinished:
                self.seq += 1
                self.run.apply(event)
                self._untold = event
            where, hint = (
                ("", LEFT_ALONE) if error.filename else (f": {getattr(writer, 'path', 'a store of your own')}", FREE_DISK)
            )
            raise StoreError(f"The run log could not be written: {error}{where}", hint, run=self.run) from error
        return event


def _could_show_a_key(event: Any) -> bool:
    """Return whether this `ToolFinished` is long enough to hold a key.

    Searching a short one would take longer than everything else.
    """
    for part in event.result.parts:
        if type(part) is not Text or len(part.text) >= SHORTEST_SECRET:
            return True
    return event.display is not None or event.traceback != "" or event.printed != ""
