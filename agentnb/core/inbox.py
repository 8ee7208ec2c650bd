"""What the person wants of a run that is going on: put in from any thread, read by the loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

CommandName: TypeAlias = Literal["stop", "pause", "resume", "say"]


class Command(NamedTuple):
    """One wish. ``text`` is what was said, or why it should stop."""

    name: CommandName
    text: str = ""


class Inbox:
    """Commands on their way to the loop. Putting never blocks."""

    def __init__(self) -> None:
        self._commands: deque[Command] = deque()
        self._wake: Callable[[Command], None] = lambda command: None
        self.stop_requested = False

    def on_put(self, wake: Callable[[Command], None]) -> None:
        """Call ``wake`` (from the thread that puts) for each command put from now on."""
        self._wake = wake

    def put(self, name: CommandName, text: str = "") -> None:
        """Hand over a command; a stop counts at once, even before the loop reads it."""
        command = Command(name, text)
        if name == "stop":
            self.stop_requested = True
        self._commands.append(command)
        self._wake(command)

    @property
    def has_news(self) -> bool:
        """Whether there is anything the loop should know."""
        return bool(self._commands) or self.stop_requested

    def take(self) -> Command | None:
        """The oldest command not yet read, or None."""
        return self._commands.popleft() if self._commands else None
