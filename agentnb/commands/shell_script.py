"""Parts of a shell command, as bash reads it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """Word of a command."""

    raw: str
    """Text as written, with its quotes."""
    value: str | None
    """Text that the program receives, quotes removed; None if bash computes it (expansion, glob, braces, ``~``)."""
    prefix: str = ""
    """Certain beginning of every resulting word; empty if unknown."""
    may_split: bool = False
    """True if it can become several words or disappear: an unquoted expansion, a glob, braces."""


@dataclass(frozen=True, slots=True)
class Redirection:
    """Redirection of a command."""

    operator: str
    """An operator such as ``>``, ``>>``, ``<``, ``&>``, ``>|``, ``<>``."""
    target: Word | None
    """File that it opens; None for a descriptor (``2>&1``), a here-document or a here-string."""


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """Program or builtin with its words."""

    raw: str
    """Text as written, from its first assignment or word to its last word or redirection."""
    words: tuple[Word, ...]
    """Program and arguments; empty for assignments or redirections alone."""
    assignments: tuple[tuple[str, Word], ...] = ()
    """Names and values before the program."""
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """Parsed command."""

    commands: tuple[SimpleCommand, ...]
    """Every simple command that it can run, including those in compounds, substitutions and functions."""
    problem: str = ""
    """Reason why it cannot be parsed, in words for a question; empty if ``commands`` is complete."""
    is_list: bool = False
    """True if it consists of simple commands joined by ``&&``, ``||``, ``;``, ``|`` or a line break, without substitutions:
    such a command can be allowed part by part."""
    variables: frozenset[str] = frozenset()
    """Variables that it sets, also in loops and builtins."""
