"""A check for commands that destroy a machine: a courtesy against mistakes, no wall."""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator
from itertools import pairwise

from agentnb.tools.builtin.shell.syntax import QUOTED, RESERVED, simple_commands, tokens_of

SUSPECT = re.compile(r"\brm\b|mkfs|\bdd\b|chmod|/dev/sd|\)\s*\{")
"""Signs without which no command matches."""
FORK_BOMB = re.compile(r"([\w:.]+)\s*\(\s*\)\s*\{\s*\1\s*\|\s*\1\s*&\s*\}\s*;\s*\1")
HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?(?:^\s*\2$|\Z)", re.DOTALL | re.MULTILINE)
_STARTERS = """
    builtin command doas env exec ionice nice nohup setsid stdbuf sudo time timeout xargs
"""
STARTERS = frozenset(_STARTERS.split())
"""Words before a command that leave it the same command."""
SHELLS = frozenset(("ash", "bash", "dash", "ksh", "sh", "zsh"))
HOMES = ("~", "$HOME", "${HOME}")
DISK = "/dev/sd"
MAX_DEPTH = 4
"""Shells within shells that are looked into."""


def dangerous_pattern(command: str, depth: int = 0) -> str:
    """Return the pattern that a command matches, such as ``rm -rf /``; empty if it matches none."""
    if not SUSPECT.search(command):
        return ""
    if FORK_BOMB.search(QUOTED.sub("", command)):
        return "fork bomb"
    try:
        tokens = tokens_of(HERE_DOCUMENT.sub(r"\3\n", command))
    except ValueError:  # a quotation that does not end: no shell runs it
        return ""
    for before, after in pairwise(tokens):
        if ">" in before and set(before) <= set("<>&|") and after.startswith(DISK):
            return f"> {DISK}"
    return next(filter(None, (_pattern_of(_started(words), depth) for words in simple_commands(tokens))), "")


def _started(words: list[str]) -> list[str]:
    """Return the command that stands behind words of the shell, ``sudo`` and the like, with their options and numbers."""
    rest = list(words)
    while rest and (rest[0] in RESERVED or rest[0].rpartition("/")[2] in STARTERS):
        is_starter = rest.pop(0) not in RESERVED
        while is_starter and rest and (re.match(r"-|\w+=|\d", rest[0]) is not None):
            rest.pop(0)
    return rest


def _pattern_of(words: list[str], depth: int) -> str:
    if not words:
        return ""
    program, rest = words[0].rpartition("/")[2], words[1:]
    options, targets = _options(rest)
    is_recursive = bool({"r", "R", "recursive"} & options)
    roots = {_root_of(word) for word in targets}
    if program in SHELLS and "c" in options and targets and depth < MAX_DEPTH:
        return dangerous_pattern(targets[0], depth + 1)
    matches = {
        "rm -rf /": program == "rm" and is_recursive and "/" in roots,
        "rm -rf ~": program == "rm" and is_recursive and "~" in roots,
        "mkfs": program.partition(".")[0] == "mkfs",
        "dd if=/dev/": program == "dd" and any(word.startswith("if=/dev/") for word in rest),
        "chmod -R 777 /": program == "chmod" and is_recursive and "/" in roots and any(map(_opens_all, targets)),
    }
    return next((pattern for pattern, is_match in matches.items() if is_match), "")


def _options(words: list[str]) -> tuple[set[str], list[str]]:
    """Return the options, short ones letter by letter, and all other words."""
    end = words.index("--") if "--" in words else len(words)
    options = set(_letters(words[:end]))
    return options, [word for word in words[:end] if not word.startswith("-")] + words[end + 1 :]


def _letters(words: list[str]) -> Iterator[str]:
    for word in words:
        if word.startswith("--"):
            yield word[2:]
        elif word.startswith("-"):
            yield from word[1:]


def _root_of(target: str) -> str:
    """Return ``/`` or ``~`` if this is all of the machine or of the home, in any spelling; else the path."""
    for home in HOMES:
        if target == home or target.startswith(f"{home}/"):
            target = "~" + target.removeprefix(home)
    path = os.path.normpath(target.removesuffix("*") or ".") if target.endswith("/*") else os.path.normpath(target)
    return "/" if path == "//" else path


def _opens_all(mode: str) -> bool:
    return re.fullmatch(r"0*777|(a|ugo)?[+=]rwx", mode) is not None
