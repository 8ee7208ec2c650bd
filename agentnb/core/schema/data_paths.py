"""Paths into plain data, in all spellings: ``plan.steps[-1].name``, ``$steps.qa.output``, ``$step[0].output.rows``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from agentnb.errors import ExpressionError, suggest_names

Place: TypeAlias = tuple[str | int, ...]
"""Position of a value in plain data: keys and indices."""


class PathError(ExpressionError):
    """A path has no value; ``what`` is the reason, without the surrounding expression."""


class Reference(NamedTuple):
    """A path: ``$steps.par.outputs[1].output`` is the root ``$steps`` with the parts par, outputs, 1 and output."""

    root: str
    parts: tuple[Any, ...] = ()
    """Names and indices, or None for a nested expression until it is evaluated."""
    written: str = ""
    place: int = 0
    """Position of the path in the surrounding text."""

    def upto(self, count: int) -> str:
        """Return the first ``count`` parts of the path, as a person would write it."""
        return self.root + "".join(_format_part(part) for part in self.parts[:count])


def texts_with_places(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Yield the strings within plain data, each with its position."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping | list):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from texts_with_places(item, (*place, key))


def below(value: Any, path: Reference, done: int = 0, end: int | None = None) -> Any:
    """Resolve the parts of a path from ``done`` in plain data. Raises `PathError`, listing the available names."""
    for at in range(done, len(path.parts) if end is None else end):
        value = item(value, path, at)
    return value


def item(value: Any, path: Reference, at: int) -> Any:
    """Resolve one part of a path. Raises `PathError`."""
    part, parent = path.parts[at], path.upto(at)
    if isinstance(value, dict):
        if not isinstance(part, str):
            raise PathError(f"{parent} is an object: [{part!r}] is not a key", f'Write {parent}["name"]')
        if part not in value:
            raise PathError(f"{parent} has no {part}", suggest_names(part, [name for name in value if isinstance(name, str)]))
        return dict.__getitem__(value, part)
    if not isinstance(value, list | tuple | str) or (isinstance(part, str) and not _is_place(part)):
        raise PathError(f"{parent} is {describe_value(value)} and has no {part}")
    if type(part) is not int and not isinstance(part, str):
        raise PathError(
            f"{parent} is {kind_of(value)}: [{part!r}] is not an index", "Indexes count from 0; -1 is the last item"
        )
    index = int(part)
    if not -len(value) <= index < len(value):
        problem = f"{parent} has {len(value)} items: [{index}] is out of range"
        raise PathError(problem, f"Check first: len({parent}) > 0 && ...")
    return value[index]


def _is_place(part: str) -> bool:
    return part.isdecimal() and len(part) < 10


def _format_part(part: Any) -> str:
    if isinstance(part, str):
        return f".{part}" if part.replace("-", "_").isidentifier() else f'["{part}"]'
    return f"[{part}]"


def kind_of(value: Any) -> str:
    """Describe the kind of a plain value in words."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    kinds = ((str, "a string"), (int | float, "a number"), (Mapping, "an object"), (list | tuple, "a list"))
    return next((words for kind, words in kinds if isinstance(value, kind)), f"a {type(value).__name__}")


def describe_value(value: Any) -> str:
    """Return a short description of a plain value for an error."""
    if isinstance(value, str):
        line = " ".join(value.split())
        return f"the string {line[:60]!r}" + ("..." if len(line) > 60 else "")
    return f"the number {value}" if kind_of(value) == "a number" else kind_of(value)
