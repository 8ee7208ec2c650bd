"""How a model is to be called: what stands behind ``?`` in its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import urlsplit

from agentnb.errors import SettingsError, UnknownModel, near
from agentnb.models.prices import Price

YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of one model; None leaves it to the provider."""

    max_tokens: int | None = None
    """The most tokens a reply may have."""
    temperature: float | None = None
    effort: str | None = None
    """How hard it thinks: `EFFORTS`, as far as the model knows them."""
    thinking: str | None = None
    """``off``, ``adaptive``, or a number of tokens."""
    stop: tuple[str, ...] = ()
    """A reply ends where one of these would come."""
    echo: bool = False
    """Whether its thinking is sent back to it, as some servers want."""
    parallel: bool | None = None
    """Whether a reply may hold several tool calls."""
    cache: str = "5m"
    """How long the provider should keep the beginning of the conversation: ``5m``, ``1h`` or ``no``."""
    stream: bool = True
    """Whether replies come word by word."""
    images: bool | None = None
    """Whether the model can see; else pictures are told in words."""
    timeout: float = 300.0
    """Seconds of silence after which a call is given up."""
    url: str | None = None
    """Of the server, if not the provider's own."""
    key: str | None = None
    """The variable that holds the key, if not the provider's own."""
    price: Price | None = None
    """Instead of the one in the price table."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the answers."""

    def __post_init__(self) -> None:
        if self.url is not None:
            _check_url(self.url)
        if self.key is not None and not VARIABLE.fullmatch(self.key):
            # It may be a key: it is not repeated.
            raise SettingsError(
                "key= wants the name of a variable, not a key", "Write key=MY_KEY, and set it: %agent key MY_KEY"
            )
        if self.effort is not None and self.effort not in EFFORTS:
            raise SettingsError(f"effort={self.effort} is unknown", f"It is one of {', '.join(EFFORTS)}")
        if self.cache not in ("5m", "1h", "no"):
            raise SettingsError(f"cache={self.cache} is unknown", "It is one of 5m, 1h, no")
        if self.thinking is not None and self.thinking not in ("off", "adaptive") and not self.thinking.isdecimal():
            raise SettingsError(f"thinking={self.thinking} is unknown", "It is off, adaptive, or a number of tokens")
        for name in ("max_tokens", "timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise SettingsError(f"{name}={value} cannot be", "Give a number above 0")


def read_options(name: str, given: Iterable[tuple[str, str]], known: frozenset[str]) -> Options:
    """The options of the model called ``name``; `UnknownModel` for what it does not know or what cannot be read."""
    values: dict[str, Any] = {}
    for key, text in given:
        if key not in known:
            # Not the value: it may be a secret.
            raise UnknownModel(f"{name} has no option {key!r}", near(key, sorted(known)))
        values[key] = (*values.get("stop", ()), text) if key == "stop" else _read(name, key, text)
    return Options(**values)


def named(options: Options) -> str:
    """The options that are not the usual, as they stand in a name; empty without any."""
    usual = Options()
    told = []
    for field in fields(Options):
        value = getattr(options, field.name)
        if value == getattr(usual, field.name) or field.name == "output_schema":
            continue
        texts = value if isinstance(value, tuple) else (value,)
        told += [f"{field.name}={_text(text)}" for text in texts]
    return "?" + "&".join(told) if told else ""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _read(name: str, key: str, text: str) -> Any:
    try:
        if key == "max_tokens":
            return int(text)
        if key in ("temperature", "timeout"):
            return float(text)
        if key in ("stream", "images", "parallel", "echo"):
            return YES[text.lower()]
    except (ValueError, KeyError) as error:
        wanted = "yes or no" if isinstance(error, KeyError) else "a number"
        raise UnknownModel(f"{key}={text} of {name} is not {wanted}") from error
    return Price.parse(text) if key == "price" else text


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsError("url= is no URL", "Write url=http://localhost:8000/v1") from error
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            "The URL of a model must not hold a password", "Put it in a variable: url=...&key=MY_KEY, then %agent key MY_KEY"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise SettingsError(f"url={url} is no URL of a server", "Write url=http://localhost:8000/v1")
