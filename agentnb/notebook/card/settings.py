"""What the cards of this kernel remember of the person, from one run to the next."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache


@dataclass
class CardSettings:
    """What was switched in one card and holds for the next."""

    details: bool = False
    """Whether rounds show their guidance, and cards their model."""


@cache
def card_settings() -> CardSettings:
    """Return the settings of this kernel's cards."""
    return CardSettings()
