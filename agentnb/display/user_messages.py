"""What the person said to a run that goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentnb.core.events import AnyEvent, CommandReceived, RoundStarted


class UserMessages:
    """What the person said, by the index of the round in whose course it was heard. Give it each event."""

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        self._by_round: dict[int, list[str]] = {}
        self._index = 0
        for event in events:
            self.take(event)

    def take(self, event: AnyEvent) -> None:
        """Take in what has happened."""
        if isinstance(event, RoundStarted):
            self._index = event.index
        elif isinstance(event, CommandReceived) and event.command == "say":
            self._by_round.setdefault(self._index, []).append(event.text)

    def during(self, index: int) -> Sequence[str]:
        """What was said in the course of this round; what was said before the first belongs to it."""
        return self._by_round.get(index, ())
