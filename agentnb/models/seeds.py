"""Seeds: models that sample with a seed, and the same model with another seed."""

from __future__ import annotations

from agentnb.models.model import Model
from agentnb.models.registry import seed_in


def takes_seed(model: str | Model) -> bool:
    """Return whether the model samples with a seed: a persona, a provider's model with the option, or an object that supports
    it.
    """
    return with_seed(model, 0) is not model


def with_seed(model: str | Model, seed: int) -> str | Model:
    """Return the model with this seed, or the same model if it takes no seed.

    ``seed``: a non-negative integer. A custom model takes a seed if its class has a method ``with_seed(seed)``.
    """
    if isinstance(model, str):
        return seed_in(model, seed)
    change = getattr(model, "with_seed", None)
    changed: Model = change(seed) if callable(change) else model
    return changed
