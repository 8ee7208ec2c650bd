"""The person's messages to a live run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentnb.core.log.events import AnyEvent, RoundStarted

USER = "User"
"""The author shown for unsigned messages in a foreign run."""


class UserMessages:
    """The person's messages, by the index of the round in which they arrived. Pass it every event."""

    def __init__(self, events: Iterable[AnyEvent] = (), unnamed: str = "") -> None:
        """``unnamed``: the author shown for unsigned messages, if authors are shown."""
        self._unnamed = unnamed
        self._by_round: dict[int, list[str]] = {}
        self._index = 0
        for event in events:
            self.take(event)

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        if isinstance(event, RoundStarted):
            self._index = event.index
        elif (message := event.user_message) is not None:
            author = message.author or self._unnamed
            self._by_round.setdefault(self._index, []).append(f"{author}: {message.text}" if author else message.text)

    def during(self, index: int) -> Sequence[str]:
        """Return the messages received during this round. Messages from before the first round belong to the first."""
        return self._by_round.get(index, ())
