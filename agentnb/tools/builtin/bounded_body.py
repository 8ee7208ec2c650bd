"""The body of an answer over HTTP, of which no more than a limit is ever in memory, compressed or not."""

from __future__ import annotations

import zlib

COMPRESSED = ("gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class UnknownEncoding(ValueError):
    """The body is compressed in a way that is not known."""


class BoundedBody:
    """The beginning of a body, chunk by chunk."""

    def __init__(self, encoding: str, most: int) -> None:
        """``encoding``: the header Content-Encoding. Raises `UnknownEncoding`."""
        name = encoding.strip().lower()
        if name not in (*COMPRESSED, "identity", ""):
            raise UnknownEncoding(name)
        self._decoder = zlib.decompressobj(_GZIP_OR_ZLIB) if name in COMPRESSED else None
        self._most, self._received, self._kept = most, 0, bytearray()

    def add(self, chunk: bytes) -> bool:
        """Keep a chunk; return whether there is more than the limit. Raises `zlib.error` if it is damaged."""
        self._received += len(chunk)
        space = self._most + 1 - len(self._kept)
        self._kept += chunk[:space] if self._decoder is None else self._decoder.decompress(chunk, space)
        return self.is_cut

    @property
    def is_cut(self) -> bool:
        """Whether there is more than the limit."""
        return max(len(self._kept), self._received) > self._most

    @property
    def content(self) -> bytes:
        """What was kept."""
        return bytes(self._kept[: self._most])
