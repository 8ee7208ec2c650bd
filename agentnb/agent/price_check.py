"""Whether a budget can be enforced: only for a model whose price is known."""

from __future__ import annotations

from agentnb.errors import SettingsError
from agentnb.models import prices
from agentnb.models.capabilities import capabilities_of
from agentnb.models.model import Model


def check_has_price(model: Model, whose: str = "") -> None:
    """Raise `SettingsError` if what the model costs is not known. ``whose``: the agent it is the model of, among several."""
    if not _has_price(model):
        raise SettingsError(
            f"{f'{whose}: what' if whose else 'What'} {model.name} costs is not known, so a budget cannot be enforced",
            "State its price: -m NAME?price=3/15 (US dollars for a million tokens in and out, 0 for nothing); "
            "or let its calls count as nothing: --unpriced, Agent(unpriced=True)"
            + (", or limits: {unpriced: true} of the agent in the file" if whose else ""),
        )


def _has_price(model: Model) -> bool:
    if not (capabilities_of(model).has_price or prices.loaded()):
        prices.load()
    return capabilities_of(model).has_price
