"""The tool call in which code runs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentnb.runtime.questions.elicitation import CallElicitor

current_call: ContextVar[CallElicitor | None] = ContextVar("current_call", default=None)
"""The tool call that is running: runs that it starts and awaits ask through it."""
