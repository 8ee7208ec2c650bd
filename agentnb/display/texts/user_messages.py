"""The person's messages to a live run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentnb.core.log.events import AnyEvent, RoundStarted

USER = "User"
"""Author of unsigned messages in a foreign run."""


class UserMessages:
    """The person's messages, by the index of the round during which they arrived. Pass it each event."""

    def __init__(self, events: Iterable[AnyEvent] = (), unnamed: str = "") -> None:
        """``unnamed``: author of unsigned messages, if messages are shown with their authors."""
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
        """Return the messages received during this round; earlier ones belong to the first round."""
        return self._by_round.get(index, ())
