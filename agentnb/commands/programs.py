"""Table of programs: their forms, and the options that start a program or name a file to write to."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

OperandKind: TypeAlias = Literal[
    "",
    "written",
    "last",
    "output",
    "command",
    "shell",
    "trap",
    "script",
    "text",
    "sed",
    "awk",
    "names",
    "assignments",
    "none",
    "opaque",
]
"""Kinds of a program's operands, explained in `programs.toml`."""
NAMING = ("ends", "commands", "finals", "modules")
"""Keys of a row whose values are option names."""
_LOADER = re.compile(r"ld(?:-linux|-musl)?(?:-[\w-]+)?\.so(?:\.\d+)?")


class OptionSpec(NamedTuple):
    """Option of a program."""

    name: str
    """The option's first spelling in the table."""
    values: int = 0
    """Number of values that follow the option."""
    may_attach: bool = False
    """True if the option takes a value only when the value is attached."""


@dataclass(frozen=True, slots=True)
class ProgramForm:
    """A program, or a form of one such as ``git log``."""

    name: str
    source: str
    options: Mapping[str, OptionSpec]
    """Options, by spelling."""
    starts: tuple[tuple[str, str], ...] = ()
    """Options that start a program, load code or run a text: the name, and a pattern for the value or an empty string."""
    writes: tuple[tuple[str, str], ...] = ()
    """Options that name a file or folder to write to."""
    operands: OperandKind = ""
    skip: int = 0
    """Number of operands that precede those of this kind."""
    harmless: bool | frozenset[str] = False
    """True if the program starts no other and writes only files that it names; or the options with which this is so."""
    ends: frozenset[str] = frozenset()
    """Options that change the kind of operand."""
    has_words: bool = False
    """True if each option is a single word, even after one dash."""
    stops: bool = False
    """True if the first operand ends the options."""
    commands: frozenset[str] = frozenset()
    """Options followed by a command that ends at ``;`` or ``+``."""
    finals: frozenset[str] = frozenset()
    """Options after which no further options are read."""
    modules: frozenset[str] = frozenset()
    """Options that name a module: a program to which the operands are passed."""
    is_offered: bool = False
    """True if a question may offer a pattern with the started command."""
    is_bundled: bool = False
    """True if the first operand is a bundle of options without a dash."""
    signs: Mapping[str, str] = field(default_factory=dict)
    """Options, by the operand prefix that implies them."""

    def spec(self, spelling: str) -> OptionSpec:
        """Return the option with this spelling; an option that is not listed takes no value."""
        return self.options.get(spelling) or OptionSpec(spelling)

    def long_options(self, beginning: str) -> tuple[OptionSpec, ...]:
        """Return the options that a long option may stand for: the exact match, or all those that it abbreviates."""
        if beginning in self.options or self.has_words:
            return (self.spec(beginning),)
        specs = {self.options[name] for name in self.options if name.startswith(beginning)}
        return tuple(sorted(specs)) or (OptionSpec(beginning),)


@cache
def program_forms() -> Mapping[str, ProgramForm]:
    """Return the table, by name of the form, such as ``git log``."""
    text = Path(__file__).with_name("programs.toml").read_text(encoding="utf-8")
    forms: dict[str, ProgramForm] = {}
    for names, row in tomllib.loads(text).items():
        for name in names.split(", "):
            forms[name] = _form(name, row, forms)
            parent = name.rpartition(" ")[0]
            if parent and parent not in forms:
                forms[parent] = ProgramForm(parent, row["source"], {})
    return forms


@cache
def names_of_forms() -> frozenset[str]:
    """Return the names of all forms that have subforms, such as ``git``."""
    return frozenset(name.rpartition(" ")[0] for name in program_forms() if " " in name)


def program_name(word: str) -> str:
    """Return a program's name as in the table, without folder and version suffix."""
    name = word.rpartition("/")[2]
    forms = program_forms()
    if name in forms:
        return name
    if _LOADER.fullmatch(name):
        return "ld.so"
    base = name.rstrip("0123456789.")
    return base if base in forms else name


def _form(name: str, row: Mapping[str, Any], forms: Mapping[str, ProgramForm]) -> ProgramForm:
    """Build the form in a row. Options of a form that is ``like`` another come after those that it inherits."""
    like = forms.get(row.get("like", ""))
    options = dict(like.options) if like else {}
    options |= {spelling: spec for text in row.get("options", "").split() for spelling, spec in _options(text)}
    starts, writes = (
        (*(getattr(like, key) if like else ()), *_parse_named(row.get(key, ""), options)) for key in ("starts", "writes")
    )
    harmless = row.get("harmless", False)
    names = {key: frozenset(_first(options, option) for option in row.get(key, "").split()) for key in NAMING}
    return ProgramForm(
        name,
        row["source"],
        options,
        starts,
        writes,
        row.get("operands", ""),
        row.get("skip", 0),
        harmless if isinstance(harmless, bool) else frozenset(_first(options, option) for option in harmless.split()),
        has_words=row.get("words", False),
        stops=row.get("stops", False) or row.get("operands") in ("command", "script"),
        is_offered=row.get("offered", False),
        is_bundled=row.get("bundled", False),
        signs=row.get("signs", {}),
        **names,
    )


def _options(text: str) -> list[tuple[str, OptionSpec]]:
    """Return an option's spellings, from a text such as ``-n/--lines=``."""
    bare = text.rstrip("=?")
    marks, spellings = text[len(bare) :], bare.split("/")
    spec = OptionSpec(spellings[0], marks.count("="), "?" in marks)
    return [(spelling, spec) for spelling in spellings]


def _parse_named(text: str, options: dict[str, OptionSpec]) -> list[tuple[str, str]]:
    """Return options, each with the pattern for relevant values, if any: ``-o=keyword``. Options not listed are added."""
    named = [(name, value) for name, _, value in (word.partition("=") for word in text.split())]
    return [(options.setdefault(name, OptionSpec(name)).name, value) for name, value in named]


def _first(options: Mapping[str, OptionSpec], spelling: str) -> str:
    return options[spelling].name if spelling in options else spelling
