"""The todo tool's definition for the model: a name, the text of ``todo_operations.md``, and a schema that never changes."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from agentnb.core.request import ToolSpec
from agentnb.core.todos import TODO_TOOL
from agentnb.tools.todos.items import PRIORITIES, STATUSES

PARAMETERS = {"write": "todoList", "update": "todoUpdates", "add": "newTodos"}
"""The parameter that each operation needs."""
OPERATIONS = ("read", *PARAMETERS)

_ITEM: dict[str, dict[str, Any]] = {
    "id": {"type": "integer"},
    "title": {"type": "string"},
    "description": {"type": "string"},
    "status": {"type": "string", "enum": list(STATUSES)},
    "priority": {"type": "string", "enum": list(PRIORITIES)},
    "dependencies": {"type": "array", "items": {"type": "integer"}},
    "canRunParallel": {"type": "boolean"},
    "parallelGroup": {"type": "string"},
    "progress": {"type": "number", "minimum": 0, "maximum": 1},
    "blockedReason": {"type": "string"},
}


@cache
def todo_spec() -> ToolSpec:
    """Return the tool as a model sees it; made once."""
    words = _words()
    properties = {
        "operation": {"type": "string", "enum": list(OPERATIONS), "description": words["operation"]},
        "todoList": _items(words, "todoList", ("id", "title", "status")),
        "todoUpdates": _items(words, "todoUpdates", ("id",)),
        "newTodos": _items(words, "newTodos", ("title",), without="id"),
    }
    schema = {"type": "object", "properties": properties, "required": ["operation"], "additionalProperties": False}
    return ToolSpec(TODO_TOOL, words[""], schema, role="list")


def _items(words: dict[str, str], parameter: str, required: tuple[str, ...], without: str = "") -> dict[str, Any]:
    properties = {name: kind | {"description": words[name]} for name, kind in _ITEM.items() if name != without}
    item = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "array", "description": words[parameter], "items": item}


def _words() -> dict[str, str]:
    """Return the description, under an empty name, and a line for each parameter and field."""
    text = files("agentnb.tools.todos").joinpath("todo_operations.md").read_text(encoding="utf-8")
    description, *parts = text.split("\n## ")
    words = {"": description.strip()}
    for part in parts:
        name, _, line = part.partition("\n")
        words[name.strip()] = " ".join(line.split())
    return words
