"""Progress of a running tool: told to watchers while it runs, a few times a second at most, from any thread."""

from __future__ import annotations

import asyncio
import math

from agentnb.core.log.events import Progress, ToolProgress
from agentnb.core.messages import encodable
from agentnb.core.redaction import redact
from agentnb.errors import SettingsError
from agentnb.runtime.calls.throttle import Throttle
from agentnb.runtime.event_log import EventLog

MAX_TEXT = 200
"""Characters kept of what a tool says that it is doing."""


class CallProgress:
    """The progress of one call. Reports may come from any thread, and after the call has ended, when they do nothing."""

    def __init__(self, log: EventLog, call_id: str, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: that of the run, on which the watchers are told."""
        self.last: Progress | None = None
        self._log = log
        self._call_id = call_id
        self._throttle = Throttle(self._tell, loop)

    def report(self, done: float, total: float | None, text: str) -> None:
        """Take a new state. Raises `SettingsError` if it has no finite numbers."""
        progress = Progress(_number("done", done), None if total is None else _number("total", total), _text(text))
        if not self._throttle.is_over:
            self.last = progress
            self._throttle.due()

    def close(self) -> Progress | None:
        """Tell nothing more, and return the last state."""
        self._throttle.close()
        return self.last

    def _tell(self) -> None:
        if self.last is not None:
            self._log.stream(ToolProgress(self._call_id, self.last))


def _number(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f"{name}={value!r} of the progress is not a number", "Write context.progress(3, 10)")
    return number


def _text(text: str) -> str:
    return redact(encodable(str(text)))[:MAX_TEXT]  # in this order: part of a key would not be found
