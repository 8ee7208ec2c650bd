"""Context shifts in results of tools that declare ``shifts_context``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from agentnb.core.messages import visible
from agentnb.tools.tool import ToolOutcome

CONTEXT, ENTITY, REASON = ("new_context", "context_type"), ("entity_id", "entity"), ("message", "reason")
"""Result fields with the new context, the entity and the reason; each may have either of two names."""
INSIDE = "context_shift"
"""Result field that may contain these fields."""
MAX_CHARACTERS = 200
"""Maximum characters of a name or a reason."""
MAX_READ = 10 * MAX_CHARACTERS
"""Maximum characters read from a text in a result, before invisible characters are stripped."""


class ContextShift(NamedTuple):
    """The new scope of a run."""

    context_type: str
    entity: str = ""
    reason: str = ""


def shift_of(outcome: ToolOutcome) -> ContextShift | None:
    """Return the shift in the result of a tool that declares shifts, or None if it has no shift or the call failed."""
    if not outcome.ok:
        return None
    try:
        fields = _data(outcome)
        inner = fields.get(INSIDE)
        fields = inner if isinstance(inner, Mapping) else fields
        context, entity, reason = [_text(fields, names) for names in (CONTEXT, ENTITY, REASON)]
    except Exception:  # anything that a third-party object raises
        return None
    return ContextShift(context, entity, reason) if context else None


def _data(outcome: ToolOutcome) -> Mapping[str, Any]:
    value = outcome.value
    if not isinstance(value, Mapping):
        try:
            value = msgspec.json.decode(outcome.text)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, Mapping) else {}


def _text(data: Mapping[str, Any], names: tuple[str, ...]) -> str:
    values = [data.get(name) for name in names]
    texts = [str(value).strip() for value in values if isinstance(value, str | int) and not isinstance(value, bool)]
    return " ".join(visible(next(filter(None, texts), "")[:MAX_READ]).split())[:MAX_CHARACTERS]
