"""From a name, ``provider:model?option=value``, to a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from agentnb import settings
from agentnb.errors import MissingKey, NotAvailable, UnknownModel, near
from agentnb.models.model import Model
from agentnb.models.personas import PERSONAS, read_options
from agentnb.models.simulated import SimulatedModel

DEFAULT = "simulated:disciplined"
"""What answers when there is neither a model nor a key."""


def _simulated(persona: str, options: dict[str, str]) -> Model:
    numbers: dict[str, Any] = read_options(persona, options)
    return SimulatedModel(persona, **numbers)


def _needs_object(kind: str) -> Callable[[str, dict[str, str]], Model]:
    def make(name: str, options: dict[str, str]) -> Model:
        raise UnknownModel(
            f"{kind}:{name} is not made from its name",
            "Make the object in Python, put it in a variable of the notebook and give that: -m NAME",
        )

    return make


def _later(provider: str) -> Callable[[str, dict[str, str]], Model]:
    def make(name: str, options: dict[str, str]) -> Model:
        variable = settings.KEY_VARIABLES.get(provider)
        if variable and not settings.has_key(provider):
            raise MissingKey(
                f"No key for {provider}: models ({variable} is not set), and this version of agentnb has no real models yet",
                f"Until the next one use -m {DEFAULT}",
            )
        raise NotAvailable(
            f"{provider}: models are not in this version of agentnb yet", f"Use -m {DEFAULT}, or a model object of your own"
        )

    return make


LATER_PROVIDERS = ("anthropic", "openai", "openai-responses", "ollama", "compatible", "recorded")
"""Providers that the documentation promises for a later version."""

PROVIDERS: dict[str, Callable[[str, dict[str, str]], Model]] = {
    "simulated": _simulated,
    "scripted": _needs_object("scripted"),
    **{provider: _later(provider) for provider in LATER_PROVIDERS},
}
"""How to make a model of each provider from the rest of its name and its options."""


def names() -> list[str]:
    """The names that can be completed."""
    return [f"simulated:{persona}" for persona in PERSONAS]


def check_model(model: object) -> None:
    """Raise `UnknownModel` unless this is a model or could be the name of one."""
    if isinstance(model, str):
        make_model(model)
    elif not is_model(model):
        raise UnknownModel(f"{model!r} is no model", f"A model is a name such as {DEFAULT} or an object with name and stream")


def make_model(model: str | Model) -> Model:
    """The model of this name; a model object is handed back as it is.

    Raises `UnknownModel`, with the names most like it, `MissingKey` or `NotAvailable`.
    """
    if not isinstance(model, str):
        return model
    provider, colon, rest = model.partition(":")
    if provider not in PROVIDERS:
        known = [DEFAULT, *(f"{other}:" for other in PROVIDERS), *names()[1:]]
        raise UnknownModel(f"There is no model {model!r}", f"{near(model, known)} Write provider:NAME")
    if not colon or not rest:
        raise UnknownModel(f"{model!r} names no model", f"Write {provider}:NAME")
    name, _, query = rest.partition("?")
    return PROVIDERS[provider](name, dict(parse_qsl(query, keep_blank_values=True)))


def is_model(value: object) -> bool:
    """Whether this is a model object: one with a name and a stream, and not a class or a table that happens to have such."""
    return (
        not inspect.isclass(value)
        and callable(getattr(value, "stream", None))
        and isinstance(getattr(value, "name", None), str)
    )
