"""Destinations that the person allowed for models named by files, logs and traces.

Options and names typed in this process apply until it ends; answers to questions are kept in the person's own folder, one per
line, in the form of ``--allow-url``. To withdraw one, delete its line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from agentnb import settings
from agentnb.errors import SettingsError, UrlNotAllowed
from agentnb.models.destinations.destination import Destination, read_destination
from agentnb.personal_files import read_lines, write_lines

T = TypeVar("T")

FILE = "allowed-urls.txt"
_allowed_here: set[Destination] = set()
"""Destinations allowed in this process, including those of models that the person named in it."""


def allow(destination: Destination) -> None:
    """Allow a destination until this process ends."""
    _allowed_here.add(destination)


def allow_urls(urls: Iterable[str]) -> tuple[str, ...]:
    """Allow these destinations, each written as ``URL`` or ``URL&key=NAME``, until this process ends; return them.

    Raises `SettingsError`, and allows none of them, if any has neither form.
    """
    if isinstance(urls, str):
        raise SettingsError("allow_urls= is a list of URLs", 'Write allow_urls=["https://models.example.org&key=MY_KEY"]')
    texts = tuple(urls)
    for destination in [read_destination(url) for url in texts]:
        allow(destination)
    return texts


def is_allowed(wanted: Destination) -> bool:
    """Return whether the person has allowed this destination: in this process, in the environment, or in an earlier answer."""
    return any(allowed.covers(wanted) for allowed in (*_allowed_here, *_stored_destinations()))


def remember(destination: Destination) -> bool:
    """Allow a destination permanently, in the person's own folder; return False if the folder cannot be written."""
    allow(destination)
    lines = [line for line in read_lines(FILE) if line != str(destination)]
    return write_lines(FILE, [*lines, str(destination)])


def with_consent(make: Callable[[], T], ask: Callable[[str], str] | None) -> T:
    """Return the result of ``make``; if it needs a destination that is not allowed, ask the person and call it again.

    ``make`` must not have side effects before it raises `UrlNotAllowed`. ``ask``: prints a question and returns the line that
    the person types. An allowed destination is remembered. Without ``ask``, or if the person declines, the error is raised.
    """
    while True:
        try:
            return make()
        except UrlNotAllowed as error:
            for destination in error.destinations:
                if ask is None or ask(question(destination)).strip().lower() not in ("y", "yes"):
                    raise
                remember(destination)


def question(destination: Destination) -> str:
    """Return the one-line question asking whether calls may go to this destination."""
    goes = f"The key in {destination.variable} would go there" if destination.variable else "No key would go there"
    return f"A file or log refers to a model at {destination.address}. {goes}. Allow that from now on? [y/N] "


def _stored_destinations() -> Iterator[Destination]:
    for text in (*settings.allow_urls(), *read_lines(FILE)):
        with suppress(SettingsError):  # an unreadable line allows nothing
            yield read_destination(text)
