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
from agentnb.detect.run import Run
from agentnb.errors import ExpressionError
from agentnb.workflow.tasks.spec import ALWAYS_KNOWN, TaskFile


class Variables:
    """The variables as they stand."""

    def __init__(self, file: TaskFile, values: Mapping[str, Any]) -> None:
        """``values``: those that the run begins with."""
        self._values = dict(values)
        declared: dict[str, Any] = dict.fromkeys((*ALWAYS_KNOWN, *(name for task in file.tasks for name in task.sets)))
        self._names: ChainMap[str, Any] = ChainMap(self._values, declared)

    def begun(self, run: Run) -> Variables:
        """Return them with the prompt of the run as their ``query``, unless that is passed."""
        if run.prompt and self._values.get("query") is None:
            self._values["query"] = run.prompt
        return self

    def set(self, values: Mapping[str, Any]) -> None:
        """Set some of them."""
        self._values.update(values)

    def with_names(self, names: Mapping[str, Any]) -> Variables:
        """Return the same variables, of which some more names are known."""
        found = copy.copy(self)
        found._names = ChainMap(dict(names), *self._names.maps)
        return found

    def with_item(self, name: str, item: Any, index: int) -> Variables:
        """Return the same variables with the item that a task works on."""
        return self.with_names({name: item})

    def holds(self, condition: str) -> bool:
        """Return whether the value of an expression is true, neither 0 nor empty. Raises `ExpressionError`."""
        return bool(evaluate(condition, self._names))

    def filled(self, data: Any, *, is_copied: bool = True) -> Any:
        """Return plain data with its ``${...}`` replaced, as a copy unless nothing changes it. Raises `ExpressionError`."""
        found = substituted(data, self._names)
        return _copied(found) if is_copied else found

    def items(self, over: Any, node: str) -> list[Any]:
        """Return the list that an ``emit`` goes over. Raises `ExpressionError`."""
        items = parsed(self.filled(over))
        if not isinstance(items, list | None):
            what = f"emit: forEach is not a list: {str(over)[:100]}"
            raise ExpressionError(what, "Let it read a list, such as ${results}")
        return items or []

    def after(self, post: Mapping[str, Any], result: Any) -> dict[str, Any]:
        """Return what a ``post`` sets after this result, which is plain data. Raises `ExpressionError`."""
        seen = {**(result if isinstance(result, dict) else {}), "result": result}
        are_plain = set(map(id, seen.values()))
        sets: dict[str, Any] = {}
        before: ChainMap[str, Any] = ChainMap(sets, *self._names.maps)
        for written, data in post.items():
            value, name = substituted(data, ChainMap(seen, *before.maps)), written.removesuffix("[]")
            plain = value if id(value) in are_plain else plain_data(value, f"What post sets as {name}")
            if name != written and not isinstance(before[name], list | None):
                raise ExpressionError(f"post: {written}: {name} is not a list", f"Begin with init: {{{name}: []}}")
            sets[name] = plain if name == written else [*(before[name] or ()), plain]
        return sets


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
