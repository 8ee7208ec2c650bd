"""``%agent models``: the kinds of models, and the model names of a provider."""

from __future__ import annotations

from urllib.parse import parse_qsl

from agentnb import settings
from agentnb.display.texts.labels import clean
from agentnb.errors import UnknownModel, suggest_names
from agentnb.models.options import read_options
from agentnb.models.registry import REMOTE, endpoint_of
from agentnb.models.registry import names as model_names
from agentnb.models.transport.remote import models_of
from agentnb.runtime.threads import LoopThread

SECONDS = "20"
"""Default timeout for requesting a list, in seconds."""


def model_lines() -> list[str]:
    """Return a line for each kind of model."""
    lines = [f"{provider.name}:NAME".ljust(24) + _ready(provider.name, provider.needs_key) for provider in REMOTE.values()]
    hint = "%agent models PROVIDER asks a provider for its names, such as %agent models ollama"
    return [*model_names(), *lines, hint]


def provider_models(line: str) -> list[str]:
    """Return a provider's model names as they are typed, for ``anthropic`` or ``compatible?url=http://localhost:8000/v1``."""
    name, _, query = line.partition("?")
    name = name.rstrip(":")
    if name not in REMOTE:
        raise UnknownModel(f"{name!r} is not a provider that lists its models", suggest_names(name, REMOTE))
    provider, typed = REMOTE[name], parse_qsl(query)
    options = read_options(name, [*typed, *([] if "timeout" in dict(typed) else [("timeout", SECONDS)])], provider.options)
    endpoint = endpoint_of(provider, options, by_person=True)
    thread = LoopThread()
    try:
        names = thread.submit(lambda: models_of(provider, endpoint)).result()
    finally:
        thread.close()
    suffix = f"?{query}" if query else ""
    return [clean(f"{name}:{model}{suffix}") for model in names] or [f"{name}: no models listed"]


def _ready(name: str, needs_key: bool) -> str:
    if needs_key:
        return "has a key" if settings.has_key(name) else f"no key yet: %agent key {name}"
    url = settings.base_url(name) or REMOTE[name].url
    return f"at {url}" if url else "needs ?url=http://... or AGENTNB_COMPATIBLE_URL"
