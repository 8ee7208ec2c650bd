"""What a running tool prints: kept up to a bound, from any thread, and logged with the result of its call."""

from __future__ import annotations

import threading

from agentnb.core.messages import encodable
from agentnb.core.redaction import redact

MAX_KEPT = 20_000
"""Characters kept of what one call prints: the last."""
LEFT_OUT = "[{:,} earlier characters were not kept]\n"


class CallPrints:
    """What one call has printed so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pieces: list[str] = []
        self._size = 0
        self._dropped = 0

    def write(self, text: str) -> None:
        """Append a text."""
        with self._lock:
            self._pieces.append(text)
            self._size += len(text)
            if self._size > 4 * MAX_KEPT:  # seldom, so that many short texts cost little
                self._shorten()

    def text(self) -> str:
        """Return the end of what was printed, and how much came before it."""
        with self._lock:
            found, dropped = as_shown("".join(self._pieces)), self._dropped
        found = encodable(found)
        if dropped or len(found) > MAX_KEPT:
            found = redact(found)  # likewise
            dropped += max(len(found) - MAX_KEPT, 0)
            found = LEFT_OUT.format(dropped) + found[-MAX_KEPT:]
        return found

    def _shorten(self) -> None:
        text = as_shown("".join(self._pieces))
        if len(text) > 2 * MAX_KEPT:
            text = redact(text)  # first: part of a key would not be found
            self._dropped += max(len(text) - 2 * MAX_KEPT, 0)
            text = text[-2 * MAX_KEPT :]
        self._pieces = [text]
        self._size = len(self._pieces[0])


def as_shown(text: str) -> str:
    """Return the text as a terminal shows it: of a line that was written again and again, such as a progress bar, the last."""
    if "\r" not in text:
        return text
    *lines, last = text.split("\n")
    # The last line may go on: what follows a carriage return at its end replaces it.
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    kept = last.rstrip("\r")
    return "\n".join([*shown, kept.rpartition("\r")[2] + last[len(kept) :]])
