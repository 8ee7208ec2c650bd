"""Tracks open questions and pauses: which events begin a wait for the person, and which end it."""

from __future__ import annotations

from agentnb.core.log.events import AnyEvent, CommandReceived, QuestionAnswered, QuestionAsked, RunFinished, RunRecovered

_PAUSE = ""
"""Stands for a pause among the ids of questions."""


class WaitState:
    """The open questions and the pause of a run, fed with each of its events. True while the run waits for the person."""

    __slots__ = ("_for",)

    def __init__(self) -> None:
        self._for: set[str] = set()

    def take(self, event: AnyEvent) -> None:
        """Take in the next event."""
        if isinstance(event, QuestionAsked):
            self._for.add(event.question.id)
        elif isinstance(event, QuestionAnswered):
            self._for.discard(event.question_id)
        elif isinstance(event, CommandReceived) and event.command == "pause":
            self._for.add(_PAUSE)
        elif isinstance(event, CommandReceived) and event.command in ("resume", "stop"):
            self._for.discard(_PAUSE)
        elif isinstance(event, RunRecovered | RunFinished):
            self._for.clear()  # what was waiting has died, or has ended

    def __bool__(self) -> bool:
        return bool(self._for)
