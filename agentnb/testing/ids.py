"""Ids like the providers', the same each time a server starts, and seals that identify a server's own content."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from typing import Any

LETTERS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_KEY = b"agentnb loopback"
_DIGEST = 24


class Ids:
    """Generates unique ids. Thread-safe."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def letters(self, prefix: str, length: int) -> str:
        """Return an id such as ``toolu_01`` followed by ``length`` letters and digits."""
        number = int.from_bytes(self._bytes(), "big")
        letters = []
        for _ in range(length):
            number, index = divmod(number, len(LETTERS))
            letters.append(LETTERS[index])
        return prefix + "".join(letters)

    def hexadecimal(self, prefix: str) -> str:
        """Return an id such as ``fc_`` followed by 48 hexadecimal digits."""
        return prefix + self._bytes().hex()[:48]

    def _bytes(self) -> bytes:
        # One step of a count is atomic in CPython.
        return hashlib.blake2b(str(next(self._numbers)).encode(), digest_size=32, key=_KEY).digest()


def make_seal(content: Any) -> str:
    """Encode content as text that proves its origin: only servers of this package can make it, and any of them can read it."""
    inner = canonical(content)
    return base64.b64encode(hashlib.blake2b(inner, digest_size=_DIGEST, key=_KEY).digest() + inner).decode()


def open_seal(seal: Any) -> Any:
    """Return the sealed content, or None if the seal is forged or altered."""
    try:
        raw = base64.b64decode(seal, validate=True)
        inner = raw[_DIGEST:]
        if hashlib.blake2b(inner, digest_size=_DIGEST, key=_KEY).digest() != raw[:_DIGEST]:
            return None
        return json.loads(inner)
    except (TypeError, ValueError):
        return None


def canonical(value: Any) -> bytes:
    """Encode as JSON so that equal values have equal encodings."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
