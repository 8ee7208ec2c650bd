"""Harmless commands: they start no unknown program, and write only files that they name, where that is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from agentnb.commands.program_call import COMPUTED, HARMLESS_NAME, Feature, Invocation, features_of
from agentnb.commands.programs import ProgramForm
from agentnb.commands.shell_command import Part
from agentnb.commands.shell_script import Word

CanWrite: TypeAlias = Callable[[str], bool]
"""Returns True if it is harmless to write to a file or folder."""
FOLDERS = ("", "/bin", "/usr/bin")
"""Folders whose programs are what their names say."""
DEVICES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")
_SUFFIX = re.compile(r"\.\w+")
"""Suffixes of backup copies, as in ``sed -i.bak``, that cannot turn the name of one file into that of another."""
_PLAIN_GLOB = re.compile(r"(?:/?[\w@%+=:,*?-][\w.@%+=:,*?\[\]-]*)+/?")
"""Globs that cannot match hidden files."""


def is_harmless(part: Part, can_write: CanWrite) -> bool:
    """True if a part of a command is known to be harmless; commands that it starts are separate parts."""
    return (
        all(HARMLESS_NAME.fullmatch(name) for name, _ in part.assignments)
        and all(_is_harmless_file(operator, target, can_write) for operator, target in part.redirections)
        and (not part.words or _is_harmless_call(part, can_write))
    )


def _is_harmless_call(part: Part, can_write: CanWrite) -> bool:
    call, form = part.invocation, part.invocation.form
    folder = (part.words[0].value or "").rpartition("/")[0]
    if form is None or call.is_unlisted or folder not in FOLDERS:
        return False
    is_known = form.harmless if isinstance(form.harmless, bool) else bool(form.harmless & call.names)
    return (
        is_known
        and all(_is_harmless_feature(feature, call, can_write) for feature in features_of(call))
        and _are_harmless_operands(form, call, can_write)
    )


def _is_harmless_feature(feature: Feature, call: Invocation, can_write: CanWrite) -> bool:
    """True if a feature only starts a part of the command, or writes only where that is allowed: to its value or the
    operands.
    """
    form = call.form
    if form is None or not feature.is_file:
        return form is not None and feature.name in form.commands
    if feature.value and not form.spec(feature.name).may_attach:
        return can_write(feature.value)
    files = call.operands[1:] if form.operands == "sed" and call.targets else call.operands
    return (not feature.value or _SUFFIX.fullmatch(feature.value) is not None) and _can_write_all(files, can_write)


def _are_harmless_operands(form: ProgramForm, call: Invocation, can_write: CanWrite) -> bool:
    targets = call.targets
    if form.operands == "written":
        return _can_write_all(targets, can_write)
    if form.operands == "last":
        return len(targets) < 2 or _can_write_last(targets, can_write)
    return form.operands != "none" or not call.operands


def _can_write_last(targets: Sequence[Word], can_write: CanWrite) -> bool:
    """True if all operands except the last may be written to the last one, a file or a folder."""
    folder = targets[-1].value
    if folder is None or not all(map(_is_known_path, targets)):
        return False
    files = [f"{folder}/{word.shown.rstrip('/').rpartition('/')[2]}" for word in targets[:-1]]
    return all(map(can_write, files)) and (folder.rstrip("/") == "." or can_write(folder))


def _can_write_all(words: Sequence[Word], can_write: CanWrite) -> bool:
    return all(_is_known_path(word) and can_write(word.shown) for word in words if word.value != "-")


def _is_known_path(word: Word) -> bool:
    return word.value is not None or _PLAIN_GLOB.fullmatch(word.raw) is not None


def _is_harmless_file(operator: str, target: Word | None, can_write: CanWrite) -> bool:
    """True if a redirection is harmless: it reads, or writes where that is allowed. Some file names are network addresses to
    the shell.
    """
    if target is None:
        return True
    text = COMPUTED if target.value is None else target.value
    if operator == "<":
        return not text.startswith(("/dev/tcp", "/dev/udp"))
    return text in DEVICES or (text != COMPUTED and can_write(text))
