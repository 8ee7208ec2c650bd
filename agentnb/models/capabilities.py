"""What is known of a model besides its replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import Message
from agentnb.core.request import Request
from agentnb.core.usage import UNKNOWN, Usage, checked


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a model object reports from its method ``capabilities()``; these defaults are assumed without it."""

    language_model: bool = True
    """Whether it can be asked to write a summary."""
    context_window: int | None = None
    """Tokens that a request and its reply may have together; None if nobody knows."""
    has_price: bool = False
    """Whether its replies will say what they cost."""


ASSUMED = Capabilities()
NO_LANGUAGE_MODEL = Capabilities(language_model=False, has_price=True)


def used_until_cut(model: Any, request: Request, heard: Message) -> Usage:
    """About what a call used whose reply broke off, as the model reckons with its method ``used_until_cut(request, heard)``:
    no provider says that of such a call, and asks to be paid all the same. Unknown if the model has no such method.
    """
    reckon = getattr(model, "used_until_cut", None)
    try:
        found = checked(reckon(request, heard) if callable(reckon) else None)
    except Exception:  # it is asked while another error is on its way
        return UNKNOWN
    return found if found == UNKNOWN else replace(found, estimated=True)


def capabilities_of(model: Any) -> Capabilities:
    """What the model says of itself."""
    capabilities = getattr(model, "capabilities", None) or getattr(model, "traits", None)
    found = capabilities() if callable(capabilities) else None
    return found if isinstance(found, Capabilities) else ASSUMED
