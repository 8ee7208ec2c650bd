"""What of the person a run is waiting for: which events begin that, and which end it."""

from __future__ import annotations

from agentnb.core.events import (
    AnyEvent,
    CommandReceived,
    QuestionAnswered,
    QuestionAsked,
    RunFinished,
    RunRecovered,
)

_PAUSE = ""
"""Among the ids of questions, the end of a pause."""


class WaitState:
    """Give it each event of a run. It counts as true while the person is waited for."""

    __slots__ = ("_for",)

    def __init__(self) -> None:
        self._for: set[str] = set()

    def take(self, event: AnyEvent) -> None:
        """Take in what has happened."""
        if isinstance(event, QuestionAsked):
            self._for.add(event.question.id)
        elif isinstance(event, QuestionAnswered):
            self._for.discard(event.question_id)
        elif isinstance(event, CommandReceived) and event.command == "pause":
            self._for.add(_PAUSE)
        elif isinstance(event, CommandReceived) and event.command in ("resume", "stop"):
            self._for.discard(_PAUSE)
        elif isinstance(event, RunRecovered | RunFinished):
            self._for.clear()  # whoever waited has died, or is gone

    def __bool__(self) -> bool:
        return bool(self._for)
