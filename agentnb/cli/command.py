"""Definition of a command: a function (its docstring is the help) and the arguments."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

DONE, FAILED, INVALID, LIMITED, WAITING, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 4, 130, 141
"""Exit codes. The last two are those of a program killed by a signal. `INVALID`: a file, input or option is unusable, and
nothing was run.
"""


class Argument(NamedTuple):
    """An argument or option of a command: its names, and the keyword arguments of `ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    how: dict[str, Any]


class Outcome(NamedTuple):
    """The result of a command."""

    text: str
    """Text for standard output."""
    code: int = DONE
    """Exit code."""
    told: str = ""
    """Text for standard error, after the output."""
    last: str = ""
    """Last line on standard error: the reason for a non-zero exit code, and what to type next."""
    command: str = ""
    """Command that continues the run, on a line of its own at the end of standard error."""


class Command(NamedTuple):
    """A command: a function (its docstring is the help text) and the arguments. The function may return plain text as its
    outcome.
    """

    do: Callable[[Namespace], str | Outcome]
    arguments: tuple[Argument, ...]
    examples: str = ""


def count(text: str) -> int:
    """Parse a positive integer."""
    if not (text.isdecimal() and len(text) < 10 and int(text)):
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def text_of(text: str) -> str:
    """Return the text, after checking that it is not blank."""
    if not text.strip():  # such as an unset shell variable; as a path it would mean the current folder
        raise ArgumentTypeError("it is empty")
    return text


def file(text: str) -> Path:
    """Parse a path."""
    return Path(text_of(text))


def argument(*names: str, **how: Any) -> Argument:
    """Return an argument; ``how``: keyword arguments of `ArgumentParser.add_argument`."""
    return Argument(names, how)


LOOSE = argument("--loose", action="store_true", help="read damaged files as far as possible")
RUN = argument("run", metavar="ID|FILE", type=text_of, help="the id of a run here (its end is enough), or its log")
OUTPUT = {"metavar": "FILE", "type": file, "dest": "output"}
