"""Bash builtins that start commands, evaluate text or change how bash reads; each is parsed, or reported as a problem."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from agentnb.commands.shell_script import SimpleCommand, Word
from agentnb.commands.shell_words import IDENTIFIER, WordReader

OPAQUE = frozenset(("alias", "bind", "compgen", "complete", "compopt", "enable", "fc", "history"))
"""Builtins that are not parsed."""
SET_LETTERS = frozenset("aCbefhuvxET")
_SET_NAMES = """
    allexport errexit errtrace functrace noclobber noglob nounset pipefail verbose xtrace
"""
SET_NAMES = frozenset(_SET_NAMES.split())
SHOPT_NAMES = frozenset(("dotglob", "failglob", "globstar", "inherit_errexit", "lastpipe", "nullglob"))
NAME = re.compile(IDENTIFIER)
ASSIGNED = re.compile(rf"({IDENTIFIER})(\+?=)?")


def check_builtin(reader: WordReader, command: SimpleCommand) -> None:
    """Read the commands that a builtin starts or evaluates; flag anything that bash computes."""
    if not command.words:
        return
    program = command.words[0]
    if program.value is None:
        reader.facts.flag(f"a program whose name is computed: {program.raw[:60]}")
    elif program.value in OPAQUE:
        reader.facts.flag(f"the builtin {program.value}")
    elif check := CHECKS.get(program.value):
        check(reader, command)


def _inner(reader: WordReader, command: SimpleCommand, skipped: int) -> None:
    """Read the command that begins at this word."""
    reader.facts.is_list = False
    if skipped < len(command.words):
        reader.start(replace(command, words=command.words[skipped:]))


def _command(reader: WordReader, command: SimpleCommand) -> None:
    values = [word.value for word in command.words]
    number = 1
    while number < len(values) and values[number] in ("-p", "--"):
        number += 1
    if number < len(values) and (values[number] or "").startswith("-"):
        if values[number] not in ("-v", "-V"):
            reader.facts.flag(f"an option of {values[0]}")
        return
    _inner(reader, command, number)


def _exec(reader: WordReader, command: SimpleCommand) -> None:
    values = [word.value for word in command.words]
    number = 1
    while number < len(values) and values[number] in ("-a", "-c", "-l", "-cl", "-lc", "--"):
        number += 2 if values[number] == "-a" else 1
    _inner(reader, command, number)


def _eval(reader: WordReader, command: SimpleCommand) -> None:
    _read_literal(reader, command.words[1:], "text that eval computes")


def _trap(reader: WordReader, command: SimpleCommand) -> None:
    words = command.words[1:]
    if words and words[0].value == "--":
        words = words[1:]
    if len(words) > 1 and words[0].value not in ("-", "-l", "-p", "-P"):
        _read_literal(reader, words[:1], "text that trap computes")
    elif len(words) == 1 and words[0].may_split:
        reader.facts.flag("text that trap computes")


def _read_literal(reader: WordReader, words: tuple[Word, ...], problem: str) -> None:
    values = [word.value for word in words]
    if None in values or any(word.may_split for word in words):
        reader.facts.flag(problem)
    else:
        reader.read_text(" ".join(filter(None, values)).removeprefix("-- "))


def _source(reader: WordReader, command: SimpleCommand) -> None:
    path = command.words[1].value if len(command.words) > 1 else None
    if path is None or path.startswith(("/dev", "/proc", "-")):
        reader.facts.flag("commands from a file whose name is computed")


def _set(reader: WordReader, command: SimpleCommand) -> None:
    for before, word in pairwise(command.words):
        value = word.value
        if value in ("-", "--") or (value and value[0] not in "-+" and not _takes_name(before)):
            return
        is_known = value is not None and (value in SET_NAMES if _takes_name(before) else set(value[1:]) <= SET_LETTERS | {"o"})
        if not is_known or word.may_split:
            reader.facts.flag(f"the option {word.raw[:60]} of set")


def _takes_name(option: Word) -> bool:
    return re.fullmatch(r"[-+][A-Za-z]*o", option.value or "") is not None


def _shopt(reader: WordReader, command: SimpleCommand) -> None:
    if not {word.value for word in command.words[1:]} <= SHOPT_NAMES | {"-s", "-u", "-q", "-p"}:
        reader.facts.flag("an option of shopt")


def _declare(reader: WordReader, command: SimpleCommand) -> None:
    is_export = command.words[0].value in ("export", "readonly")
    for word in command.words[1:]:
        text = word.beginning
        if word.may_split and not word.prefix.partition("=")[1]:
            reader.facts.flag("a variable whose name is computed")
        elif text.startswith(("-", "+")) and word.value is not None:
            if not set(text[1:]) <= set("aAfFglprux" + ("n" * is_export)):
                reader.facts.flag(f"the option {text} of {command.words[0].value}")
        elif (match := ASSIGNED.match(text)) is None or (not match[2] and (word.value is None or match.end() < len(text))):
            reader.facts.flag("a variable whose name is computed")
        elif match[2]:
            value = text[match.end() :]
            if value.startswith("(") and not re.match(rf"{IDENTIFIER}\+?=\(", word.raw):
                reader.facts.flag("an array in quotes")
            is_number = word.value is not None and re.fullmatch(r"-?\d*", value) is not None
            reader.assign(match[1], is_number=is_number)


def _names(reader: WordReader, command: SimpleCommand, words: tuple[Word, ...]) -> None:
    """Record variables that are set to unknown values."""
    for word in words:
        if word.value is None or NAME.fullmatch(word.value) is None:
            reader.facts.flag(f"a variable whose name is computed, for {command.words[0].value}")
        else:
            reader.assign(word.value, is_number=False)


def _read(reader: WordReader, command: SimpleCommand) -> None:
    names = tuple(
        word
        for before, word in pairwise(command.words)
        if not re.fullmatch(r"-[ers]*[diNnptu]", before.value or "")
        and not re.fullmatch(r"-[ers]*([diNnptu].*|a)?", word.beginning or "a", re.DOTALL)
    )
    _names(reader, command, names)


def _mapfile(reader: WordReader, command: SimpleCommand) -> None:
    if any(word.value is None or (word.value.startswith("-") and "C" in word.value) for word in command.words):
        reader.facts.flag("a program that mapfile starts")
    _names(reader, command, tuple(word for word in command.words[1:] if not re.fullmatch(r"-.*|\d+", word.value or "-")))


def _printf(reader: WordReader, command: SimpleCommand) -> None:
    if len(command.words) < 2:
        return
    first = command.words[1]
    if (first.value is None and not first.prefix) or first.beginning.startswith("-v"):
        if first.value != "-v" or first.may_split:
            reader.facts.flag("a variable whose name is computed, for printf")
        else:
            _names(reader, command, command.words[2:3])


def _getopts(reader: WordReader, command: SimpleCommand) -> None:
    _names(reader, command, command.words[2:3])
    if any(word.may_split for word in command.words[:3]):
        reader.facts.flag("a variable whose name is computed, for getopts")


def _literal_names(reader: WordReader, command: SimpleCommand) -> None:
    if any(word.value is None or "[" in word.value for word in command.words[1:]):
        reader.facts.flag(f"a variable whose name is computed, for {command.words[0].value}")


def _let(reader: WordReader, command: SimpleCommand) -> None:
    for word in command.words[1:]:
        if word.value is None or re.search(r"[\[$`'\"\\]", word.value):
            reader.facts.flag("text that is evaluated as arithmetic")
        else:
            reader.facts.evaluated.update(NAME.findall(word.value))


def _test(reader: WordReader, command: SimpleCommand) -> None:
    """Flag words that could become ``-v`` or ``-R``, which evaluate the following name."""
    words = command.words[1 : len(command.words) - (command.words[0].value == "[")]
    operands = words[1:] if words and words[0].value == "!" else words
    for word in words:
        if word.may_split:
            reader.evaluate(word)
    computed = [word.value is None for word in operands]
    is_known = (
        not any(computed)
        or len(operands) == 1
        or (len(operands) == 2 and not computed[0])
        or (len(operands) == 3 and not computed[1])
    )
    evaluates = any(
        before.value in ("-v", "-R") and (word.value is None or "[" in word.value) for before, word in pairwise(words)
    )
    if evaluates or not is_known:
        reader.facts.flag(f"a computed condition of {command.words[0].value}")


def _hash(reader: WordReader, command: SimpleCommand) -> None:
    if any(word.value != "-r" for word in command.words[1:]):
        reader.facts.flag(f"options of {command.words[0].value}")


def _jobs(reader: WordReader, command: SimpleCommand) -> None:
    if any(word.value is None or "x" in word.value for word in command.words[1:]):
        reader.facts.flag("a program that jobs starts")


CHECKS: dict[str, Callable[[WordReader, SimpleCommand], None]] = {
    **dict.fromkeys((".", "source"), _source),
    **dict.fromkeys(("[", "test"), _test),
    **dict.fromkeys(("builtin", "command"), _command),
    **dict.fromkeys(("declare", "export", "local", "readonly", "typeset"), _declare),
    **dict.fromkeys(("mapfile", "readarray"), _mapfile),
    **dict.fromkeys(("unset", "wait"), _literal_names),
    "eval": _eval,
    "exec": _exec,
    "getopts": _getopts,
    "hash": _hash,
    "jobs": _jobs,
    "let": _let,
    "printf": _printf,
    "read": _read,
    "set": _set,
    "shopt": _shopt,
    "trap": _trap,
}
