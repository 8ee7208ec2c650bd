"""E-mail and web addresses: the checks of their formats, and the host that a web address really leads to."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from agentnb.errors import SettingsError

MAX_URL_CHARACTERS = 8_000
"""Maximum length of an address that a question may have; browsers take no longer ones."""
_EMAIL = re.compile(r"[^\s@<>\"(),:;\\\x00-\x1f]+@[^\s@<>\"(),:;\\\x00-\x1f]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"\\^`{|}\x00-\x1f\x7f]+")
_WEB = re.compile(r"https?://[^\s<>\"\\^`{|}\x00-\x1f\x7f]+", re.IGNORECASE)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_ADVICE = "Give an address such as https://example.org/path"


class WebAddress(NamedTuple):
    """A web address, as a person should see it before they open it."""

    url: str
    """The whole address, as it was given."""
    host: str
    """The host with its port, as it was written, in lower case."""
    ascii_host: str
    """The same host in ASCII, which no letter of another script can imitate."""
    opened: str
    """The address that is opened: with the host in ASCII, so that a browser cannot read another one."""


def is_email(text: str) -> bool:
    """Return whether a text looks like one e-mail address."""
    return _EMAIL.fullmatch(text) is not None


def is_uri(text: str) -> bool:
    """Return whether a text looks like an absolute address: a scheme, a colon, and no blanks."""
    return _URI.fullmatch(text) is not None


def web_address(url: str) -> WebAddress:
    """Return an address of http or https; raises `SettingsError` for any other, and for one whose host could be misread."""
    try:
        return _read(url)
    except ValueError as error:
        raise SettingsError(f"{_shown(url)} cannot be opened: {error}", _ADVICE) from None


def _read(url: str) -> WebAddress:
    if not isinstance(url, str) or len(url) > MAX_URL_CHARACTERS:
        raise ValueError("it is too long, or no text")
    if not _WEB.fullmatch(url):
        raise ValueError("it is not an address of http or https, or has characters that no address has")
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError("it has a user name in front of its host")
    written, port = parts.hostname or "", parts.port
    is_ip = written.count(":") > 1
    plain = written if is_ip else _in_ascii(written)
    suffix = "" if port is None else f":{port}"
    host, ascii_host = (f"[{name}]{suffix}" if is_ip else f"{name}{suffix}" for name in (written, plain))
    return WebAddress(url, host, ascii_host, parts._replace(netloc=ascii_host).geturl())


def _in_ascii(host: str) -> str:
    """Return the host name in ASCII; raises ValueError for one that has no such form."""
    plain = host.encode("idna").decode().lower() if not host.isascii() else host
    labels = plain.removesuffix(".").split(".")
    if not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("its host is not a name")
    return plain


def _shown(url: object) -> str:
    text = str(url)
    return repr(text if len(text) <= 100 else f"{text[:100]}…")
