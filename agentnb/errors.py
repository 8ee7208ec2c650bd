"""Everything agentnb raises for a person to read.

    AgentnbError                  something to put right; says what, where, and the next command
    ├── SettingsError             a setting, option or command has no usable value
    │   ├── UnknownModel          no such provider or persona
    │   ├── UnknownTool           no tool of that name
    │   ├── InvalidTool           a function that cannot be offered to a model
    │   ├── MissingKey            the provider needs a key that is not set
    │   ├── InterpolationError    ``{{ name }}`` in a cell names nothing
    │   └── NotAvailable          a documented name that this version does not have yet
    ├── ModelError                the model did not answer
    │   ├── ScriptEnded           a scripted model was asked once too often
    │   ├── KeyRefused            the provider does not accept the key, or not for this model
    │   ├── RequestRefused        the provider refuses the request, and would again
    │   │   └── ContextOverflow   the conversation is longer than the model can take
    │   ├── RateLimited           too many requests, also after waiting
    │   ├── ProviderTrouble       the provider, or the way to it, fails; also after waiting
    │   └── BrokenReply           what came is no reply
    ├── NotAnswered               a tool asked the person something, and has no answer
    │   ├── Declined              they gave no answer
    │   └── NobodyToAsk           there is nobody who could
    ├── StoreError                a run log cannot be written or found
    ├── TraceError                a file is not a run log that this version can read
    ├── RunLimited                a run reached a limit that was to raise; ``.run`` is the run
    └── RunFailed                 a run ended with status ``failed``; ``.run`` is the run

Errors of a tool are no exceptions: they are results the model reads. Anything else that is raised is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Protocol


class AnyRun(Protocol):
    """The run an error happened in: a `Run`."""

    @property
    def id(self) -> str:
        """Its name, also that of its log."""

    @property
    def text(self) -> str:
        """The model's last answer."""


class AgentnbError(Exception):
    """Something the person can put right.

    ``what`` says what is wrong and where; ``hint`` is what to type next. ``run`` is the run it happened in, if any.
    """

    def __init__(self, what: str, hint: str = "", *, run: AnyRun | None = None) -> None:
        super().__init__(what, hint)
        self.what = what
        self.hint = hint
        self.run = run

    def __str__(self) -> str:
        return sentences(self.what, self.hint)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.what, self.hint))


class SettingsError(AgentnbError, ValueError):
    """A setting, option or command has no usable value."""


class UnknownModel(SettingsError):
    """No such provider or persona."""


class UnknownTool(SettingsError):
    """No tool of that name."""


class InvalidTool(SettingsError):
    """A function that cannot be offered to a model."""


class MissingKey(SettingsError):
    """The provider needs a key that is not set."""


class InterpolationError(SettingsError):
    """``{{ name }}`` in a cell names nothing that can be put there."""


class NotAvailable(SettingsError, ImportError):
    """A documented name that this version does not have yet."""


class ModelError(AgentnbError, RuntimeError):
    """The model did not answer."""


class ScriptEnded(ModelError):
    """A scripted model was asked once more than it has replies."""


class KeyRefused(ModelError):
    """The provider does not accept the key, or not for this model."""


class RequestRefused(ModelError):
    """The provider refuses the request, and would refuse it again."""


class ContextOverflow(RequestRefused):
    """The conversation is longer than the model can take."""


class RateLimited(ModelError):
    """Too many requests or tokens, also after waiting; or the account has none left."""


class ProviderTrouble(ModelError):
    """The provider, or the way to it, fails; also after waiting."""


class BrokenReply(ModelError):
    """What came is no reply of the kind that was asked for."""


class NotAnswered(AgentnbError):
    """A tool asked the person something, and has no answer. What it does not catch is told to the model."""


class Declined(NotAnswered):
    """The person gave no answer."""


class NobodyToAsk(NotAnswered):
    """There is nobody who could be asked."""


class StoreError(AgentnbError, OSError):
    """A run log cannot be written or found."""


class TraceError(AgentnbError, ValueError):
    """A file is not a run log that this version can read."""


class RunLimited(AgentnbError, RuntimeError):
    """A run reached a limit, and was told to raise then (``on_limit="raise"``); ``.run`` keeps all it did."""


class RunFailed(AgentnbError, RuntimeError):
    """A run ended with status ``failed``; ``.run`` keeps all it did."""


def sentences(what: str, hint: str) -> str:
    """What is wrong and what to do, on one line."""
    if not hint:
        return what
    return f"{what} {hint}" if what.endswith((".", "?", "!")) else f"{what}. {hint}"


def near(name: str, known: Iterable[str], most: int = 3) -> str:
    """A sentence with the known names most like ``name``, or with the first of them when none is alike."""
    choices = list(known)
    close = get_close_matches(name, choices, n=most, cutoff=0.5)
    if close:
        return "Did you mean " + " or ".join(close) + "?"
    if not choices:
        return ""
    shown = ", ".join(choices[:8])
    return f"There is {shown}" + (f" and {len(choices) - 8} more." if len(choices) > 8 else ".")
