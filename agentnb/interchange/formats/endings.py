"""The ends of foreign runs, and the recorded fields that are kept in their settings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentnb.core.log import events as e
from agentnb.core.messages import encodable, encodable_data
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter


def fail(writer: RunWriter, kind: str, message: Any, *, at: datetime | None = None, seconds: float | None = None) -> Run:
    """Return a failed run. ``kind``: the class of the error, or a word for it; ``message``: its description."""
    raised = e.RunError(encodable(kind), encodable(str(message or kind)))
    writer.error(raised, "trace", at)
    return writer.finish("failed", "error", at=at, seconds=seconds)


def finish_limited(
    writer: RunWriter, limit: str, value: Any = None, *, at: datetime | None = None, seconds: float | None = None
) -> Run:
    """Return a run that reached a limit. ``limit``: its name, such as ``max_rounds``; ``value``: the limit that was set."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        writer.event(e.LimitReached, limit=limit, value=float(value), at=at)
    return writer.finish("limited", limit, at=at, seconds=seconds)


def recorded_settings(about: Mapping[str, Any], *names: str, **more: Any) -> dict[str, Any]:
    """Return run settings with these recorded fields, omitting empty ones."""
    fields = {name: about[name] for name in names if name in about} | more
    return {"recorded": encodable_data({name: value for name, value in fields.items() if not _is_nothing(value)})}


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list | dict) and not value)
