"""What is wrong in a file that was written by hand: all of it at once, each problem with its file and line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from agentnb.advice import PYTHON, Advised, AnyAdvice, Commands, GiveTools, advised, in_python, in_words, sentences
from agentnb.core.key_shapes import mask_keys
from agentnb.core.redaction import change_texts
from agentnb.errors import MAX_PROBLEMS, WorkflowProblems, nearest, problem_lines
from agentnb.tools.builtin.named import near_tools, own_tools

Hint: TypeAlias = Advised | Callable[[], Advised]
"""What to write instead; a function if that takes a search among all names of a file, which only so many problems get."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, or doubtful, at one line of a file."""

    line: int
    """From 1; 0 for what was made in Python, and stands in no line."""
    message: str
    advice: tuple[AnyAdvice, ...] = ()
    """What to write instead."""
    source: str = ""
    """The file; empty for a text without one, such as that of a cell."""
    code: str = ""
    """A fixed word for what can be looked for in a program, such as ``W_DEFERRED_CONDITION``."""

    @property
    def hint(self) -> str:
        """What to write instead, in words for Python."""
        return in_python(self.advice)

    def __str__(self) -> str:
        return self.worded(PYTHON)

    def worded(self, commands: Commands) -> str:
        """Return the problem with its place, in the words of a surface."""
        text = sentences(f"{self.code} {self.message}" if self.code else self.message, in_words(self.advice, commands))
        if not self.line:
            return f"{self.source}: {text}" if self.source else text
        return f"{self.source}:{self.line}: {text}" if self.source else f"line {self.line}: {text}"


@dataclass(slots=True)
class Problems:
    """Collects the problems of one file, and apart from them the warnings."""

    source: str = ""
    strict: bool = False
    """Whether what would be a warning is a problem."""
    found: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    _noted: set[tuple[int, str]] = field(default_factory=set, repr=False)

    def add(self, line: int, message: str, hint: Hint = "", code: str = "") -> None:
        """Note a problem, with which the file cannot be used; with a code it is a warning."""
        self._note(self.warnings if code and not self.strict else self.found, line, message, hint, code)

    def warn(self, line: int, message: str, hint: Hint = "", *, code: str = "") -> None:
        """Note a warning, which is a problem if ``strict``."""
        self._note(self.found if self.strict else self.warnings, line, message, hint, code)

    def check(self) -> None:
        """Raise `WorkflowProblems` if there are any; warnings are none."""
        if self.found:
            raise workflow_problems(self.found)

    def _note(self, noted: list[Problem], line: int, message: str, hint: Hint, code: str = "") -> None:
        if (line, message) in self._noted:
            return
        self._noted.add((line, message))
        if callable(hint):
            hint = hint() if len(noted) < MAX_PROBLEMS else ""
        noted.append(Problem(line, mask_keys(message), change_texts(advised(hint), mask_keys), self.source, code))


def note_no_tool(
    name: str, own: Collection[str], problems: Problems, line: int, where: str, *, what: str = "", actions: Collection[str] = ()
) -> None:
    """Note that there is no tool of this name, and what may have been meant. ``own``: the names of all that there are.

    ``what``: instead of that; ``actions``: what may be called besides.
    """
    message = f"{where}: {what or f'there is no tool {name}'}"
    problems.add(line, message, lambda: nearest(name, actions) or advice_on_tool(name, own_tools(own)))


def advice_on_tool(name: str, own: Iterable[str]) -> tuple[AnyAdvice, ...]:
    """Return the advice on a name that no tool has. ``own``: the names to choose from, beside those of built-in tools."""
    advice = GiveTools((name,) if name.isidentifier() else ("NAME",), lead="Give it as a tool")
    return near_tools(name, own, advice)


def workflow_problems(found: Iterable[Problem]) -> WorkflowProblems:
    """Return the error that lists these problems, in the order of their lines."""
    problems = tuple(sorted(found, key=lambda problem: problem.line))
    error = WorkflowProblems(problem_lines(problems, PYTHON))
    error.problems = problems
    return error
