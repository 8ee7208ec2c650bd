"""Open questions and pauses: the events that begin and end a wait for the person."""

from __future__ import annotations

from agentnb.core.log.events import AnyEvent, CommandReceived, QuestionAnswered, QuestionAsked, RunFinished, RunRecovered

_PAUSE = ""
"""Placeholder for a pause among the ids of questions."""


class WaitState:
    """The open questions and the pause of a run, updated by its events. Truthy while the run waits for the person."""

    __slots__ = ("_for",)

    def __init__(self) -> None:
        self._for: set[str] = set()

    def take(self, event: AnyEvent) -> None:
        """Apply the next event."""
        if isinstance(event, QuestionAsked):
            self._for.add(event.question.id)
        elif isinstance(event, QuestionAnswered):
            self._for.discard(event.question_id)
        elif isinstance(event, CommandReceived) and event.command == "pause":
            self._for.add(_PAUSE)
        elif isinstance(event, CommandReceived) and event.command in ("resume", "stop"):
            self._for.discard(_PAUSE)
        elif isinstance(event, RunRecovered | RunFinished):
            self._for.clear()  # the waiting process died, or the run ended

    def __bool__(self) -> bool:
        return bool(self._for)
