"""JSON in a model's answer: alone, in a code fence, or surrounded by prose."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from agentnb.core.schema.data_paths import PathError, Reference, below, describe_value
from agentnb.core.schema.nesting import is_too_deep

MAX_TRIED = 200
"""Maximum positions in a text at which the parser tries to start an object or array."""
_WHITE = " \t\r\n"


def json_values(text: str) -> list[Any]:
    """Return all JSON objects and arrays in a text, in order.

    A text that consists only of JSON yields one value. Nested values are not returned separately.
    """
    try:
        whole = _DECODER.decode(text.strip(_WHITE))
    except (ValueError, RecursionError):
        return _values_within(text)
    return [whole] if isinstance(whole, dict | list) and not is_too_deep(whole) else []


def parse_result(result: Any) -> Any:
    """Parse a text that is entirely a JSON object or array; return anything else unchanged."""
    text = result.strip() if isinstance(result, str) else ""
    if not text.startswith(("{", "[")):
        return result
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return result
    return result if is_too_deep(value) else value


def below_output(output: Any, path: Reference, done: int, values_of: Callable[[str], list[Any]] = json_values) -> Any:
    """Resolve the parts of a path from index ``done`` within an output; for text, within the one JSON value in it that has the
    path.

    Raises `PathError`.
    """
    if not isinstance(output, str) or done == len(path.parts):
        return below(output, path, done)
    values, missing, prefix = list[Any](), list[PathError](), path.upto(done)
    for value in sorted(values_of(output), key=lambda value: isinstance(value, list)):  # errors of objects are clearer
        try:
            values.append(below(value, path, done))
        except PathError as error:
            missing.append(error)
    if not values:
        problem = f"{prefix} is not JSON and has no {path.parts[done]}: {describe_value(output)}"
        raise next(iter(missing), PathError(problem, "Make it answer in JSON; for an agent, use structured_output"))
    if any(value != values[0] for value in values):
        problem = f"{prefix} contains {len(values)} JSON values with different {path.upto(len(path.parts))}"
        raise PathError(problem, "Make it answer with one value; for an agent, use structured_output")
    return values[0]


def _values_within(text: str) -> list[Any]:
    values: list[Any] = []
    position = 0
    for _ in range(MAX_TRIED):
        position = min((at for at in (text.find("{", position), text.find("[", position)) if at >= 0), default=-1)
        if position < 0:
            break
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            position += 1
            continue
        if not is_too_deep(value):
            values.append(value)
    return values


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
