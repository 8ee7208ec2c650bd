"""Event loops of plain tools on a thread whose event loop runs, such as that of a cell."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

REFUSING = {asyncio.run.__code__, asyncio.Runner.run.__code__, asyncio.BaseEventLoop._check_running.__code__}  # type: ignore[attr-defined]
"""Functions that raise `RuntimeError` where an event loop runs."""
INSTALL = 'A tool of a cell can run an event loop after: pip install "agentnb[nest]"'


def call_nested(function: Callable[[], T]) -> T:
    """Call a plain function, which may run an event loop inside the running one if the extra ``nest`` is installed."""
    with suppress(ImportError, RuntimeError, ValueError):  # no extra, no loop runs here, or a loop that it cannot nest
        asyncio.get_running_loop()
        import nest_asyncio  # type: ignore[import-not-found,import-untyped,unused-ignore]

        nest_asyncio.apply()
    try:
        return function()
    except RuntimeError as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        if frame.f_code in REFUSING:
            error.add_note(INSTALL)
        raise
