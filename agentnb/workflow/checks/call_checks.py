"""Checks of calls and texts before the run, for every file format; values that come from references are exempt."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from agentnb.core.expressions import OF_TASKS, OF_WORKFLOWS, Spelling, pieces
from agentnb.core.schema.data_paths import Place, texts_with_places
from agentnb.core.schema.json_schema import SchemaError, UnusableSchema, plain_data, schema_errors
from agentnb.errors import suggest_names
from agentnb.tools.mcp.wire_names import is_named, tool_of_word
from agentnb.workflow.form.problems import Problems, note_no_tool
from agentnb.workflow.form.yaml_source import ScalarNode
from agentnb.workflow.graph.nodes import Graph, Node

_OF_SEVERAL = frozenset({"required", "additionalProperties", "unevaluatedProperties", "dependentRequired", "minProperties"})
"""Schema keywords that constrain an object as a whole, whatever its values."""


class Position(NamedTuple):
    """Where a call is written. ``name``: its tool as written, if that differs from the tool's name."""

    where: str
    line: int
    arguments: Callable[[Place], int] | int
    """The line of each argument if known, otherwise that of all of them."""
    name: str = ""


def check_calls(
    graph: Graph,
    tools: Collection[str],
    refers: Callable[[str], object],
    problems: Problems,
    locate: Callable[[Node], Position],
    actions: Collection[str] = (),
) -> None:
    """Check each call of a graph; see `check_call`. Calls of ``actions``, which are not tools, are exempt."""
    for node, call in graph.calls():
        if call.name and call.name not in actions:
            check_call(call.name, call.args, tools, refers, problems, locate(node), actions)


def check_call(
    name: str,
    arguments: Mapping[str, Any] | None,
    tools: Collection[str],
    refers: Callable[[str], object],
    problems: Problems,
    position: Position,
    actions: Collection[str] = (),
) -> None:
    """Report an unknown tool or, if ``tools`` maps names to schemas, arguments that violate the tool's schema.

    ``refers``: returns True for a text with references, whose values are not known yet. ``actions``: other names to suggest.
    """
    if is_named(name, tools):  # its server reports an unknown one
        return
    written, name = position.name or name, tool_of_word(name)
    if name not in tools:
        what = f"there is neither an action {written} nor a tool {name}" if actions else f"there is no tool {written}"
        note_no_tool(name, tools, problems, position.line, position.where, what=what, actions=actions)
    elif isinstance(tools, Mapping) and arguments is not None:
        _check_arguments(name, tools[name], arguments, refers, problems, position)


def _check_arguments(
    name: str,
    schema: dict[str, Any],
    arguments: Mapping[str, Any],
    refers: Callable[[str], object],
    problems: Problems,
    position: Position,
) -> None:
    values, line_at, where = plain_data(arguments), position.arguments, position.where
    later = [path for path, text in texts_with_places(values) if refers(text)]
    try:
        errors = schema_errors(schema, values)
    except UnusableSchema as error:
        problems.warn(line_at if isinstance(line_at, int) else line_at(()), f"{where}: {name}: {error}")
        return
    properties = schema.get("properties") or {}
    for mismatch in errors:
        if not _depends_on(mismatch, later):
            problem = f"unknown argument {', '.join(mismatch.unexpected)}" if mismatch.unexpected else mismatch.sentence
            closest = (
                []
                if mismatch.where
                else [hint for argument in mismatch.unexpected if (hint := suggest_names(argument, properties))]
            )
            line = line_at if isinstance(line_at, int) else line_at(mismatch.where)
            problems.add(line, f"{where}: {name}: {problem}", closest[0] if closest else _signature(schema, mismatch))


def _depends_on(error: SchemaError, later: Sequence[Place]) -> bool:
    """True if an error concerns a value that a reference will supply."""
    where = error.where
    return any(
        where[: len(path)] == path or (path[: len(where)] == where and error.keyword not in _OF_SEVERAL) for path in later
    )


def _signature(schema: dict[str, Any], mismatch: SchemaError) -> str:
    required = schema.get("required", [])
    names = [name if name in required else f"{name} (optional)" for name in schema.get("properties", {})]
    subject = "It" if mismatch.keyword != "required" else "The tool" if mismatch.where else "Add it: the tool"
    return f"{subject} takes {', '.join(names) or 'no arguments'}"


OTHER_FORM = "W_OTHER_FORM"
"""Warning code for expressions in the wrong notation."""
_OTHERS = {
    OF_WORKFLOWS: (
        re.compile(r"\$\{[^{}\n]+\}"),
        "Workflows use {{ $... }}, such as {{ $steps.ID.output }}; ${...} is for task files",
    ),
    OF_TASKS: (
        re.compile(r"\{\{[^{}\n]+\}\}"),
        "Task files use ${...}, such as ${result}; {{ ... }} is for workflows",
    ),
}
"""For each notation, the pattern that finds the other notation, and a hint."""


def warn_of_other_form(node: ScalarNode, where: str, problems: Problems, own: Spelling) -> None:
    """Warn about expressions in the other notation. Raises `ExpressionError` for an invalid expression in the file's own
    notation.
    """
    pattern, hint = _OTHERS[own]
    outside = (piece for piece in pieces(node.text, own) if isinstance(piece, str)) if pattern.search(node.text) else ()
    if (match := next(filter(None, map(pattern.search, outside)), None)) is not None:
        line = node.line_of(node.text.find(match[0]))
        problems.warn(line, f"{where}: {match[0][:80]} is not replaced", hint, code=OTHER_FORM)
