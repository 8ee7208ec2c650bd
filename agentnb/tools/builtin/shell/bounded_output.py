"""Program output with a memory limit."""

from __future__ import annotations

from typing import NamedTuple


class Bounds(NamedTuple):
    """Number of bytes kept from the beginning and from the end of a stream."""

    head: int
    tail: int = 0


USUAL = Bounds(24_000, 24_000)


class BoundedOutput:
    """Beginning and end of a stream, and the number of bytes omitted between them."""

    def __init__(self, bounds: Bounds = USUAL) -> None:
        self._bounds = bounds
        self.head = bytearray()
        self._rest = bytearray()
        self._size = 0

    def add(self, data: bytes) -> None:
        """Append the next bytes."""
        self._size += len(data)
        room = self._bounds.head - len(self.head)
        self.head += data[:room]
        self._rest += data[room:]
        if len(self._rest) > 2 * self._bounds.tail + 100_000:  # rarely, so that not every line moves bytes
            self._cut()

    def _cut(self) -> None:
        del self._rest[: max(len(self._rest) - self._bounds.tail, 0)]

    @property
    def tail(self) -> bytes:
        """End of the stream, without bytes already in ``head``."""
        self._cut()
        return bytes(self._rest)

    @property
    def omitted_bytes(self) -> int:
        """Number of bytes between ``head`` and ``tail``."""
        return self._size - len(self.head) - len(self.tail)

    @property
    def end(self) -> str:
        """The tail as text, without a character split by the cut."""
        return _without_cut_start(self.tail).decode(errors="replace")

    @property
    def text(self) -> str:
        """The stream as text. Invalid UTF-8 is replaced."""
        if not self.omitted_bytes:
            return (self.head + self.tail).decode(errors="replace")
        head, tail = _without_cut_end(bytes(self.head)), _without_cut_start(self.tail)
        note = f"\n[... {self._size - len(head) - len(tail):,} bytes left out ...]\n"
        return head.decode(errors="replace") + note + tail.decode(errors="replace")


def _without_cut_end(data: bytes) -> bytes:
    """Remove a character that the cut has split."""
    for back in range(1, min(4, len(data)) + 1):
        if data[-back] >= 0xC0:
            whole = 2 + (data[-back] >= 0xE0) + (data[-back] >= 0xF0)
            return data[:-back] if back < whole else data
        if data[-back] < 0x80:
            break
    return data


def _without_cut_start(data: bytes) -> bytes:
    start = next((position for position, byte in enumerate(data[:4]) if not 0x80 <= byte < 0xC0), 0)
    return data[min(start, 3) :]
