"""Checks that a budget can be enforced: the model's price must be known, and not only from a file."""

from __future__ import annotations

from agentnb.advice import CountAsFree, Plain
from agentnb.agent.agent_settings import AgentSettings
from agentnb.errors import SettingsError
from agentnb.models import prices
from agentnb.models.capabilities import capabilities_of
from agentnb.models.model import Model
from agentnb.models.transport.remote import RemoteModel
from agentnb.runtime.budget import Budget


def check_has_price(model: Model, agent: AgentSettings, budget: Budget, whose: str = "") -> None:
    """Raise `SettingsError` if there is a budget and the model's price is unknown.

    A price or ``unpriced`` that only a file states counts for budgets set by files, but not for the person's.
    ``whose``: the agent to which the model belongs, if there are several.
    """
    if not budget.has_limit():
        return
    is_of_person = budget.has_limit_of_person()
    if agent.unpriced and not (is_of_person and "unpriced" in agent.limits.limits_of_file):
        return
    is_stated = isinstance(model, RemoteModel) and model.is_price_of_file
    if _has_price(model) or (is_stated and not is_of_person):
        return
    in_file = ", with limits: {unpriced: true} of the agent in the file, or" if whose and not is_of_person else ""
    raise SettingsError(
        f"{f'{whose}: the' if whose else 'The'} price of {model.name} is unknown, so a budget cannot be enforced"
        + (": only a file or log states it" if is_stated else ""),
        (
            Plain("State its price: provider:NAME?price=3/15 (US dollars per million tokens in and out, 0 for free)"),
            CountAsFree(lead=f"Or count its calls as free{in_file}"),
        ),
    )


def _has_price(model: Model) -> bool:
    if not (capabilities_of(model).has_price or prices.is_loaded()):
        prices.load()
    return capabilities_of(model).has_price
