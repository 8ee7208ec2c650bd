"""JSON Schema of task files for editors, derived from the classes to which tasks are compiled."""

from __future__ import annotations

from agentnb.core.messages import JsonObject
from agentnb.workflow.form.agent_reader import OF_WORKFLOWS
from agentnb.workflow.form.class_schema import TEXT, TEXTS, file_schema, limits_schema, object_schema, properties_of
from agentnb.workflow.graph.nodes import Await, Call, Each, Jump, Node
from agentnb.workflow.tasks.task_file import MODES, NAME, STAGES
from agentnb.workflow.tasks.task_reader import ITEM_KEYS, OF_EMITS, OF_RETRIES, RETRY_TYPES, TASK_KEYS, VARIABLE
from agentnb.workflow.tasks.task_spec import ApprovalRules, TaskFile

_LEAST = {"max_loop_iterations": 1, "max_plan_iterations": 1}
_LIST = {"type": "array", "items": TEXT}
_DURATION = {
    "anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^\s*\d+(\.\d+)?(ms|s|m|h)\s*$"}],
    "description": "Seconds, or 500ms, 1s, 5m, 1h.",
}
_RETRY = {
    "type": {"enum": list(RETRY_TYPES)},
    "maxRetries": {"type": "integer", "minimum": 0, "description": "Attempts after the first."},
    "delay": _DURATION,
    "multiplier": {"type": "number", "minimum": 1, "description": "Growth factor of an exponential wait."},
    "maxDelay": _DURATION,
}
_BY_KEY: dict[str, JsonObject] = {
    "when": {"type": ["string", "boolean"]},
    "goto": {"anyOf": [{"$ref": "#/$defs/goto"}, {"type": "array", "items": {"$ref": "#/$defs/goto"}}]},
    "onError": {"$ref": "#/$defs/onError"},
    "dependsOn": TEXTS,
    "on": TEXTS,
    "retry": {"$ref": "#/$defs/retry"},
    "forEach": {"type": ["string", "array"]},
    "task": {
        "type": "object",
        "minProperties": 1,
        "maxProperties": 1,
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "additionalProperties": {"$ref": "#/$defs/item_task"},
    },
    "await": {"$ref": "#/$defs/await"},
    "allow": TEXTS,
    "block": TEXTS,
    "approval": {"anyOf": [{"enum": list(MODES)}, {"$ref": "#/$defs/approval"}]},
}
"""Schemas of keys that are not written as the field types suggest."""
_KEYS: dict[type, dict[str, str]] = {
    Each: {"over": "forEach", "item_name": "as", "node": "task", "wait": "await"},
    Await: {"mode": "mode", "on": "on", "merge": "merge"},
    Jump: {"to": "task", "when": "when"},
    Call: {"name": "action", "args": "input"},
    Node: {
        **{name: name for name in ("when", "post", "abort", "retry")},
        **{"jumps": "goto", "handler": "onError", "after": "dependsOn", "is_beside": "async"},
    },
}
"""Keys of task files, by graph class and field."""


def tasks_schema() -> JsonObject:
    """Return the JSON Schema (draft 2020-12) of task files, as a new dict.

    References to names and the contents of expressions are checked only by `agentnb.workflow.tasks.task_file`.
    """
    properties = properties_of(TaskFile, _BY_KEY, _LEAST)
    of_file = {
        "name": properties["name"],
        "description": properties["description"],
        "init": properties["init"] | _variables(),
        "vars": properties["init"] | _variables(),
        **{key: {"$ref": "#/$defs/block"} for key in STAGES},
        **{key: properties[key] for key in ("max_loop_iterations", "max_plan_iterations", "approval")},
        "limits": limits_schema(OF_WORKFLOWS),
    }
    defs = {"block": _block(), "task_or_block": _task_or_block(), **_parts()}
    one_stage = [{"required": [key]} for key in STAGES]
    return file_schema("A task file of agentnb", object_schema(of_file), defs, oneOf=one_stage)


def _parts() -> JsonObject:
    emit, awaits, goto, call, task = [properties_of(kind, _BY_KEY, keys=keys) for kind, keys in _KEYS.items()]
    task |= {**call, "await": emit["await"]}
    task = {key: {"$ref": "#/$defs/emit"} if key == "emit" else task[key] for key in TASK_KEYS}
    of_await = {**awaits, "timeout": _DURATION}
    return {
        "task": object_schema(task),
        "item_task": object_schema({key: task[key] for key in ITEM_KEYS}, ["action"]),
        "emit": object_schema({key: emit[key] for key in OF_EMITS}, list(OF_EMITS)),
        "await": {"anyOf": [{"type": "boolean"}, object_schema(of_await)]},
        "goto": object_schema({"task": TEXT | {"description": goto["task"]["description"]}, "when": goto["when"]}, ["task"]),
        "onError": object_schema({key: task[key] for key in ("action", "input")}, ["action"]),
        "retry": object_schema({key: _RETRY[key] for key in OF_RETRIES}),
        "approval": object_schema(properties_of(ApprovalRules, _BY_KEY)),
    }


def _variables() -> JsonObject:
    return {"propertyNames": {"pattern": f"^{VARIABLE.pattern}$"}}


def _block() -> JsonObject:
    return {
        "type": "object",
        "properties": {"vars": {"type": "object", **_variables()}},
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "additionalProperties": {"$ref": "#/$defs/task_or_block"},
        "description": "Tasks and blocks of tasks by name, in the order in which they run.",
    }


def _task_or_block() -> JsonObject:
    return {
        "type": "object",
        "if": {"anyOf": [{"required": [key]} for key in TASK_KEYS]},
        "then": {"$ref": "#/$defs/task"},
        "else": {"$ref": "#/$defs/block"},
    }
