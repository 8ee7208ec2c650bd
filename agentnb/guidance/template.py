"""Variables in guidance texts, such as ``{{ next_todo }}``."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from agentnb.core.todos import format_list, format_with_heading, next_todo, on_one_line, open_todos
from agentnb.detect.run import Run
from agentnb.detect.tool_failures import LOOP_FROM
from agentnb.errors import SettingsError, suggest_names

NO_TODO = "(no todo is open)"
"""Text inserted if no todo is open."""
NO_TOOL = "(no tool failed)"
"""Text inserted in place of a failed tool's name if no tool failed."""
NO_NAME = "a tool without a name"
MAX_TOOLS = 5
"""Maximum number of failed tools to name."""
LONGEST_NAME = 64
"""Maximum length of a tool's name, since the model invents the names of unknown tools."""
MAX_LISTED = 20
"""Maximum number of open todos to list."""
_FIELD = re.compile(r"\{\{ ([A-Za-z_]\w*) \}\}")
_NEARLY = re.compile(r"(\{\{ *([A-Za-z_]\w*) *\}*)")
"""Text that may be intended as a variable."""


_About: TypeAlias = tuple[str, ...]
"""The tools that the text is about."""


def _next(run: Run, about: _About) -> str:
    todo = next_todo(run.todos)
    if todo is None:
        return NO_TODO
    description = f": {on_one_line(todo.description)}" if todo.description else ""
    return f'todo {todo.id}, "{on_one_line(todo.title)}"{description}'


def _open(run: Run, about: _About) -> str:
    return format_list(open_todos(run.todos), MAX_LISTED) or NO_TODO


def _completing_call(run: Run, about: _About) -> str:
    todo = next_todo(run.todos)
    if todo is None:
        return NO_TODO
    return f'todo_operations {{"operation": "update", "todoUpdates": [{{"id": {todo.id}, "status": "completed"}}]}}'


def failing(run: Run) -> tuple[str, ...]:
    """Return the tools in a failure loop, or, if there are none, all that failed in the previous round."""
    failures = run.judged.failures
    return failures.looping(LOOP_FROM) or failures.tools


def failed_tools(run: Run, about: tuple[str, ...] = ()) -> str:
    """Return the names of the tools that guidance about failures refers to."""
    names = [on_one_line(name)[:LONGEST_NAME] or NO_NAME for name in about or failing(run)]
    more = [f"{len(names) - MAX_TOOLS} more"] if len(names) > MAX_TOOLS else []
    *first, last = [*names[:MAX_TOOLS], *more] or [NO_TOOL]
    return f"{', '.join(first)} and {last}" if first else last


def failed_rounds(run: Run, about: tuple[str, ...] = ()) -> int:
    """Return the number of consecutive rounds in which all of these tools failed."""
    rows = run.judged.failures.in_a_row
    return min([rows.get(name, 0) for name in about or failing(run)], default=0)


VARIABLES: dict[str, Callable[[Run, _About], object]] = {
    "round": lambda run, about: run.round_number,
    "max_rounds": lambda run, about: run.max_rounds or "?",
    "open_todos": _open,
    "todos": lambda run, about: format_with_heading(run.todos) or NO_TODO,
    "next_todo": _next,
    "completing_call": _completing_call,
    "ignored": lambda run, about: run.judged.ignored_cells,
    "failed_tools": failed_tools,
    "failed_rounds": failed_rounds,
}
"""Variables of guidance texts. Each has a function that takes a run and the tools that the text is about, and returns the
value. ``round`` counts from 1.
"""


def check_variables(template: str) -> None:
    """Raise `SettingsError` for an unknown variable or one in the wrong syntax."""
    for name in _FIELD.findall(template):
        if name not in VARIABLES:
            raise SettingsError(f"{{{{ {name} }}}} is not a guidance variable", suggest_names(name, VARIABLES, most=2))
    for written, name in _NEARLY.findall(template):
        if name in VARIABLES and not _FIELD.fullmatch(written):
            raise SettingsError(f"{written} is not a valid variable", f"Write exactly {{{{ {name} }}}}")


@lru_cache(maxsize=256)
def _parse(template: str) -> tuple[str, tuple[Callable[[Run, _About], object], ...]]:
    """Return the text as a ``%`` format, and the functions that return its values."""
    pieces = _FIELD.split(template)
    return "%s".join(piece.replace("%", "%%") for piece in pieces[::2]), tuple(VARIABLES[name] for name in pieces[1::2])


def render(template: str, run: Run, about: tuple[str, ...] = ()) -> str:
    """Replace the variables in a text. Inserted values are not searched for variables.

    ``about``: the tools that the text is about, if any.
    """
    text, values = _parse(template)
    filled: list[object] = []
    for value in values:  # a plain loop: used twice in every round
        filled.append(value(run, about))  # noqa: PERF401
    return text % tuple(filled) if values else template
