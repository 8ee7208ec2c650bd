"""The variables of one run of a task file, and what its expressions see of them.

``init`` and ``vars`` are set once, when the run begins, and what is passed replaces them. A task sets more in its ``post``, one
after the other: each sees the fields of the result first, then the variables; ``${result}`` is the whole result. Variables
that some task sets are null until it has.
"""

from __future__ import annotations

import copy
import json
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import msgspec

from agentnb.core.expressions import evaluate, substituted
from agentnb.core.schema.json_schema import plain_data
from agentnb.core.schema.nesting import is_too_deep
from agentnb.workflow.tasks.spec import ALWAYS_KNOWN, TaskFile

NO_NAMES: Mapping[str, Any] = {}


class Variables:
    """The variables as they stand."""

    def __init__(self, file: TaskFile, values: Mapping[str, Any]) -> None:
        """``values``: those that the run begins with."""
        self._values = dict(values)
        self._declared: dict[str, Any] = dict.fromkeys((*ALWAYS_KNOWN, *(name for task in file.tasks for name in task.post)))

    def ask(self, prompt: str) -> None:
        """Take the prompt of the run as its ``query``, unless that is passed."""
        if prompt and self._values.get("query") is None:
            self._values["query"] = prompt

    def set(self, values: Mapping[str, Any]) -> None:
        """Set some of them."""
        self._values.update(values)

    def holds(self, expression: str, extra: Mapping[str, Any] = NO_NAMES) -> bool:
        """Return whether the value of the expression is true, neither 0 nor empty. Raises `ExpressionError`."""
        return bool(evaluate(expression, self._names(extra)))

    def filled(self, data: Any, extra: Mapping[str, Any] = NO_NAMES) -> Any:
        """Return a copy of plain data with its ``${...}`` replaced. Raises `ExpressionError`."""
        return _copied(substituted(data, self._names(extra)))

    def after(self, post: Mapping[str, Any], result: Any) -> dict[str, Any]:
        """Return what a ``post`` sets after this result, which is plain data. Raises `ExpressionError`."""
        seen = {**(result if isinstance(result, dict) else {}), "result": result}
        are_plain = set(map(id, seen.values()))
        sets: dict[str, Any] = {}
        for name, data in post.items():
            value = substituted(data, ChainMap(seen, sets, self._values, self._declared))
            sets[name] = value if id(value) in are_plain else plain_data(value, f"What post sets as {name}")
        return sets

    def _names(self, extra: Mapping[str, Any]) -> ChainMap[str, Any]:
        return ChainMap(dict(extra), self._values, self._declared)


def _copied(data: Any) -> Any:
    """Return a copy of plain data, by way of JSON, which takes a tenth of the time."""
    try:
        return msgspec.json.decode(msgspec.json.encode(data))
    except (TypeError, ValueError, OverflowError):  # a number that is larger than JSON's
        return copy.deepcopy(data)


def parsed(result: Any) -> Any:
    """Return a result as data: a text that is a JSON object or list as a whole is read as that."""
    text = result.strip() if isinstance(result, str) else ""
    if not text.startswith(("{", "[")):
        return result
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return result
    return result if is_too_deep(value) else value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
