"""A reply while it streams: everything received, and the part that may be shown."""

from __future__ import annotations

from collections.abc import Callable

from agentnb.core.log.events import ReplyDelta, TextDelta
from agentnb.core.messages import AnyPart, Message, Text, Thinking, encodable
from agentnb.models.model import Unshown
from agentnb.policies.marker_text import MarkerFilter


class StreamBuffer:
    """Forwards the deltas of one reply, dropping marker lines if enabled."""

    __slots__ = ("_filter", "_heard", "_markers", "_tell", "_thoughts", "_unshown")

    def __init__(self, tell: Callable[[ReplyDelta], None], *, markers: bool) -> None:
        self._tell = tell
        self._heard: list[str] = []
        self._thoughts: list[str] = []
        self._unshown = 0
        self._markers = markers
        self._filter: MarkerFilter | None = None

    def take(self, item: ReplyDelta | Unshown) -> None:
        """Take a delta and forward what may already be shown."""
        if isinstance(item, Unshown):
            self._unshown += item.characters
            return
        if not isinstance(item, TextDelta):
            self._thoughts.append(item.text)
            self._tell(item)
            return
        if not self._heard and self._markers:
            self._filter = MarkerFilter()
        self._heard.append(item.text)
        shown = item.text if self._filter is None else self._filter.feed(item.text)
        if shown == item.text:
            self._tell(item)
        elif shown:
            self._tell(TextDelta(shown))

    def all_that_came(self) -> Message | None:
        """Return all that was received as one message, to be estimated; None if there is nothing.

        Only its length is known of what was not shown: other text stands for it.
        """
        thoughts, words = encodable("".join(self._thoughts)), encodable("".join(self._heard))
        parts: tuple[AnyPart, ...] = (Thinking(thoughts),) if thoughts else ()
        parts = (*parts, Text(words)) if words else parts
        parts = (*parts, Text("." * self._unshown)) if self._unshown else parts
        return Message("assistant", parts) if parts else None

    def end(self) -> str:
        """Forward the text held back, and return all text received."""
        if not self._heard:
            return ""
        if self._filter is not None and (rest := self._filter.rest()):
            self._tell(TextDelta(rest))
        return encodable("".join(self._heard))
