"""JSON Schema of workflow files for editors, derived from the classes in `agentnb.workflow.form.workflow_spec`."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields

from agentnb.core.messages import JsonObject
from agentnb.core.step_retry import Retry
from agentnb.policies.run_limits import LIMITS, ON_LIMIT
from agentnb.workflow.files.workflow_reader import SETTINGS
from agentnb.workflow.form.agent_reader import OF_WORKFLOWS, WRAPPER
from agentnb.workflow.form.class_schema import TEXT, TEXTS, file_schema, limits_schema, object_schema, properties_of
from agentnb.workflow.form.step_ids import BACK_TO, ID_PATTERN
from agentnb.workflow.form.step_reader import MAX_RETRIES, step_keys
from agentnb.workflow.form.workflow_spec import KINDS, AgentSpec, WorkflowSpec, key_of

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
_BY_KEY: dict[str, JsonObject] = {
    "id": {"type": "string", "pattern": f"^{ID_PATTERN}$"},
    "true": {"anyOf": [_STEP, _STEPS]},
    "false": {"anyOf": [_STEP, _STEPS]},
    "steps": {**_STEPS, "minItems": 1},
    "step": _STEP,
    "goto": _TARGET,
    "on_error": _ON_ERROR,
    "retry": {"$ref": "#/$defs/retry"},
    "condition": {"type": ["string", "boolean"]},
    "context": {"anyOf": [{"enum": ["all", "none"]}, {"type": "array", "items": TEXT}]},
    "over": {"type": ["string", "array"]},
    "on": TEXTS,
    "timeout": {"type": "number", "exclusiveMinimum": 0},
    "output": TEXTS,
}
"""Schemas of keys that are not written as the field types suggest."""


def workflow_schema() -> JsonObject:
    """Return the JSON Schema (draft 2020-12) of workflow files, as a new dict.

    References to names and the contents of templates are checked only by `agentnb.workflow.files.workflow_reader`.
    """
    properties = _of_class(WorkflowSpec)
    own = {**{key: properties[key] for key in SETTINGS}, "limits": limits_schema(OF_WORKFLOWS)}
    as_mapping = {
        "steps": _BY_KEY["steps"],
        "overrides": object_schema({"max_loop_iterations": properties["max_loop_iterations"]}),
        **own,
    }
    agents = {"type": "object", "additionalProperties": {"anyOf": [{"$ref": "#/$defs/agent"}, {"type": "null"}]}}
    steps = {"if": {"type": "array"}, "then": _BY_KEY["steps"], "else": object_schema(as_mapping, ["steps"])}
    defs = {
        "step": _any_step(),
        **{f"{kind}_step": _step(kind) for kind in KINDS},
        "retry": object_schema({MAX_RETRIES: {"type": "integer", "minimum": 0}, **_of_class(Retry)}),
        "agent": _agent(),
    }
    of_file = {"agents": agents, "workflow": steps, **own}
    return file_schema("A workflow of agentnb", object_schema(of_file, ["workflow"]), defs)


def _any_step() -> JsonObject:
    # A chain of conditions lets an editor report only errors of the intended type.
    is_goto = {"required": ["goto"], "not": {"required": ["type"]}}
    chain: JsonObject = {"required": ["type"], "properties": {"type": {"enum": list(KINDS)}}}
    for kind in reversed(KINDS):
        chain = {
            "if": {"properties": {"type": {"const": kind}}, "required": ["type"]},
            "then": {"$ref": f"#/$defs/{kind}_step"},
            "else": chain,
        }
    chain = {"if": is_goto, "then": {"$ref": "#/$defs/goto_step"}, "else": chain}
    goes_back = {"properties": {"id": {"type": "string", "pattern": f"^{BACK_TO}"}}, "required": ["id"]}
    return {"type": "object", "if": goes_back, "else": chain}


def _step(kind: str) -> JsonObject:
    own = KINDS[kind]
    keys = step_keys(kind)
    schemas = {key: value for key, value in _of_class(own).items() if key in keys}
    properties = {"type": {"const": kind}, "name": {**TEXT, "description": "A note without effect"}, **schemas}
    of_fields = [(key_of(field), field.default is MISSING and field.default_factory is MISSING) for field in fields(own)]
    required = [key for key, is_required in of_fields if key in keys and key != "id" and is_required]
    return {**object_schema(properties, [key for key in required if key]), "description": inspect.getdoc(own)}


def _agent() -> JsonObject:
    properties = _of_class(AgentSpec)
    properties["limits"] = limits_schema(tuple(LIMITS), {"on_limit": {"enum": list(ON_LIMIT)}, "unpriced": {"type": "boolean"}})
    properties["tools"] = TEXTS
    properties |= {key: {**properties[key], **TEXTS} for key in ("sub_agents", "deny")}
    properties["structured_output"] = {
        **properties["structured_output"],
        "if": {"required": ["schema"], "properties": {"schema": {"type": "object"}, "type": False, "properties": False}},
        "then": object_schema({**dict.fromkeys(WRAPPER, TEXT), "strict": {"type": "boolean"}, "schema": {"type": "object"}}),
    }
    return object_schema(properties)


def _of_class(kind: type) -> JsonObject:
    return properties_of(kind, _BY_KEY, _LEAST)
