"""HTTP response bodies with a size limit that also applies to the decompressed bytes."""

from __future__ import annotations

import zlib

COMPRESSED = ("gzip", "x-gzip", "deflate")
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class UnknownEncoding(ValueError):
    """A body uses an unsupported compression."""


class BoundedBody:
    """The beginning of a body, received in chunks."""

    def __init__(self, encoding: str, most: int) -> None:
        """``encoding``: the Content-Encoding header. Raises `UnknownEncoding`."""
        name = encoding.strip().lower()
        if name not in (*COMPRESSED, "identity", ""):
            raise UnknownEncoding(name)
        self._decoder = zlib.decompressobj(_GZIP_OR_ZLIB) if name in COMPRESSED else None
        self._most, self._received, self._kept = most, 0, bytearray()

    def add(self, chunk: bytes) -> bool:
        """Append a chunk. Returns True once the limit is exceeded. Raises `zlib.error` for damaged data."""
        self._received += len(chunk)
        space = self._most + 1 - len(self._kept)
        self._kept += chunk[:space] if self._decoder is None else self._decoder.decompress(chunk, space)
        return self.is_cut

    @property
    def is_cut(self) -> bool:
        """True if the body is larger than the limit."""
        return max(len(self._kept), self._received) > self._most

    @property
    def content(self) -> bytes:
        """The bytes received, up to the limit."""
        return bytes(self._kept[: self._most])
