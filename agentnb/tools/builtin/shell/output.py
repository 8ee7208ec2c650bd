"""Output of programs in bounded memory."""

from __future__ import annotations

HEAD_BYTES = TAIL_BYTES = 24_000
"""Bytes that are kept of the beginning and of the end of a stream."""


class BoundedOutput:
    """The beginning and the end of a stream, and the number of bytes between them."""

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        room = HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * TAIL_BYTES:  # seldom, so that bytes are not moved for each line
            self._cut()

    def _cut(self) -> None:
        surplus = max(0, len(self._tail) - TAIL_BYTES)
        self._left_out += surplus
        del self._tail[:surplus]

    @property
    def text(self) -> str:
        """The stream as text. Bytes that are not UTF-8 are replaced."""
        self._cut()
        if not self._left_out:
            return (self._head + self._tail).decode(errors="replace")
        head, tail = _without_cut_end(bytes(self._head)), _without_cut_start(bytes(self._tail))
        left_out = self._left_out + len(self._head) - len(head) + len(self._tail) - len(tail)
        note = f"\n[... {left_out:,} bytes left out ...]\n"
        return head.decode(errors="replace") + note + tail.decode(errors="replace")


def _without_cut_end(data: bytes) -> bytes:
    """Return the bytes without a character that the cut has divided."""
    for back in range(1, min(4, len(data)) + 1):
        if data[-back] >= 0xC0:
            whole = 2 + (data[-back] >= 0xE0) + (data[-back] >= 0xF0)
            return data[:-back] if back < whole else data
        if data[-back] < 0x80:
            break
    return data


def _without_cut_start(data: bytes) -> bytes:
    start = next((place for place, byte in enumerate(data[:4]) if not 0x80 <= byte < 0xC0), 0)
    return data[min(start, 3) :]
