"""A shell command with all the simple commands that it can run, including those started by its programs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from agentnb.commands.program_call import Invocation, find_started, invocation_of
from agentnb.commands.programs import program_forms
from agentnb.commands.reader import read_script
from agentnb.commands.shell_script import Script, SimpleCommand, Word, as_written
from agentnb.key_files import is_key_file

MAX_DEPTH = 6
"""Maximum nesting of started commands."""
MOVES = ("cd", "pushd", "popd")
"""Builtins that change the folder."""
PLAIN = re.compile(r"[\w ./:@%+,=-]*", re.ASCII)
"""Commands whose words are separated only by blanks."""
OF_BASH = "bash(1)"
"""Source of bash's builtins."""
INDEXED = re.compile(r"\[[^\]]*[$`]")
"""An index that the shell may evaluate, even within single quotes."""
BETWEEN_PATHS = re.compile(r"[=:,@\s'\"]+")
"""Characters between paths in a word, as in ``--env-file=.env``."""
NOT_TAKEN_APART = "it starts other programs in a way that cannot be parsed"
COMPUTED_PROGRAM = "its program is computed"
TWO_FOR_DASH = "sh may read it as two commands"


@dataclass(frozen=True, slots=True)
class Part:
    """A simple command within a command."""

    words: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...]
    invocation: Invocation
    redirections: tuple[tuple[str, Word | None], ...] = ()
    """Operators and files."""
    is_elsewhere: bool = False
    """True if the program's path is relative to a folder to which the command has changed."""
    starter: Part | None = None
    """The part that starts this one."""

    @property
    def raw(self) -> str:
        """The words as written, separated by single blanks."""
        return as_written(self.words)

    @property
    def with_starters(self) -> tuple[Part, ...]:
        """The part followed by its chain of starters."""
        return (self, *(() if self.starter is None else self.starter.with_starters))

    @property
    def text(self) -> str:
        """Text that allowing rules match: assignments and words as written, separated by single blanks."""
        assigned = [f"{name}={value.raw}" for name, value in self.assignments]
        return " ".join([*assigned, self.raw]).rstrip() if assigned else self.raw

    @property
    def texts(self) -> set[str]:
        """Words separated by single blanks: as written and without quotes, each also without the program's folder."""
        texts = {self.raw, " ".join(word.shown for word in self.words)}
        return texts | {_without_folder(text) for text in texts}


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A parsed shell command."""

    text: str
    parts: tuple[Part, ...]
    """Everything that the command can run: the written parts first, then the parts that these start."""
    listed: int
    """Number of written parts."""
    is_list: bool
    """True if the written parts are joined only by ``&&``, ``||``, ``;``, ``|`` or line breaks."""
    problem: str = ""
    """Reason why the parts may be incomplete; empty if they are complete."""

    @property
    def texts(self) -> set[str]:
        """Texts that are matched by patterns in rules about all commands."""
        return {self.text.strip(), *(text for part in self.parts for text in part.texts)}

    @property
    def key_files(self) -> tuple[str, ...]:
        """Files named in the command that, judging by their names, may hold keys."""
        return key_files_in(
            word for part in self.parts for word in (*part.words[1:], *[target for _, target in part.redirections]) if word
        )


def key_files_in(words: Iterable[Word]) -> tuple[str, ...]:
    """Return the files that may hold keys, judging by their names, among those that the words name."""
    paths = [path for word in words for path in BETWEEN_PATHS.split(word.shown)]
    return tuple(dict.fromkeys(path for path in paths if is_key_file(path.rpartition("/")[2])))


@lru_cache(maxsize=1024)
def shell_command(text: str) -> ShellCommand:
    """Parse a command."""
    script = _plain_script(text) or read_script(text)
    listed, started, has_moved = list[Part](), list[Part](), False
    problem = script.problem or (NOT_TAKEN_APART if INDEXED.search(text) else "")
    for command in script.commands:
        part = _part(command, has_moved=has_moved)
        listed.append(part)
        if any(
            redirection.operator.startswith("&>") and redirection.target and not command.raw.endswith(redirection.target.raw)
            for redirection in command.redirections
        ):
            problem = problem or TWO_FOR_DASH
        problem = _add_started(part, started, 0) or problem
        has_moved = has_moved or part.invocation.program in MOVES
    hidden = tuple((name, Word("", None)) for name in sorted(script.variables - _names_in(listed)))
    if hidden:  # variables of loops and expansions
        started.append(Part((), hidden, invocation_of(())))
    return ShellCommand(text, (*listed, *started), len(listed), script.is_list, problem)


def _plain_script(text: str) -> Script | None:
    """Return the script of a command that consists of plain words and whose program is in the table, without a full parse."""
    if not PLAIN.fullmatch(text):
        return None
    words = text.split()
    form = program_forms().get(words[0]) if words else None
    if form is None or form.source == OF_BASH or words[0] == "time":
        return None
    return Script((SimpleCommand(text.strip(), tuple([Word(word, word, word) for word in words])),), is_list=True)


def _names_in(parts: Iterable[Part]) -> set[str]:
    """Return the variables that parts set explicitly."""
    assigned = {name for part in parts for name, _ in part.assignments}
    return assigned | {word.beginning.partition("=")[0] for part in parts for word in part.words[1:]}


def _part(command: SimpleCommand, *, has_moved: bool = False, starter: Part | None = None) -> Part:
    files = tuple((redirection.operator, redirection.target) for redirection in command.redirections)
    program = (command.words[0].value or "") if command.words else ""
    is_elsewhere = has_moved and "/" in program and not program.startswith("/")
    return Part(command.words, command.assignments, invocation_of(command.words), files, is_elsewhere, starter)


def _add_started(part: Part, into: list[Part], depth: int) -> str:
    """Add the parts that a part starts; return the reason why they may be incomplete, or an empty string."""
    if part.words and not part.invocation.program:
        return COMPUTED_PROGRAM
    started, is_all = find_started(part.invocation)
    if not is_all or depth > MAX_DEPTH:
        return NOT_TAKEN_APART
    problem = ""
    for inner in started:
        script = read_script(inner.text) if inner.text else Script((SimpleCommand("", inner.words, inner.assignments),))
        problem = problem or script.problem
        for command in script.commands:
            into.append(_part(command, has_moved=part.is_elsewhere, starter=part))
            problem = _add_started(into[-1], into, depth + 1) or problem
    return problem


def _without_folder(text: str) -> str:
    program, blank, arguments = text.partition(" ")
    return program.rpartition("/")[2] + blank + arguments
