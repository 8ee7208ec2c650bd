"""Models by name: ``provider:model?option=value``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

from agentnb import settings
from agentnb.advice import Advised, Plain, SetKey, SetModel, ShowModels
from agentnb.core.key_shapes import mask_shapes
from agentnb.core.request import Request
from agentnb.errors import MissingKey, SettingsError, UnknownModel, suggest_similar
from agentnb.models.destinations import chosen_destination
from agentnb.models.destinations.destination import FileModelName, is_local
from agentnb.models.model import Model
from agentnb.models.options import PLAIN, Options, check_url, read_options
from agentnb.models.provider import Provider
from agentnb.models.providers import anthropic, openai, openai_responses
from agentnb.models.recorded_model import RecordedModel
from agentnb.models.simulated.personas import PERSONAS, options_of
from agentnb.models.simulated.personas import read_options as read_persona_options
from agentnb.models.simulated.simulated_model import SimulatedModel
from agentnb.models.transport.connections import Endpoint
from agentnb.models.transport.remote import RemoteModel

DEFAULT = "simulated:disciplined"
"""Model used if neither a model nor a key is set."""

Given: TypeAlias = Sequence[tuple[str, str]]
"""Options after ``?``, in order."""

_OF_OTHER_WIRES = {provider.name: provider for provider in (anthropic.PROVIDER, openai_responses.PROVIDER)}
REMOTE: dict[str, Provider] = {name: (_OF_OTHER_WIRES | openai.PROVIDERS)[name] for name in settings.SERVERS}
"""Providers of language models."""


def _make_simulated(persona: str, given: Given) -> Model:
    numbers: dict[str, Any] = read_persona_options(persona, dict(given))
    return SimulatedModel(persona, **numbers)


def _refuse_scripted(name: str, given: Given) -> Model:
    raise UnknownModel(
        f"scripted:{name} cannot be created from its name",
        SetModel(again=True, lead="Create the model in Python and pass the object"),
    )


def _make_recorded(name: str, given: Given) -> Model:
    path = Path(name).expanduser()
    if not has_magic(name) and not path.exists():
        raise SettingsError(f"recorded:{name}: there is no file or folder {path}", "Name a run log or a folder of run logs")
    return RecordedModel(name)


RECORDED = "recorded:"
SEED = "seed"
"""Option of models that sample with a seed."""
OTHERS: dict[str, Callable[[str, Given], Model]] = {
    "simulated": _make_simulated,
    "scripted": _refuse_scripted,
    "recorded": _make_recorded,
}
"""Functions that create models other than language models from the rest of the name and the options."""
PLAIN_URL = re.compile(r"https?://[\w.:/-]{1,200}")
OPTIONS_FORM = "Options follow a ? and are separated by &: provider:NAME?effort=high&max_tokens=8000"
PROVIDERS = ("simulated", "scripted", *REMOTE, "recorded")
"""All prefixes that a name may have."""


def endpoint_of(provider: Provider, options: Options, *, by_person: bool = False) -> Endpoint:
    """Return the address and the key of the provider's calls. Raises `MissingKey` if a required key is missing.

    ``by_person``: the person named the model, and so chose its address and its key; both are allowed from then on. Options from
    elsewhere choose neither: unless the person allowed the destination, raises `UrlNotAllowed` before looking for a key. A
    server on this machine may be called without permission, but gets no key.
    """
    url = chosen_destination.url_of_calls(provider, options)
    if url is not None:
        check_url(url)  # it may come from the environment
        url = url.rstrip("/").removesuffix(provider.path)  # servers' documentation often includes it
    if url is None and provider.own_url is None:
        name, variable = provider.name, settings.URL_VARIABLES[provider.name]
        raise SettingsError(
            f"{name}: the server URL is missing", f"Write {name}:NAME?url=http://localhost:8000/v1, or set {variable}"
        )
    key_name = options.key or settings.KEY_VARIABLES.get(provider.name, "")
    if by_person:
        chosen_destination.allow_chosen(provider, options)
    elif chosen_destination.find_missing(provider, options) is not None:
        chosen_destination.check([(provider, options)])
        key_name = ""  # it is a server on this machine
    key = settings.find_key(key_name) if key_name else None
    if key is None and (options.key or (provider.needs_key and not is_local(url))):
        raise MissingKey(
            f"No key for {provider.name}: {key_name} is not set",
            SetKey(key_name, lead="Enter it"),
        )
    return Endpoint(provider.name, url, key, key_name, options.timeout, by_person)


def check_destinations(models: Iterable[object]) -> None:
    """Raise `UrlNotAllowed`, with all missing destinations, if models named by a file or log need any that are not allowed.

    Raises `SettingsError` for recorded runs that they may not name.
    """
    of_files = [model for model in models if isinstance(model, FileModelName)]
    for model in of_files:
        _check_recorded(model)
    chosen_destination.check(filter(None, map(_parts, of_files)))


def person_chose_destination(model: object) -> bool:
    """Return whether the person named the model and thereby its address, its key, its price, or recorded runs."""
    if not isinstance(model, str) or not _is_by_person(model):
        return False
    if model.startswith(RECORDED):
        return True
    parts = _parts(model) if "?" in model else None
    return parts is not None and any(option is not None for option in (parts[1].url, parts[1].key, parts[1].price))


def is_usual_or_allowed(model: str) -> bool:
    """Return whether a file may name this model, because its address and its key are the usual ones or are allowed."""
    try:
        parts = _parts(model)
        return parts is None or chosen_destination.find_missing(*parts) is None
    except SettingsError:  # not a name, or an ambiguous address
        return False


def _parts(model: str) -> tuple[Provider, Options] | None:
    """Return the provider and the options in this name, or None for other kinds of models."""
    provider, name, query_options = _split_name(model)
    return (REMOTE[provider], _options(provider, name, query_options)) if provider in REMOTE else None


def names() -> list[str]:
    """Return names for completion."""
    return [f"simulated:{persona}" for persona in PERSONAS]


def check_model(model: object) -> None:
    """Raise `UnknownModel` unless this is a model or a valid name of one. Needs no key."""
    if isinstance(model, str):
        provider, name, query_options = _split_name(model)
        if provider in REMOTE:
            _options(provider, name, query_options)
        else:
            OTHERS[provider](name, query_options)
    elif not is_model(model):
        hint = f"{why_no_model(model)} Or use a name such as {DEFAULT}"
        raise UnknownModel(f"{model!r} is not a model", hint)


def check_key(model: str) -> None:
    """Raise `MissingKey` if the model with this name needs a key that is not set."""
    provider, name, query_options = _split_name(model)
    if provider in REMOTE:
        endpoint_of(REMOTE[provider], _options(provider, name, query_options), by_person=_is_by_person(model))


def may_read_key(model: str | Model) -> bool:
    """Return whether creating the model may read a key from the system's keyring, as for the name of a provider's model."""
    return isinstance(model, str) and model.partition(":")[0] in REMOTE


def can_be_made(model: str) -> bool:
    """Return whether a model can be created from this name alone."""
    try:
        check_model(model)
    except SettingsError:
        return False
    return True


def make_model(model: str | Model, *, output_schema: dict[str, Any] | None = None) -> Model:
    """Return the model with this name; a model object is returned unchanged.

    ``output_schema``: JSON Schema (an object) for the replies of a provider's model: the text of each text-only reply is then
    JSON of that form, to the extent that the provider enforces it. A `FileModelName` chooses neither address nor key by itself.
    Raises `UnknownModel`, with the most similar names, `MissingKey` or another `SettingsError`.
    """
    if not isinstance(model, str):
        if output_schema is not None:
            raise SettingsError(
                "output_schema needs a model name, not a model object",
                "Use provider:NAME, or Agent(output=SCHEMA)",
            )
        return model
    if output_schema is not None and not isinstance(output_schema, dict):
        raise SettingsError(
            "output_schema must be a JSON Schema as a dict", "For a pydantic model: output_schema=Model.model_json_schema()"
        )
    provider, name, query_options = _split_name(model)
    if provider in REMOTE:
        options = replace(_options(provider, name, query_options), output_schema=output_schema)
        endpoint = endpoint_of(REMOTE[provider], options, by_person=_is_by_person(model))
        return RemoteModel(REMOTE[provider], name, options, endpoint)
    if output_schema is not None:
        raise SettingsError(f"{provider}: models do not support output_schema", "Agent(output=SCHEMA) works with every model")
    _check_recorded(model)
    return OTHERS[provider](name, query_options)


def seed_in(model: str, seed: int) -> str:
    """Return the name with this seed in place of any other, or the unchanged name if its models take no seed. A
    `FileModelName` stays one.
    """
    provider, name, query_options = _split_name(model)
    options = REMOTE[provider].options if provider in REMOTE else options_of(name) if provider == "simulated" else ()
    if SEED not in options:
        return model
    others = [(key, value) for key, value in query_options if key != SEED]
    query = urlencode([*others, (SEED, str(seed))], safe=PLAIN)
    changed = f"{provider}:{name}?{query}"
    return FileModelName(changed, model.folder) if isinstance(model, FileModelName) else changed


def wire_form(model: str | Model, request: Request) -> bytes | None:
    """Return the JSON that would be sent for this request, or None if the model is not a provider's. Needs no key."""
    if isinstance(model, RemoteModel):
        return model.body(request)
    provider, name, query_options = _split_name(model) if isinstance(model, str) else ("", "", ())
    if provider not in REMOTE:
        return None
    options = _options(provider, name, query_options)
    url = chosen_destination.url_of_calls(REMOTE[provider], options)
    return RemoteModel(REMOTE[provider], name, options, Endpoint(provider, url, None)).body(request)


def _options(provider: str, name: str, given: Given) -> Options:
    options = read_options(f"{provider}:{name}", given, REMOTE[provider].options)
    if options.key is not None:
        settings.expect_key(options.key)
    budget = int(options.thinking) if options.thinking is not None and options.thinking.isdecimal() else 0
    if budget and not REMOTE[provider].thinks_by_budget:
        raise SettingsError(f"{provider}: models do not accept a token budget for thinking", "Use effort=high or effort=low")
    most = settings.max_tokens()
    if options.max_tokens is None and most is not None:
        # The thinking budget is added, as without the variable: the API refuses a limit below it.
        options = replace(options, max_tokens=most + budget)
    return options


def _check_recorded(model: str) -> None:
    """Raise `SettingsError` if a file names recorded runs outside its own folder."""
    if isinstance(model, FileModelName) and model.startswith(RECORDED):
        chosen_destination.check_recorded(_split_name(model)[1], model.folder)


def _is_by_person(model: str) -> bool:
    """Return whether the person named the model, in a cell, on a command line or in Python."""
    return not isinstance(model, FileModelName)


def _split_name(model: str) -> tuple[str, str, Given]:
    """Split a name into provider, model and options. Raises `UnknownModel`, with the most similar names, for an invalid one."""
    called, _, query = model.partition("?")
    provider, colon, name = called.partition(":")
    if mask_shapes(called) != called:
        raise UnknownModel(
            "That looks like an API key, not a model name", SetKey("NAME", lead="Delete it from the cell and enter it with")
        )
    if refused := settings.REFUSED_SERVERS.get(provider):
        raise UnknownModel(f"{provider} cannot be used: {refused['refused']}", refused["instead"])
    if provider == "acp":
        how = 'Name it with --acp NAME in a cell, with Agent(acp="NAME") in Python'
        raise UnknownModel(f"{called!r} is an external agent, not a model", how)
    if provider not in PROVIDERS:
        raise UnknownModel(f"There is no model {called!r}", _how_to_name(called, provider))
    if not colon or not name:
        raise UnknownModel(f"{called!r} is not a complete model name", f"Write {provider}:NAME{_url_of(query)}")
    if not name.isprintable():
        raise UnknownModel(f"{called!r} is not a valid model name", "A model name is a single line without control characters")
    if "&" in name or "=" in name or "?" in query:
        raise UnknownModel(f"Invalid options for {provider}:{re.split('[&=]', name)[0]}", OPTIONS_FORM)
    return provider, name, parse_qsl(query, keep_blank_values=True)


def _url_of(query: str) -> str:
    """Return the URL among the options, as written; the rest may be a key, and is not repeated."""
    url = dict(parse_qsl(query)).get("url", "")
    return f"?url={url}" if PLAIN_URL.fullmatch(url) else ""


def _how_to_name(called: str, provider: str) -> Advised:
    if provider in ("http", "https"):
        return f"Write compatible:NAME?url={called}"
    head, slash, name = called.partition("/")
    if slash and head in settings.SERVER_ALIASES:
        return f"Write {settings.SERVER_ALIASES[head]}:{name}"
    if called[:1] in "\"'":
        return "Remove the quotation marks, or name the variable that holds the model"
    begun = [
        (start, name)
        for name, row in settings.SERVERS.items()
        for start in row.get("families", ())
        if called.lower().startswith(start)
    ]
    _, family = max(begun, default=("", ""))  # the longest match
    if family and (":" not in called or not REMOTE[family].needs_key):  # whose names may have a tag
        return f"Add the provider: {family}:{called}"
    if ":" in called and (like := suggest_similar(called, [DEFAULT, *(f"{prefix}:" for prefix in PROVIDERS), *names()[1:]])):
        return like
    example = f"Write provider:NAME, such as anthropic:{called.rpartition(':')[2]}"
    return (Plain(example), ShowModels(rest=" shows the providers"))


def why_no_model(value: object, name: str = "") -> str:
    """Return sentences explaining why an object is not a model. ``name``: the variable that holds it."""
    if inspect.isclass(value) and callable(getattr(value, "stream", None)):
        construction = f"{name or value.__name__}()"
        return f"It is a class, not an instance. Create one: {f'my_model = {construction}' if name else construction}."
    lacks = [
        *([] if isinstance(getattr(value, "name", None), str) else ['the attribute name = "own:NAME"']),
        *([] if callable(getattr(value, "stream", None)) else ["the method async def stream(self, request)"]),
    ]
    return f"It lacks {' and '.join(lacks)}; help(agentnb.models) has an example."


def is_model(value: object) -> bool:
    """Return whether this is a model object: it has a name and a stream, and is not a class or table that merely happens to
    have both.
    """
    return (
        not inspect.isclass(value)
        and callable(getattr(value, "stream", None))
        and isinstance(getattr(value, "name", None), str)
    )
