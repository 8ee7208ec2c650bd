"""The kernel's standard output and error: output from tools goes to their calls, everything else to the cell, as before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from agentnb.runtime.questions.current_call import current_call
from agentnb.tools.builtin.notebook.diverted_stream import DivertedStream

NAMES = ("stdout", "stderr")


class CallStream(DivertedStream):
    """A wrapped stream that captures the output of tools whose calls are shown, and passes everything else on."""

    def __init__(self, stream: Any, note: Callable[[Any, str], None]) -> None:
        """``note`` is called with the text that is passed on."""
        super().__init__(stream, self._take_for_call)
        self._note = note

    def _take_for_call(self, text: str) -> bool:
        call = current_call.get()
        if call is not None and call.note_print(text):
            return True
        self._note(self.stream, text)
        return False


def install(note: Callable[[Any, str], None]) -> None:
    """Wrap both streams in a `CallStream`, unless this has been done. ``note`` is called with what cells write to a stream."""
    for name in NAMES:
        stream = getattr(sys, name)
        if stream is not None and not _is_installed(stream):
            setattr(sys, name, CallStream(stream, note))


def _is_installed(stream: Any) -> bool:
    while isinstance(stream, DivertedStream):
        if isinstance(stream, CallStream):
            return True
        stream = stream.stream
    return False


def uninstall() -> None:
    """Restore the kernel's streams."""
    for name in NAMES:
        stream = getattr(sys, name)
        if isinstance(stream, CallStream):
            setattr(sys, name, stream.stream)
