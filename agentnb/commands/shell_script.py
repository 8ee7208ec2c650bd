"""Parts of a shell command, as bash reads it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command."""

    raw: str
    """The text as written, with its quotes."""
    value: str | None
    """The text that the program receives, without quotes; or None if bash computes it (expansion, glob, braces, ``~``)."""
    prefix: str = ""
    """The beginning that every resulting word is certain to have; empty if unknown."""
    may_split: bool = False
    """True if the word may become several words or disappear: an unquoted expansion, a glob, braces."""

    @property
    def shown(self) -> str:
        """The value, or the text as written if bash computes it."""
        return self.raw if self.value is None else self.value

    @property
    def beginning(self) -> str:
        """The value, or its certain beginning if bash computes it."""
        return self.prefix if self.value is None else self.value


def as_written(words: Iterable[Word]) -> str:
    """Return words with their quotes, separated by single blanks."""
    return " ".join(word.raw for word in words)


@dataclass(frozen=True, slots=True)
class Redirection:
    """Redirection of a command."""

    operator: str
    """An operator such as ``>``, ``>>``, ``<``, ``&>``, ``>|``, ``<>``."""
    target: Word | None
    """The file that the redirection opens; or None for a descriptor (``2>&1``), a here-document or a here-string."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program or builtin with its words."""

    raw: str
    """The text as written, from the first assignment or word to the last word or redirection."""
    words: tuple[Word, ...]
    """The program and its arguments; empty if there are only assignments or redirections."""
    assignments: tuple[tuple[str, Word], ...] = ()
    """Names and values that precede the program."""
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """A parsed command."""

    commands: tuple[SimpleCommand, ...]
    """Every simple command that the text can run, including those in compounds, substitutions and functions."""
    problem: str = ""
    """Reason why the text cannot be parsed, worded for a question; empty if ``commands`` is complete."""
    is_list: bool = False
    """True if the text consists of simple commands joined by ``&&``, ``||``, ``;``, ``|`` or a line break, without
    substitutions: such a command can be allowed part by part."""
    variables: frozenset[str] = frozenset()
    """Variables that the command sets, including those set in loops and by builtins."""
