"""Standard output and error of the kernel: what a tool prints goes to its call, everything else to the cell, as before."""

from __future__ import annotations

import os
import sys
from io import TextIOBase
from typing import Any

from agentnb.runtime.questions.elicitation import current_call

NAMES = ("stdout", "stderr")


class CallStream(TextIOBase):
    """A stream in front of another: takes what a tool prints in a call that is shown, and passes everything else on."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        """The stream of the kernel."""
        self._process = os.getpid()

    def write(self, text: str) -> int:
        """Write to the call that this code runs in, or else to the stream."""
        call = current_call.get()
        # A forked process has a copy of the call, of which this one learns nothing.
        if call is None or type(text) is not str or os.getpid() != self._process or not call.printed(text):
            self.stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each of the texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream."""
        self.stream.flush()

    def close(self) -> None:
        """Leave the stream open: it is the kernel's."""

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def isatty(self) -> bool:
        """Return what the stream says."""
        return bool(self.stream.isatty())

    def fileno(self) -> int:
        """Return the file descriptor of the stream, to which other processes write."""
        return int(self.stream.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]  # that of the stream
        """The encoding of the stream."""
        return str(self.stream.encoding)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def install() -> None:
    """Put a `CallStream` in front of both streams, where none is yet."""
    for name in NAMES:
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, CallStream):
            setattr(sys, name, CallStream(stream))


def uninstall() -> None:
    """Put back the kernel's streams."""
    for name in NAMES:
        stream = getattr(sys, name)
        if isinstance(stream, CallStream):
            setattr(sys, name, stream.stream)
