"""E-mail and web addresses: format checks, and the actual host of a web address."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from agentnb.errors import SettingsError

MAX_URL_CHARACTERS = 8_000
"""Maximum length of an address in a question; browsers do not accept longer ones."""
_EMAIL = re.compile(r"[^\s@<>\"(),:;\\\x00-\x1f]+@[^\s@<>\"(),:;\\\x00-\x1f]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"\\^`{|}\x00-\x1f\x7f]+")
_WEB = re.compile(r"https?://[^\s<>\"\\^`{|}\x00-\x1f\x7f]+", re.IGNORECASE)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_ADVICE = "Give an address such as https://example.org/path"


class WebAddress(NamedTuple):
    """A web address for display to a person before it is opened."""

    url: str
    """The original address."""
    host: str
    """Host and port as written, in lower case."""
    ascii_host: str
    """The same host in ASCII, which letters of other scripts cannot imitate."""
    opened: str
    """The address to open: with the ASCII host, so that a browser cannot interpret it differently."""


def is_email(text: str) -> bool:
    """True if the text looks like an e-mail address."""
    return _EMAIL.fullmatch(text) is not None


def is_uri(text: str) -> bool:
    """True if the text looks like an absolute address: a scheme, a colon, and no blanks."""
    return _URI.fullmatch(text) is not None


def web_address(url: str) -> WebAddress:
    """Parse an http or https address. Raises `SettingsError` for any other address, and for a host that could be misread."""
    try:
        return _read(url)
    except ValueError as error:
        raise SettingsError(f"{_quote(url)} cannot be opened: {error}", _ADVICE) from None


def _read(url: str) -> WebAddress:
    if not isinstance(url, str) or len(url) > MAX_URL_CHARACTERS:
        raise ValueError("it is too long or not a string")
    if not _WEB.fullmatch(url):
        raise ValueError("it is not an http or https address, or has invalid characters")
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError("it contains a user name")
    written, port = parts.hostname or "", parts.port
    is_ip = written.count(":") > 1
    plain = written if is_ip else _in_ascii(written)
    suffix = "" if port is None else f":{port}"
    host, ascii_host = (f"[{name}]{suffix}" if is_ip else f"{name}{suffix}" for name in (written, plain))
    return WebAddress(url, host, ascii_host, parts._replace(netloc=ascii_host).geturl())


def _in_ascii(host: str) -> str:
    """Return the host name in ASCII. Raises ValueError if impossible."""
    plain = host.encode("idna").decode().lower() if not host.isascii() else host
    labels = plain.removesuffix(".").split(".")
    if not all(map(_LABEL.fullmatch, labels)):
        raise ValueError("its host name is invalid")
    return plain


def _quote(url: object) -> str:
    text = str(url)
    return repr(text if len(text) <= 100 else f"{text[:100]}…")
