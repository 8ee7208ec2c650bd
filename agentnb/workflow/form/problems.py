"""Problems in a hand-written file, collected with file and line and reported together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from agentnb.advice import PYTHON, Advised, AnyAdvice, Commands, GiveTools, as_advice, in_python, in_words, sentences
from agentnb.core.key_shapes import mask_keys
from agentnb.core.redaction import change_texts
from agentnb.errors import MAX_PROBLEMS, WorkflowProblems, problem_lines, suggest_similar
from agentnb.tools.builtin.builtin_names import near_tools, own_tools

Hint: TypeAlias = Advised | Callable[[], Advised]
"""Suggested correction, or a function that returns it if it requires a search for names (done for only a few problems)."""


@dataclass(frozen=True, slots=True, repr=False)
class Problem:
    """An error or a warning at one line of a file."""

    line: int
    """Line number, from 1; 0 for an object built in Python, which has no line."""
    message: str
    advice: tuple[AnyAdvice, ...] = ()
    """Suggested correction."""
    source: str = ""
    """Path of the file; empty for text that is not in a file, such as a cell."""
    code: str = ""
    """Stable code for programs, such as ``W_DEFERRED_CONDITION``."""

    @property
    def hint(self) -> str:
        """Suggested correction, phrased for Python."""
        return in_python(self.advice)

    def __str__(self) -> str:
        return self.text_for(PYTHON)

    def __repr__(self) -> str:
        return f"Problem({str(self)!r})"

    def text_for(self, commands: Commands) -> str:
        """Return the problem with its position, phrased for a surface."""
        text = sentences(f"{self.code} {self.message}" if self.code else self.message, in_words(self.advice, commands))
        if not self.line:
            return f"{self.source}: {text}" if self.source else text
        return f"{self.source}:{self.line}: {text}" if self.source else f"line {self.line}: {text}"


@dataclass(slots=True)
class Problems:
    """Collects the problems of a file, and separately its warnings."""

    source: str = ""
    strict: bool = False
    """True if warnings count as problems."""
    found: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    _noted: set[tuple[int, str]] = field(default_factory=set, repr=False)

    def add(self, line: int, message: str, hint: Hint = "", code: str = "") -> None:
        """Report a problem, which makes the file unusable, or only a warning if there is a code."""
        self._note(self.warnings if code and not self.strict else self.found, line, message, hint, code)

    def warn(self, line: int, message: str, hint: Hint = "", *, code: str = "") -> None:
        """Report a warning, which is a problem if ``strict``."""
        self._note(self.found if self.strict else self.warnings, line, message, hint, code)

    def check(self) -> None:
        """Raise `WorkflowProblems` if there are problems; warnings do not count."""
        if self.found:
            raise workflow_problems(self.found)

    def _note(self, noted: list[Problem], line: int, message: str, hint: Hint, code: str = "") -> None:
        if (line, message) in self._noted:
            return
        self._noted.add((line, message))
        if callable(hint):
            hint = hint() if len(noted) < MAX_PROBLEMS else ""
        noted.append(Problem(line, mask_keys(message), change_texts(as_advice(hint), mask_keys), self.source, code))


def note_no_tool(
    name: str, own: Collection[str], problems: Problems, line: int, where: str, *, what: str = "", actions: Collection[str] = ()
) -> None:
    """Report an unknown tool, with suggestions. ``own``: names of all tools.

    ``what``: message to use instead; ``actions``: other names that can be called.
    """
    message = f"{where}: {what or f'there is no tool {name}'}"
    problems.add(line, message, lambda: suggest_similar(name, actions) or advice_on_tool(name, own_tools(own)))


def advice_on_tool(name: str, own: Iterable[str]) -> tuple[AnyAdvice, ...]:
    """Return advice about an unknown tool name. ``own``: names to suggest in addition to built-in tools."""
    advice = GiveTools((name,) if name.isidentifier() else ("NAME",), lead="Pass it as a tool")
    return near_tools(name, own, advice)


def workflow_problems(found: Iterable[Problem]) -> WorkflowProblems:
    """Return the error that lists these problems, sorted by line."""
    problems = tuple(sorted(found, key=lambda problem: problem.line))
    error = WorkflowProblems(problem_lines(problems, PYTHON))
    error.problems = problems
    return error
