"""Facts that model objects report about themselves: capabilities, and the usage of calls that broke off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import Message
from agentnb.core.request import Request
from agentnb.core.usage import UNKNOWN, Usage, sanitize_usage


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Return value of a model object's method ``capabilities()``; without the method, these defaults apply."""

    language_model: bool = True
    """True if it can write a summary."""
    context_window: int | None = None
    """Maximum tokens of a request and its reply together, or None if unknown."""
    has_price: bool = False
    """True if its replies report their cost."""


ASSUMED = Capabilities()
NO_LANGUAGE_MODEL = Capabilities(language_model=False, has_price=True)


def used_until_cut(model: Any, request: Request, heard: Message) -> Usage:
    """Estimate the usage of a call up to the point where its reply broke off: providers do not report it, but charge for it.

    The model estimates it with its method ``used_until_cut(request, heard)``; without the method, the usage is unknown.
    """
    reckon = getattr(model, "used_until_cut", None)
    try:
        usage = sanitize_usage(reckon(request, heard) if callable(reckon) else None)
    except Exception:  # another error is being raised; do not mask it
        return UNKNOWN
    return usage if usage == UNKNOWN else replace(usage, estimated=True)


def capabilities_of(model: Any) -> Capabilities:
    """Return the capabilities that the model reports, or the defaults."""
    capabilities = getattr(model, "capabilities", None)
    reported = capabilities() if callable(capabilities) else None
    return reported if isinstance(reported, Capabilities) else ASSUMED
