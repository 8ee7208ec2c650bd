"""The tool call in which the current code runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

current_call: ContextVar[Any] = ContextVar("current_call", default=None)
"""The `CallElicitor` of the running tool call, or None: runs that the call starts and awaits ask through it."""
