"""What cells get that do not say otherwise: the keys of ``%agent defaults``, and how people write their values."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

from agentnb import settings
from agentnb.agent.limits import MAX_ROUNDS, ON_LIMIT
from agentnb.context.history import NAMED as HISTORIES
from agentnb.errors import SettingsError
from agentnb.models.options import shown

Reader = Callable[[str], Any]
"""The value that a text stands for; ValueError that says what the text is not."""
SESSION_BUDGET = "session-budget"
SWITCH = ("yes", "no")


def count(text: str) -> int:
    """A whole number from 1 on."""
    if not (text.isdecimal() and int(text) >= 1):
        raise ValueError("is not a whole number from 1 on")
    return int(text)


def rounds(text: str) -> int:
    """A number of rounds."""
    if not (text.isdecimal() and 1 <= int(text) <= MAX_ROUNDS):
        raise ValueError(f"is not a whole number from 1 to {MAX_ROUNDS:,}")
    return int(text)


def seconds(text: str) -> float:
    """A time."""
    return _above_0(text, "seconds")


def dollars(text: str) -> float:
    """An amount as people write it: ``0.5`` or ``$0.5``."""
    return _above_0(text.removeprefix("$"), "US dollars")


def on_limit(text: str) -> str:
    """What happens at a limit."""
    return _one_of(ON_LIMIT, text.replace("-", "_"))


def history(text: str) -> str:
    """A history that has a name."""
    return _one_of(tuple(HISTORIES), text)


def yes_or_no(text: str) -> bool:
    """A switch."""
    if text.lower() not in settings.SWITCH:
        raise ValueError("is neither yes nor no")
    return settings.SWITCH[text.lower()]


LIMITS: dict[str, Reader] = {
    "max-tool-calls": count,
    "max-tool-calls-per-turn": count,
    "max-seconds": seconds,
    "max-tokens": count,
    "budget": dollars,
}
"""Limits that a run need not have: their value may be left empty."""
OTHERS: dict[str, Reader] = {
    "max-rounds": rounds,
    "on-limit": on_limit,
    "history": history,
    "instructions": yes_or_no,
    "unpriced": yes_or_no,
}
CHOICES = {"on-limit": ON_LIMIT, "history": tuple(HISTORIES), "instructions": SWITCH, "unpriced": SWITCH}
"""What may be said of the keys for which there are only a few answers."""


def at_first() -> dict[str, str]:
    """The defaults of a session in which nobody has changed any."""
    found = {"model": "", "max-rounds": str(settings.max_iterations()), "guidance": "matrix", "policy": "matrix"}
    found |= {"history": "auto", "instructions": "yes"}
    return found | dict.fromkeys(LIMITS, "") | {"on-limit": "stop", "unpriced": "no", SESSION_BUDGET: ""}


def checked(key: str, text: str) -> str:
    """The text, as it is kept under this key; `SettingsError` if it says nothing that could be used."""
    if key in LIMITS or key == SESSION_BUDGET:
        if text.lower() in ("", "none"):
            return ""
        _read(key, text, LIMITS.get(key, dollars), f"Write a number, or {key}= for no such limit")
        return text
    if key in CHOICES:
        value = _read(key, text, OTHERS[key], f"Write, for example, {key}={CHOICES[key][-1]}")
        return {True: "yes", False: "no"}.get(value, str(value))
    if key in OTHERS:
        _read(key, text, OTHERS[key], "")
    return text


def agent_settings(defaults: dict[str, str]) -> dict[str, Any]:
    """What they say of an agent, by its own names and with its own values."""
    limits = {key: reader(defaults[key]) if defaults[key] else None for key, reader in LIMITS.items()}
    others = {key: reader(defaults[key]) for key, reader in OTHERS.items()}
    return {key.replace("-", "_"): value for key, value in (limits | others).items()}


def _read(key: str, text: str, reader: Reader, hint: str) -> Any:
    try:
        return reader(text)
    except ValueError as error:
        raise SettingsError(f"{key}={shown(text)} {error}", hint) from None


def _above_0(text: str, unit: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not (isfinite(amount) and amount > 0):
        raise ValueError(f"is no number of {unit} above 0")
    return amount


def _one_of(known: tuple[str, ...], text: str) -> str:
    if text not in known:
        raise ValueError(f"is none of {', '.join(known)}")
    return text
