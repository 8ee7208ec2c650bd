"""The person's commands to a run: sent from any thread, read by the loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Literal, NamedTuple, TypeAlias

from agentnb.core.questions import Answer

CommandName: TypeAlias = Literal["stop", "pause", "resume", "suspend", "say", "answer", "withdraw"]

INTERRUPTED = "interrupted"
"""Stop reason for a keyboard interrupt or the end of the kernel."""


class Command(NamedTuple):
    """A command to a run. ``text``: the message, the reason to stop, or the id of a withdrawn grant; ``answer``: the answer to
    a question.

    ``now``: have an external agent end its turn to read the message.
    """

    name: CommandName
    text: str = ""
    answer: Answer | None = None
    now: bool = False


class Inbox:
    """Holds commands on their way to the loop. Sending never blocks."""

    def __init__(self, around: Inbox | None = None) -> None:
        """``around``: the inbox of the parent run, whose pauses pause this run as well."""
        self.unread: deque[Command] = deque()
        """The commands not yet read by the loop."""
        self._wake: Callable[[Command], None] | None = None
        self._early: tuple[Command, ...] = ()
        """Answers sent before the loop starts listening, since a resumed run may still be waiting for the person."""
        self._lock = threading.Lock()
        self.stop_requested = False
        self.is_paused = False
        """True if the latest pause or resume command was a pause, even if the loop has not read it yet."""
        self._around = around
        self._nested: frozenset[Inbox] = _NONE
        """Inboxes of running nested runs."""

    def on_put(self, wake: Callable[[Command], None]) -> None:
        """From now on, call ``wake`` for each command, in the sending thread."""
        with self._lock:
            self._wake = wake
            early, self._early = self._early, ()
        for command in early:
            wake(command)
        if self._around is not None:
            self._around._add(self)

    def close(self) -> None:
        """Stop waking the loop: the run is over."""
        with self._lock:
            self._wake = _ignore
        if self._around is not None:
            self._around._remove(self)

    def put(self, name: CommandName, text: str = "", answer: Answer | None = None, *, now: bool = False) -> None:
        """Send a command. A stop takes effect immediately, even before the loop reads it.

        Answers and withdrawn grants are not queued but passed to ``wake`` directly: a tool waits for the answer in the middle
        of a round, and the next call must know about the grant.
        """
        command = Command(name, text, answer, now)
        if name == "stop":
            self.stop_requested = True
        if answer is None and name != "withdraw":
            self.unread.append(command)
        with self._lock:
            wake = self._wake
            if wake is None and answer is not None:
                self._early = (*self._early, command)
        if wake is not None:
            wake(command)
        if name in ("pause", "resume"):
            self.is_paused = name == "pause"
            for nested in self._nested:
                nested.put(name)

    @property
    def has_news(self) -> bool:
        """True if a command or a stop is waiting to be read."""
        return bool(self.unread) or self.stop_requested

    @property
    def has_nested(self) -> bool:
        """True while nested runs are running."""
        return bool(self._nested)

    def take(self) -> Command | None:
        """Remove and return the oldest unread command, or None."""
        return self.unread.popleft() if self.unread else None

    def _add(self, nested: Inbox) -> None:
        with self._lock:
            self._nested |= {nested}
        if self.is_paused:
            nested.put("pause")

    def _remove(self, nested: Inbox) -> None:
        with self._lock:
            self._nested -= {nested}


_NONE: frozenset[Inbox] = frozenset()


def _ignore(command: Command) -> None:
    """Ignore a command sent after the end of the run."""


current_inbox: ContextVar[Inbox | None] = ContextVar("current_inbox", default=None)
"""The inbox of the current run."""
