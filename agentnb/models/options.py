"""Options of a model: the part of its name after ``?``."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote, urlsplit

from agentnb.advice import NameOne, SetKey
from agentnb.core.key_shapes import mask_shapes
from agentnb.errors import SettingsError, UnknownModel
from agentnb.models.prices import Price
from agentnb.models.traits import LIMITS, PLACES_OF_SYSTEM, Traits
from agentnb.settings import looks_like_a_key, url_problem

YES = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
WORDS = {"cache": ("5m", "1h", "no"), "system": PLACES_OF_SYSTEM, "length_limit": LIMITS}
"""Options with a fixed set of values."""
OF_TRAITS = ("alternating", "system", "tools", "stream_options", "length_limit", "think_tags")
"""Options that are traits of the server."""
LEAST = {"max_tokens": 1, "seed": 0, "retries": 0, "timeout": 0.001, "stall": 0.001, "temperature": 0}
"""Numeric options, with their minimum."""
OPTION_OF = {("returned", "always"): ("echo", "yes"), ("returned", "never"): ("echo", "no")}
"""Option and value for each trait value whose option has a different name."""
UNNAMED = frozenset({"output_schema", "traits", "server"})
"""Options that cannot be written in a name."""
NUMBER = re.compile("[1-9][0-9]{0,8}")
MAX_SHOWN = 80
"""Maximum number of characters of an invalid value that an error repeats."""
PLAIN = ":/,[]@"
"""Characters left unquoted in a name, besides letters and digits."""
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of one model; None leaves the choice to the provider."""

    max_tokens: int | None = None
    """Maximum tokens of a reply, including thinking; default: the variable ``AGENT_MAX_TOKENS``, if set, plus any number in
    ``thinking=``.
    """
    temperature: float | None = None
    """Sampling temperature, as defined by the server; Anthropic's API no longer has one."""
    seed: int | None = None
    """Non-negative integer that seeds the server's sampling, as far as the server supports it."""
    effort: str | None = None
    """Thinking effort: ``none``, ``minimal``, ``low``, ``medium``, ``high``, ``xhigh`` or ``max``, as far as the model
    supports it.
    """
    thinking: str | None = None
    """``off``, ``adaptive`` (as much as the model chooses, with a summary), or a number of tokens (only ``anthropic``, for its
    older models).
    """
    stop: tuple[str, ...] = ()
    """Stop sequence: a reply ends where this text would begin; the option may be repeated."""
    echo: bool | None = None
    """Whether thinking fields are sent back to their server; default: with tool calls, if it accepts them."""
    parallel: bool | None = None
    """Whether a reply may hold several tool calls."""
    cache: str = "5m"
    """How long the provider caches the beginning of the conversation: ``5m``, ``1h`` or ``no``."""
    stream: bool = True
    """Whether replies are streamed."""
    images: bool | None = None
    """True if the model accepts pictures; if not, they are replaced with text. Default: no for ``ollama`` and ``compatible``,
    yes for the others.
    """
    timeout: float = 300.0
    """Maximum seconds of silence in an attempt; connecting may take 10."""
    stall: float | None = None
    """Idle timeout: maximum seconds in an attempt without any part of a reply, whatever else the server sends; default: twice
    ``timeout``.
    """
    url: str | None = None
    """URL of the server, if not the provider's own: without a password, and with nothing after its path."""
    key: str | None = None
    """The **name of the variable** that holds the key, if not the provider's own."""
    price: Price | None = None
    """Dollars per million tokens: ``3/15`` is input/output, ``3/15/0.3/3.75`` adds cache reads and writes, ``0`` is free."""
    retries: int | None = None
    """Maximum retries after transient errors; default: 5 after rate limits, 4 after others."""
    alternating: bool | None = None
    """True if user and assistant must alternate in requests, so that a reminder after tool results gets no separate message."""
    system: str | None = None
    """Position of the system prompt: ``first``, or in the first message of the ``user``."""
    tools: bool | None = None
    """Whether the model's template accepts tools; ``no`` sends none."""
    stream_options: bool | None = None
    """True if the server supports ``stream_options``, which request the token counts of a stream."""
    length_limit: str | None = None
    """The server's name for the token limit: ``max_tokens`` or ``max_completion_tokens``."""
    think_tags: bool | None = None
    """True if ``<think>`` blocks at the start of a reply count as thinking."""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the answers."""
    traits: Traits | None = None
    """Traits of the server, from its name, these options and its refusals; None means those implied by its name."""
    server: str = ""
    """The server and the model: thinking fields are sent back only to the same pair."""

    def __post_init__(self) -> None:
        if self.url is not None:
            check_url(self.url)
        if self.key is not None and not VARIABLE.fullmatch(self.key):
            # The value may be a key: do not repeat it.
            raise SettingsError(
                "key= takes the name of a variable, not a key", SetKey("MY_KEY", lead="Write key=MY_KEY and set the variable")
            )
        if self.effort is not None and self.effort not in EFFORTS:
            raise SettingsError(f"effort={mask_text(self.effort)} is unknown", NameOne(known=tuple(EFFORTS), lead="Use one of"))
        for name, words in WORDS.items():
            value = getattr(self, name)
            if value is not None and value not in words:
                raise SettingsError(f"{name}={mask_text(value)} is unknown", f"Use one of {', '.join(words)}")
        if self.thinking is not None and self.thinking not in ("off", "adaptive") and not NUMBER.fullmatch(self.thinking):
            raise SettingsError(f"thinking={mask_text(self.thinking)} is unknown", "Use off, adaptive or a number of tokens")
        if "" in self.stop:
            raise SettingsError("stop= is empty", "Give the text that ends a reply")
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and not least <= value < math.inf:
                raise SettingsError(f"{name}={value} is out of range", f"Use a finite number of at least {least}")

    @property
    def longest_stall(self) -> float:
        """Idle timeout: maximum seconds without progress of a reply."""
        return 2 * self.timeout if self.stall is None else self.stall


KINDS = {field.name: str(field.type).partition(" ")[0] for field in fields(Options)}
"""The type of each option."""
READERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "int": (int, "a number"),
    "float": (float, "a number"),
    "bool": (lambda text: YES[text.lower()], "yes or no"),
}
"""Parser for each type, and a description of the expected form."""


def read_options(name: str, given: Iterable[tuple[str, str]], known: frozenset[str]) -> Options:
    """Return the options of the model called ``name``. Raises `UnknownModel` for unknown options and unreadable values."""
    values: dict[str, Any] = {}
    for key, text in given:
        if key not in known:
            # The value may be a secret: do not repeat it.
            raise UnknownModel(f"{name} has no option {mask_text(key)!r}", f"Its options are {', '.join(sorted(known))}")
        values[key] = (*values.get("stop", ()), text) if key == "stop" else _read(name, key, text)
    return Options(**values)


def format_options(options: Options) -> str:
    """Return the options that differ from the defaults, as written in a name; empty if all are defaults."""
    usual = Options()
    pieces = []
    for field in fields(Options):
        value = getattr(options, field.name)
        if value == getattr(usual, field.name) or field.name in UNNAMED:
            continue
        texts = value if isinstance(value, tuple) else (value,)
        pieces += [f"{field.name}={quote(option_text(text), safe=PLAIN)}" for text in texts]
    return "?" + "&".join(pieces) if pieces else ""


def mask_text(text: str) -> str:
    """Return the person's text if it is safe to repeat, or ``...`` if it is too long or may contain a key."""
    holds_key = mask_shapes(text) != text or (looks_like_a_key(text) and ":" not in text)
    return "..." if len(text) > MAX_SHOWN or holds_key or url_problem(text) else text


def option_text(value: Any) -> str:
    """Return the value as written in a name."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _read(name: str, key: str, text: str) -> Any:
    read, wanted = READERS.get(KINDS[key], (str, ""))
    try:
        value = read(text)
    except (ValueError, KeyError):
        raise UnknownModel(f"{key}={mask_text(text)} of {name} must be {wanted}") from None  # the cause repeats the text
    if key == "price":
        if mask_text(text) != text:
            raise SettingsError("price= is not a price", "Write US dollars per million tokens as input/output, such as 3/15")
        return Price.parse(text)
    return value


def check_url(url: str) -> None:
    """Raise `SettingsError` unless this is the URL of a server, without a password and with nothing after its path."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SettingsError("url= is not a URL", "Write url=http://localhost:8000/v1") from None  # the cause repeats the text
    problem = url_problem(url)
    if "password" in problem:
        advice = SetKey("MY_KEY", lead="Write url=...&key=MY_KEY and set the variable")
        raise SettingsError(f"A model's URL {problem}", advice)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not url.isprintable() or " " in url:
        raise SettingsError(
            f"url={mask_text(url)} is not a server URL",
            "A server URL begins with http:// or https://, such as url=http://localhost:8000/v1",
        )
    if problem:
        raise SettingsError(f"A model's URL {problem}", "Write url=http://localhost:8000/v1")
