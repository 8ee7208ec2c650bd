"""What a model reports about itself: capabilities, and the usage of calls that broke off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import Message
from agentnb.core.request import Request
from agentnb.core.usage import UNKNOWN, Usage, checked


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model object reports from its method ``capabilities()``; without it, these defaults apply."""

    language_model: bool = True
    """Whether it can write a summary."""
    context_window: int | None = None
    """Tokens that a request and its reply may have together; None if unknown."""
    has_price: bool = False
    """Whether its replies report their cost."""


ASSUMED = Capabilities()
NO_LANGUAGE_MODEL = Capabilities(language_model=False, has_price=True)


def used_until_cut(model: Any, request: Request, heard: Message) -> Usage:
    """Return an estimate of what a call used before its reply broke off: providers do not report it, but charge for it.

    The model makes it with its method ``used_until_cut(request, heard)``; unknown if the model has no such method.
    """
    reckon = getattr(model, "used_until_cut", None)
    try:
        usage = checked(reckon(request, heard) if callable(reckon) else None)
    except Exception:  # another error is being raised; do not mask it
        return UNKNOWN
    return usage if usage == UNKNOWN else replace(usage, estimated=True)


def capabilities_of(model: Any) -> Capabilities:
    """Return the capabilities that the model reports, or the defaults."""
    capabilities = getattr(model, "capabilities", None)
    reported = capabilities() if callable(capabilities) else None
    return reported if isinstance(reported, Capabilities) else ASSUMED
