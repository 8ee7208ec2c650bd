"""Type hints of functions. Library hints often name types that only type checkers import."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from textwrap import dedent
from typing import Any

from agentnb.errors import InvalidTool

INSTALLED = frozenset({"site-packages", "dist-packages"})


def is_of_library(code: Any) -> bool:
    """True if a function belongs to Python or an installed package other than agentnb.

    This includes functions not written in Python.
    """
    module = getattr(code, "__globals__", {}).get("__name__")
    if not isinstance(module, str):
        return True
    if module == "__main__":  # its file may be a launcher
        return False
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return package != "agentnb" and isinstance(file, str) and not INSTALLED.isdisjoint(Path(file).parts)


MAX_DESCRIPTION = 1_000
"""Maximum number of characters in the description of a library function."""
MAX_OF_PARAMETER = 200
"""Maximum number of characters in the description of a parameter."""


def short_description(text: str) -> str:
    """Return the first paragraphs of a description within the limit."""
    if len(text) <= MAX_DESCRIPTION:
        return text
    paragraphs = text.split("\n\n")
    short = shorten(paragraphs[0], MAX_DESCRIPTION)
    for paragraph in paragraphs[1:]:
        longer = f"{short}\n\n{paragraph}"
        if len(longer) > MAX_DESCRIPTION:
            break
        short = longer
    return short


def shorten(text: str, most: int = MAX_OF_PARAMETER) -> str:
    """Return the first sentences of the text that fit, on one line, or the beginning of the first if it is too long."""
    if len(text) <= most:
        return text
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    sentences, stop, _ = line[: most + 1].rpartition(". ")
    return f"{sentences}." if stop else f"{line[: most - 1].rpartition(' ')[0] or line[: most - 1]}…"


UNREADABLE = object()
"""Type hint of a library that cannot be evaluated."""
_FOR_CHECKERS = re.compile(r"^if (?:typing\.)?TYPE_CHECKING:[^\n]*\n((?:(?:[ \t][^\n]*)?\n)+)", re.MULTILINE)


def read_hints(code: Any, name: str, *, is_library: bool) -> dict[str, Any]:
    """Return the type hints of a function by parameter; `UNREADABLE` for unknown types of library functions.

    Raises `InvalidTool` for an unreadable hint of any other function.
    """
    try:
        return typing.get_type_hints(code, include_extras=True)
    except Exception as error:  # hints are code and may raise anything
        if not is_library:
            if not isinstance(error, NameError | TypeError | AttributeError | SyntaxError):
                raise
            raise InvalidTool(f"A type hint of {name} cannot be read: {error}", "Import or define the type first") from error
    variables = getattr(code, "__globals__", {})
    names = _names_for_checkers(str(variables.get("__name__")))
    return {parameter: _evaluate(hint, variables, names) for parameter, hint in code.__annotations__.items()}


def _evaluate(hint: Any, variables: dict[str, Any], names: dict[str, Any]) -> Any:
    """Evaluate a quoted type hint, as `typing.get_type_hints` would."""
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, variables, names)  # code of an imported module, which `typing` would evaluate too
    except Exception:  # as above
        return UNREADABLE


@cache
def _names_for_checkers(module: str) -> dict[str, Any]:
    """Return the imports under a module's TYPE_CHECKING that are already loaded for other reasons. Runs no code."""
    names: dict[str, Any] = {}
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return names
    for block in _FOR_CHECKERS.findall(source):
        with suppress(SyntaxError):
            for statement in ast.parse(dedent(block)).body:
                names.update(_loaded_imports(statement, module))
    return names


def _loaded_imports(statement: ast.stmt, module: str) -> Iterator[tuple[str, Any]]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            path = alias.name if alias.asname else alias.name.partition(".")[0]
            if path in sys.modules:
                yield alias.asname or path, sys.modules[path]
    elif isinstance(statement, ast.ImportFrom):
        package = getattr(sys.modules[module], "__package__", None) or ""
        with suppress(ImportError):
            source = sys.modules.get(resolve_name("." * statement.level + (statement.module or ""), package))
            held = {} if source is None else vars(source)
            yield from ((alias.asname or alias.name, held[alias.name]) for alias in statement.names if alias.name in held)
