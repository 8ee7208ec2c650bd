"""The person's commands to a running run: put in from any thread, read by the loop."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Literal, NamedTuple, TypeAlias

from agentnb.core.questions import Answer

CommandName: TypeAlias = Literal["stop", "pause", "resume", "suspend", "say", "answer", "withdraw"]

INTERRUPTED = "interrupted"
"""The reason of a stop by an interrupt of the person, or of what ends their kernel."""


class Command(NamedTuple):
    """One command. ``text``: the message, the reason to stop, or the id of a grant to take back; ``answer``: to a question.

    ``now``: an agent of others ends its turn for the message.
    """

    name: CommandName
    text: str = ""
    answer: Answer | None = None
    now: bool = False


class Inbox:
    """Commands on their way to the loop. Putting never blocks."""

    def __init__(self, around: Inbox | None = None) -> None:
        """``around``: that of the run that this one is nested in, whose pauses pause this one too."""
        self.unread: deque[Command] = deque()
        """The commands that the loop has not read."""
        self._wake: Callable[[Command], None] | None = None
        self._early: tuple[Command, ...] = ()
        """Answers put before anybody listened: a run that is resumed may still wait for the person."""
        self._lock = threading.Lock()
        self.stop_requested = False
        self.is_paused = False
        """Whether the last command of its kind was to pause, also if the loop has not read it."""
        self._around = around
        self._nested: frozenset[Inbox] = _NONE
        """Those of the runs nested in this one that are running."""

    def on_put(self, wake: Callable[[Command], None]) -> None:
        """Call ``wake``, in the thread that puts, for each command put from now on."""
        with self._lock:
            self._wake = wake
            early, self._early = self._early, ()
        for command in early:
            wake(command)
        if self._around is not None:
            self._around._add(self)

    def close(self) -> None:
        """Wake nobody any more: the run is over."""
        with self._lock:
            self._wake = _ignore
        if self._around is not None:
            self._around._remove(self)

    def put(self, name: CommandName, text: str = "", answer: Answer | None = None, *, now: bool = False) -> None:
        """Put a command; a stop counts at once, even before the loop reads it.

        An answer is not queued: a tool waits for it in the middle of a round, so ``wake`` gets it at once. Nor is the end of a
        grant, which the next call must know.
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
        """Whether a command or a stop is waiting to be read."""
        return bool(self.unread) or self.stop_requested

    @property
    def has_nested(self) -> bool:
        """True while runs nested in this one are running."""
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
    """Take a command that came after the end of the run."""


current_inbox: ContextVar[Inbox | None] = ContextVar("current_inbox", default=None)
"""The inbox of the run that this code runs in."""
