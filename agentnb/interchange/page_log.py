"""The log of a run within an HTML page, compressed so that its text cannot become markup. `load_trace` reads it."""

from __future__ import annotations

import base64
import binascii
import io
import re
import zlib
from collections.abc import Iterable

from agentnb.core.log.events import AnyEvent
from agentnb.core.log.wire import encode
from agentnb.errors import TraceError

ELEMENT = "agentnb-log"
_ELEMENT = re.compile(rb'<template id="agentnb-log">([A-Za-z0-9+/=\s]*)</template>')
_MAX_LOG_BYTES = 1_000_000_000
"""Maximum expanded size of a log in a page, in bytes."""


def packed_log(events: Iterable[AnyEvent]) -> str:
    """Return the log as the content of the page's element, compressed and in base64."""
    data = zlib.compress(b"".join(encode(event) for event in events), 9)
    return base64.b64encode(data).decode()


def holds_log(page: bytes) -> bool:
    """Return True if this part of a page shows that the page contains a log."""
    return b'content="agentnb"' in page


def log_lines(page: bytes, source: str) -> list[bytes]:
    """Return the lines of the log in a page. Raises `TraceError` if the log is missing or damaged."""
    match = _ELEMENT.search(page)
    if match is None:
        raise TraceError(f"{source} contains no log of its run", "Load the .jsonl file of the run instead")
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(match[1]), _MAX_LOG_BYTES)
        if unpacker.unconsumed_tail or not unpacker.eof:
            raise TraceError(f"The log in {source} is cut off, or too large to be read")
    except (binascii.Error, zlib.error) as error:
        raise TraceError(f"The log in {source} is damaged: {error}") from error
    return io.BytesIO(data).readlines()
