"""A check for commands that destroy a machine: a courtesy against mistakes, no wall."""

from __future__ import annotations

import os.path
import re

from agentnb.commands.script import Word
from agentnb.commands.shell_command import Part, shell_command

SUSPECT = re.compile(r"\brm\b|mkfs|\bdd\b|chmod|/dev/sd|\)\s*\{")
"""Signs without which no command matches."""
QUOTED = re.compile(r"'[^']*'|\\.|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
FORK_BOMB = re.compile(r"([\w:.]+)\s*\(\s*\)\s*\{\s*\1\s*\|\s*\1\s*&\s*\}\s*;\s*\1")
HOMES = ("~", "$HOME", "${HOME}")
DISK = "/dev/sd"


def dangerous_pattern(command: str) -> str:
    """Return the pattern that a command matches, such as ``rm -rf /``; empty if it matches none."""
    if not SUSPECT.search(command):
        return ""
    if FORK_BOMB.search(QUOTED.sub("", command)):
        return "fork bomb"
    return next(filter(None, map(_pattern_of, shell_command(command).parts)), "")


def _pattern_of(part: Part) -> str:
    call = part.invocation
    targets = [_text(word) for word in call.operands]
    roots = {_root_of(text) for text in targets}
    matches = {
        f"> {DISK}": any(">" in operator and file and _text(file).startswith(DISK) for operator, file in part.redirections),
        "rm -rf /": call.program == "rm" and "-r" in call.names and "/" in roots,
        "rm -rf ~": call.program == "rm" and "-r" in call.names and "~" in roots,
        "mkfs": call.program.partition(".")[0] == "mkfs",
        "dd if=/dev/": call.program == "dd" and any(text.startswith("if=/dev/") for text in targets),
        "chmod -R 777 /": call.program == "chmod" and "-R" in call.names and "/" in roots and any(map(_opens_all, targets)),
    }
    return next((pattern for pattern, is_match in matches.items() if is_match), "")


def _text(word: Word) -> str:
    return word.raw.replace('"', "") if word.value is None else word.value


def _root_of(target: str) -> str:
    """Return ``/`` or ``~`` if this is all of the machine or of the home, in any spelling; else the path."""
    for home in HOMES:
        if target == home or target.startswith(f"{home}/"):
            target = "~" + target.removeprefix(home)
    path = os.path.normpath(target.removesuffix("*") or ".") if target.endswith("/*") else os.path.normpath(target)
    return "/" if path == "//" else path


def _opens_all(mode: str) -> bool:
    return re.fullmatch(r"0*777|(a|ugo)?[+=]rwx", mode) is not None
