"""Events of a stream, parsed leniently: with any line endings, a BOM, no blank lines, keep-alives, and errors between
events.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from agentnb.models.provider import DONE
from agentnb.models.transport import response_limit

DONE_MARK = "[DONE]"
"""End mark in the streams of OpenAI's APIs."""
BOM = b"\xef\xbb\xbf"
MAX_BARE = 100_000
"""Maximum number of lines outside events to keep."""


class EventStream:
    """The chunks of a response, as plain data.

    A line of data that is a JSON object is a chunk, whether or not a blank line follows. A broken connection raises its error
    after the last chunk.
    """

    def __init__(self, response: Any) -> None:
        self._response = response
        self._name = ""
        self._data: list[str] = []
        self._bare: list[str] = []
        self._size = 0
        """Bytes since the last event, after decompression."""

    @property
    def bare(self) -> str:
        """Text outside events: an unstreamed reply, a web page, or an error message."""
        return "\n".join(self._bare).strip()

    async def chunks(self) -> AsyncGenerator[Any]:
        """Yield the chunks, and `DONE` for the end mark."""
        begun: list[bytes] = []
        broken: Exception | None = None
        is_first = True
        try:
            async for data in self._response.aiter_bytes():
                begun.append(data)
                self._count(data)
                if b"\n" not in data and b"\r" not in data:
                    continue
                lines = b"".join(begun).splitlines(keepends=True)
                begun = [] if lines[-1].endswith(b"\n") else [lines.pop()]
                for line in lines:
                    for chunk in self._read(line.removeprefix(BOM) if is_first else line):
                        yield chunk
                    is_first = False
        except Exception as error:
            broken = error
        try:
            for line in (b"".join(begun).removeprefix(BOM), b""):
                for chunk in self._read(line):
                    yield chunk
        except ValueError as error:
            broken = broken or error  # half a line did not cause the failure
        if broken is not None:
            raise broken

    def _count(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > response_limit.MAX_PIECE:
            raise response_limit.TooMuch

    def _read(self, line: bytes) -> Iterator[Any]:
        """Yield the chunks that end with this line."""
        line = line.rstrip(b"\r\n")
        field, _, value = line.partition(b":")
        if field == b"data":
            text = value.removeprefix(b" ").decode()
            self._data.append(text)
            if len(self._data) == 1 and (text[-1:] == "}" or text == DONE_MARK):
                yield from self._end(whole=False)
        elif not line:
            yield from self._end()
        elif field == b"event":
            self._name = value.decode(errors="replace").strip()
        elif field not in (b"", b"id", b"retry") and len(self._bare) < MAX_BARE:
            self._bare.append(line.decode(errors="replace"))

    def _end(self, *, whole: bool = True) -> Iterator[Any]:
        """Yield the chunks of the event, if it is ``whole`` or can be parsed."""
        text, name = "\n".join(self._data).strip(), self._name
        try:
            chunk = DONE if text.strip('"') == DONE_MARK else json.loads(text) if text else None
        except ValueError:
            if not whole:
                return
            if name in ("", "message") or text[:1] in "{[":
                raise
            chunk = text if name == "error" else None  # else a keep-alive
        self._data, self._name, self._size = [], "", 0
        if name == "error" and not (isinstance(chunk, dict) and (chunk.get("error") or chunk.get("type") == name)):
            chunk = {"type": name, "error": chunk}
        yield from chunk if isinstance(chunk, list) else () if chunk is None else (chunk,)
