"""The JSON Schema of workflow files, for editors: made of the classes in `agentnb.workflow.spec`."""

from __future__ import annotations

import ast
import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from functools import lru_cache
from itertools import pairwise
from typing import Any

from agentnb.policies.limits import LIMITS, ON_LIMIT
from agentnb.workflow import spec
from agentnb.workflow.agent_reader import OF_WORKFLOWS, WRAPPER
from agentnb.workflow.reading import SETTINGS
from agentnb.workflow.spec import KINDS, AgentSpec, OnError, Retry, WorkflowSpec, key_of
from agentnb.workflow.step_ids import BACK_TO, ID_PATTERN
from agentnb.workflow.step_reader import step_keys

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
_STEP = {"$ref": "#/$defs/step"}
_STEPS = {"type": "array", "items": _STEP}
_TARGET = {"type": ["string", "integer"]}
_ON_ERROR = {
    "anyOf": [
        {"const": "fail"},
        {"type": "object", "properties": {"continue": {}}, "required": ["continue"], "additionalProperties": False},
        {"type": "object", "properties": {"goto": _TARGET}, "required": ["goto"], "additionalProperties": False},
    ]
}
_LEAST = {
    "max_loop_iterations": 1,
    "max_attempts": 0,
    "initial_delay_seconds": 0,
    "max_delay_seconds": 0,
    "multiplier": 1,
    "max_concurrency": 1,
}
_BY_KEY: dict[str, dict[str, Any]] = {
    "id": {"type": "string", "pattern": f"^{ID_PATTERN}$"},
    "true": {"anyOf": [_STEP, _STEPS]},
    "false": {"anyOf": [_STEP, _STEPS]},
    "steps": {**_STEPS, "minItems": 1},
    "step": _STEP,
    "goto": _TARGET,
    "on_error": _ON_ERROR,
    "retry": {"$ref": "#/$defs/retry"},
    "condition": {"type": ["string", "boolean"]},
    "context": {"anyOf": [{"enum": ["all", "none"]}, {"type": "array", "items": _TEXT}]},
    "over": {"type": ["string", "array"]},
    "on": _TEXTS,
    "timeout": {"type": "number", "exclusiveMinimum": 0},
    "output": _TEXTS,
}
"""The keys whose values are written in another way than the fields are typed."""


def workflow_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) that a workflow file fits, as a new dict.

    It says less than `agentnb.workflow.reading`: which names there are, and what templates mean, is not in it.
    """
    found = _properties(WorkflowSpec)
    own = {**{key: found[key] for key in SETTINGS}, "limits": _limits(OF_WORKFLOWS)}
    as_mapping = {
        "steps": {**_STEPS, "minItems": 1},
        "overrides": _object({"max_loop_iterations": found["max_loop_iterations"]}),
        **own,
    }
    agents = {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#/$defs/agent"}, {"type": "null"}]}}
    return {
        "$schema": DIALECT,
        "title": "A workflow of agentnb",
        **_object(
            {
                "agents": agents,
                "workflow": {
                    "if": {"type": "array"},
                    "then": {**_STEPS, "minItems": 1},
                    "else": _object(as_mapping, ["steps"]),
                },
                **own,
            },
            ["workflow"],
        ),
        "$defs": {
            "step": _any_step(),
            **{f"{kind}_step": _step(kind) for kind in KINDS},
            "retry": _object(_properties(Retry)),
            "agent": _agent(),
        },
    }


def _any_step() -> dict[str, Any]:
    # A chain of conditions, so that an editor names what is wrong with the one type that was meant.
    is_goto = {"required": ["goto"], "not": {"required": ["type"]}}
    chain: dict[str, Any] = {"required": ["type"], "properties": {"type": {"enum": list(KINDS)}}}
    for kind in reversed(KINDS):
        chain = {
            "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
            "then": {"$ref": f"#/$defs/{kind}_step"},
            "else": chain,
        }
    chain = {"if": is_goto, "then": {"$ref": "#/$defs/goto_step"}, "else": chain}
    goes_back = {"properties": {"id": {"type": "string", "pattern": f"^{BACK_TO}"}}, "required": ["id"]}
    return {"type": "object", "if": goes_back, "else": chain}


def _step(kind: str) -> dict[str, Any]:
    own = KINDS[kind]
    keys = step_keys(kind)
    found = {key: value for key, value in _properties(own).items() if key in keys}
    properties = {"type": {"const": kind}, "name": {**_TEXT, "description": "A note; it names nothing"}, **found}
    required = [key for one in fields(own) if (key := key_of(one)) in keys and key != "id" and _is_required(one)]
    return {**_object(properties, [key for key in required if key]), "description": inspect.getdoc(own)}


def _agent() -> dict[str, Any]:
    found = _properties(AgentSpec)
    found["limits"] = _limits(tuple(LIMITS), {"on_limit": {"enum": list(ON_LIMIT)}, "unpriced": {"type": "boolean"}})
    found["tools"] = _TEXTS
    found["structured_output"] = {
        **found["structured_output"],
        "if": {"required": ["schema"], "properties": {"schema": {"type": "object"}, "type": False, "properties": False}},
        "then": _object({**dict.fromkeys(WRAPPER, _TEXT), "strict": {"type": "boolean"}, "schema": {"type": "object"}}),
    }
    return _object(found)


def _limits(names: tuple[str, ...], more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    rows = {name: LIMITS[name] for name in names}
    amounts = {
        name: {
            **(
                {"type": ["number", "null"], "exclusiveMinimum": 0} if row.unit else {"type": ["integer", "null"], "minimum": 1}
            ),
            "description": row.help,
        }
        for name, row in rows.items()
    }
    return _object({**amounts, **(more or {})})


def _object(properties: Mapping[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**found, "required": required} if required else found


def _properties(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, vars(spec))
    told = _descriptions()
    found: dict[str, Any] = {}
    for one in fields(kind):
        key = key_of(one)
        if key is None or kind is OnError:
            continue
        schema = dict(_BY_KEY.get(key) or _of_type(hints[one.name]))
        if key in _LEAST:
            schema["minimum"] = _LEAST[key]
        owner = next(base for base in kind.__mro__ if one.name in inspect.get_annotations(base))
        description = told.get((owner.__name__, one.name))
        found[key] = {**schema, "description": description} if description else schema
    return found


def _of_type(hint: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return _of_type(next(one for one in arguments if one is not type(None)))
    if origin is tuple:
        return {"type": "array", "items": _of_type(arguments[0])}
    if origin is not None:
        return {"type": "object"}
    return {str: _TEXT, bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"}}.get(hint, {})


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


@lru_cache(maxsize=1)
def _descriptions() -> dict[tuple[str, str], str]:
    """Return what stands below the fields in the source, by class and field; nothing if there is no source."""
    try:
        tree = ast.parse(inspect.getsource(spec))
    except OSError:
        return {}
    found: dict[tuple[str, str], str] = {}
    for one in tree.body:
        body = one.body if isinstance(one, ast.ClassDef) else []
        for before, after in pairwise(body):
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(after, ast.Expr):
                found[one.name, before.target.id] = str(ast.literal_eval(after.value))  # type: ignore[attr-defined]
    return found
