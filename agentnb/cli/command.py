"""What a command is: a function, whose docstring is its help, and its arguments."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

DONE, FAILED, INVALID, LIMITED, WAITING, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 4, 130, 141
"""Exit codes: the last two are those of a program that the signal ended. `INVALID`: a file, input or option cannot be used, and
nothing ran.
"""


class Argument(NamedTuple):
    """An argument or option of a command: its names, and the keywords of `ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    how: dict[str, Any]


class Outcome(NamedTuple):
    """What a command gave."""

    text: str
    """For standard output."""
    code: int = DONE
    """The exit code."""
    told: str = ""
    """For standard error, after the text."""
    last: str = ""
    """A line for standard error, after the rest: why the exit code is not 0, and what to type next."""
    command: str = ""
    """The command that goes on, alone on the last line of standard error."""


class Command(NamedTuple):
    """A command: its function, whose docstring is the help, and its arguments. A text is an outcome too."""

    do: Callable[[Namespace], str | Outcome]
    arguments: tuple[Argument, ...]
    examples: str = ""


def count(text: str) -> int:
    """Read a whole number from 1."""
    if not (text.isdecimal() and len(text) < 10 and int(text)):
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)


def text_of(text: str) -> str:
    """Read a text that is not blank."""
    if not text.strip():  # as an unset variable of the shell; as a path it would be the current folder
        raise ArgumentTypeError("it is empty")
    return text


def file(text: str) -> Path:
    """Read a path."""
    return Path(text_of(text))


def argument(*names: str, **how: Any) -> Argument:
    """Return an argument; ``how`` are the keywords of `ArgumentParser.add_argument`."""
    return Argument(names, how)


LOOSE = argument("--loose", action="store_true", help="read of damaged files what can be read")
OUTPUT = {"metavar": "FILE", "type": file, "dest": "output"}
