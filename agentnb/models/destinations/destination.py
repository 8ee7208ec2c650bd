"""Destinations of calls: an address, and the variable that holds the key sent there. Chosen by a person, never by a file."""

from __future__ import annotations

import re
from typing import NamedTuple

from agentnb.errors import SettingsError

PORTS = {"http": 80, "https": 443}
_SERVER = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?(?:/[^\s?#@\\]*)?",
    re.ASCII | re.IGNORECASE,
)
"""URLs that all libraries parse in the same way: no user, no escapes, no letters of other scripts in the host."""
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_THIS_MACHINE = re.compile(rf"localhost|127(?:\.{_OCTET}){{3}}|\[::1\]", re.ASCII)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")


class FileModelName(str):
    """A model name read from a file, a log or a trace: its address and its key count only if the person allowed them.

    ``folder``: folder of the file, where recorded runs that it names must be, or None for a log or for text that is not from a
    file. A plain string is the person's own: a name that they typed or wrote in Python. Code that reads a name from anywhere
    else must wrap it in this class.
    """

    __slots__ = ("folder",)
    folder: str | None

    def __new__(cls, name: str, folder: str | None = None) -> FileModelName:
        """Mark a name as read from a file."""
        marked = super().__new__(cls, name)
        marked.folder = folder
        return marked


class Destination(NamedTuple):
    """An address for calls, and the name of the variable that holds the key sent with them; empty without a key."""

    scheme: str
    host: str
    port: int
    variable: str = ""

    @property
    def address(self) -> str:
        """The address as a URL."""
        port = "" if self.port == PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}"

    def __str__(self) -> str:
        """Return the destination in the form of ``--allow-url``."""
        return f"{self.address}&key={self.variable}" if self.variable else self.address

    @property
    def description(self) -> str:
        """The address and the key, as text for a person."""
        return f"{self.address}, with the key in {self.variable}" if self.variable else f"{self.address}, without a key"

    def covers(self, other: Destination) -> bool:
        """Return whether allowing this destination also allows the other: the same one, or the same address without a key."""
        return self == other or (not other.variable and self[:3] == other[:3])


def destination_of(url: str, variable: str = "") -> Destination:
    """Return the destination of calls to this URL. Raises `SettingsError` if libraries may disagree about its host."""
    match = _SERVER.fullmatch(url)
    port = 0 if match is None else int(match["port"] or PORTS[match["scheme"].lower()])
    if match is None or not 0 < port < 65_536:
        raise SettingsError(
            "A file or log refers to a model whose address is ambiguous",
            "Write it in ASCII and without a user name: http://HOST:PORT/v1",
        )
    return Destination(match["scheme"].lower(), match["host"].lower(), port, variable)


def read_destination(text: str) -> Destination:
    """Parse ``URL`` or ``URL&key=NAME``. Raises `SettingsError`, without repeating the text: it may hold a key."""
    url, _, variable = text.strip().partition("&key=")
    if not _SERVER.fullmatch(url) or ("&key=" in text and not _VARIABLE.fullmatch(variable)):
        raise SettingsError(
            "The URL to allow is invalid", "Write URL or URL&key=NAME, such as https://models.example.org&key=MY_KEY"
        )
    return destination_of(url, variable)


def is_local(url: str | None) -> bool:
    """Return whether the URL names this machine: localhost, 127.0.0.0/8 or ::1. No name is resolved."""
    match = None if url is None else _SERVER.fullmatch(url)
    return match is not None and _THIS_MACHINE.fullmatch(match["host"]) is not None
