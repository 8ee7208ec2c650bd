"""The simulated model's answers for an agent with a JSON Schema: a matching result, or made-up values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from agentnb.core.messages import JsonObject, ToolResult
from agentnb.core.request import Request
from agentnb.core.schema.json_schema import schema_problems
from agentnb.core.schema.nesting import is_too_deep
from agentnb.core.schema.references import part_at
from agentnb.models.simulated.planner import COMPLETE, Move

MAX_LEVELS = 8
"""Maximum nesting of made-up values."""
MAX_LENGTH = 1_000
"""Maximum characters, or items, of a made-up value, whatever the schema requires."""
_FORMATS = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "email": "somebody@example.org",
    "uri": "https://example.org",
}


def shape_answer(move: Move, schema: JsonObject, request: Request) -> str:
    """Return the text of the move; if the move is an answer, JSON that matches the schema as far as the model can tell."""
    if move.kind not in ("answer", "introduction"):
        return move.text
    words = move.text.removesuffix(COMPLETE).strip()
    value = next(_results_that_fit(schema, request), None)
    text = msgspec.json.encode(_invent_value(schema, schema, words, 0) if value is None else value).decode()
    return f"{text}\n\n{COMPLETE}" if move.text.endswith(COMPLETE) else text


def _results_that_fit(schema: JsonObject, request: Request) -> Iterator[Any]:
    for message in reversed(request.messages):
        for part in reversed(message.parts):
            if isinstance(part, ToolResult) and not part.is_error:
                try:
                    value = msgspec.json.decode(part.text)
                except (msgspec.DecodeError, RecursionError):
                    continue
                if not is_too_deep(value) and next(schema_problems(schema, value), None) is None:
                    yield value


def _invent_value(schema: Any, root: JsonObject, words: str, level: int) -> Any:
    """Return the smallest matching value, using ``words`` for its strings."""
    if not isinstance(schema, dict) or level > MAX_LEVELS:
        return None
    if "$ref" in schema:
        return _invent_value(part_at(str(schema["$ref"]).removeprefix("#"), root), root, words, level + 1)
    candidates = [schema[key] for key in ("const", "default") if key in schema]
    candidates += [schema[key][0] for key in ("enum", "examples") if schema.get(key)]
    if candidates:
        return candidates[0]
    alternatives = [schema[key][0] for key in ("anyOf", "oneOf", "allOf") if schema.get(key)]
    return _invent_value(alternatives[0], root, words, level + 1) if alternatives else _of_kind(schema, root, words, level)


def _of_kind(schema: JsonObject, root: JsonObject, words: str, level: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        properties = schema.get("properties", {})
        return {name: _invent_value(properties.get(name, {}), root, words, level + 1) for name in schema.get("required", ())}
    if kind == "array":
        count = min(schema.get("minItems", 0), MAX_LENGTH)
        return [_invent_value(schema.get("items", {}), root, words, level + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        return _number(schema)
    return _text(schema, words) if kind == "string" else {"boolean": True, "null": None}.get(kind)


def _number(schema: JsonObject) -> Any:
    least, most = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1), schema.get("maximum")
    return least if most is None or least <= most else most


def _text(schema: JsonObject, words: str) -> str:
    text = _FORMATS.get(schema.get("format", ""), words)
    text = text[: schema["maxLength"]] if "maxLength" in schema else text
    return text.ljust(min(schema.get("minLength", 0), MAX_LENGTH), ".")
