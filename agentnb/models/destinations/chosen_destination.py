"""The destination chosen by the options of a model; files may only choose one that the person has allowed.

Likewise, for recorded runs chosen by name, files may only name runs in their own folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from glob import glob, has_magic
from pathlib import Path

from agentnb import settings
from agentnb.advice import AllowUrls, SetModel
from agentnb.errors import SettingsError, UrlNotAllowed
from agentnb.models.destinations import allowed_urls
from agentnb.models.destinations.destination import Destination, destination_of, is_local
from agentnb.models.options import Options
from agentnb.models.provider import Provider


def url_of_calls(provider: Provider, options: Options) -> str | None:
    """Return the server's URL from the options, the environment or the provider's row; None if only the provider's library
    knows it.
    """
    return options.url or settings.base_url(provider.name) or provider.url


def find_missing(provider: Provider, options: Options) -> Destination | None:
    """Return the destination that the options choose, unless it is the provider's usual one or the person allowed it.

    Raises `SettingsError` if its address is ambiguous.
    """
    chosen = _find_chosen(provider, options)
    if chosen is None or allowed_urls.is_allowed(chosen):
        return None
    return None if any(usual.covers(chosen) for usual in _usual_destinations(provider)) else chosen


def allow_chosen(provider: Provider, options: Options) -> None:
    """Allow the destination of a model that the person named."""
    with suppress(SettingsError):  # an ambiguous address is allowed for this name only
        if (chosen := _find_chosen(provider, options)) is not None:
            allowed_urls.allow(chosen)


def check(wanted: Iterable[tuple[Provider, Options]]) -> None:
    """Raise `UrlNotAllowed`, with all missing destinations, unless the person allowed the destinations of these models.

    A server on this machine needs no permission if the options name no key. The error's advice includes the options that allow
    the missing destinations.
    """
    missing = [find_missing(*model) for model in wanted if model[1].key is not None or not is_local(url_of_calls(*model))]
    destinations = tuple(dict.fromkeys(filter(None, missing)))
    if not destinations:
        return
    listed = "; and at ".join(destination.description for destination in destinations)
    error = UrlNotAllowed(
        f"A file or log refers to a model at {listed}. This address needs your permission",
        AllowUrls(tuple(map(str, destinations)), lead="If you trust the address"),
    )
    error.destinations = destinations
    raise error


def check_recorded(path: str, folder: str | None) -> None:
    """Raise `SettingsError` if recorded runs named by a file or log are not in the folder of that file.

    Links are resolved. ``path`` may be a pattern; ``folder``: None for a log, or for text that is not from a file.
    """
    paths = [Path(path).expanduser()]
    if has_magic(path):
        paths += map(Path, glob(str(paths[0]), recursive=True))
    paths += [link for file in paths if file.is_dir() for link in file.rglob("*") if link.is_symlink()]
    if folder is not None and all(file.resolve().is_relative_to(Path(folder).resolve()) for file in paths):
        return
    raise SettingsError(
        f"A file or log refers to the recorded runs in {path}, which is outside the workflow file's folder",
        SetModel(f"recorded:{path}", lead="To use these runs, name the model yourself"),
    )


def _find_chosen(provider: Provider, options: Options) -> Destination | None:
    """Return the destination that the options choose, or None if they leave it to the person's settings."""
    if options.url is None and options.key is None:
        return None
    url = url_of_calls(provider, options) or provider.own_url
    return None if url is None else destination_of(url, options.key or _usual_key(provider))


def _usual_destinations(provider: Provider) -> Iterable[Destination]:
    """Yield the destinations of the provider's models without any options: its own server, and the one named in the
    environment.
    """
    for url in (provider.own_url or provider.url, settings.base_url(provider.name)):
        with suppress(SettingsError):
            if url is not None:
                yield destination_of(url, _usual_key(provider))


def _usual_key(provider: Provider) -> str:
    return settings.KEY_VARIABLES.get(provider.name, "")
