"""The parts of a shell command, as bash reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command."""

    raw: str
    """As written, with its quotes."""
    value: str | None
    """The text that the program receives, quotes removed; None if bash computes it (expansion, glob, braces, ``~``)."""
    prefix: str = ""
    """Text with which each word that comes of it certainly begins; empty if unknown."""
    may_split: bool = False
    """Whether it can become several words or none: an unquoted expansion, a glob, braces."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection of a command."""

    operator: str
    """Such as ``>``, ``>>``, ``<``, ``&>``, ``>|``, ``<>``."""
    target: Word | None
    """The file that it opens; None for a descriptor (``2>&1``), a here-document or a here-string: these open none."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program or builtin with its words."""

    raw: str
    """As written, from its first assignment or word to its last word or redirection."""
    words: tuple[Word, ...]
    """The program first; empty if there are only assignments or redirections."""
    assignments: tuple[tuple[str, Word], ...] = ()
    """Names and values before the program."""
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """A command taken apart."""

    commands: tuple[SimpleCommand, ...]
    """Each simple command that it can run, also inside of compounds, substitutions and functions."""
    problem: str = ""
    """Why it cannot be read, in words for a question; empty if ``commands`` are all that it can run."""
    is_list: bool = False
    """Whether it is only simple commands joined by ``&&``, ``||``, ``;``, ``|`` or a line break, without any substitution:
    what rules that allow can take apart."""
    variables: frozenset[str] = frozenset()
    """The variables that it sets, also by loops and builtins."""
