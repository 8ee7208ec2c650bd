"""Reads context types from YAML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.chat.context_spec import NOTHING, PLAN_RULE, TOOLS
from agentnb.errors import near
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import ListNode, MappingNode, read_mapping, read_yaml

KEYS = ("name", "aliases", "intent", "behaviours", "profile", "tools", "plan_rules", "limits", "load")
EXAMPLE = "Write keys such as intent: and behaviours:, one in a line"


def context_settings(text: str, name: str, functions: Mapping[str, Any], source: str = "") -> dict[str, Any]:
    """Return the settings of the context that a text describes.

    ``name``: the name, if the text has none; ``functions``: the functions that ``load:`` may name. Raises `WorkflowProblems`
    with every problem.
    """
    problems = Problems(source)
    node = read_mapping(text, problems, "A context", EXAMPLE)
    found = {} if node is None else _settings(Fields(node, "context", problems), name, functions)
    problems.check()
    return found


def contexts_of_file(text: str) -> list[dict[str, Any]]:
    """Return the settings of the contexts of a list. Raises `WorkflowProblems`."""
    problems = Problems()
    node = read_yaml(text, problems)
    items = node.items if isinstance(node, ListNode) else ()
    found = [_settings(Fields(one, "context", problems), "") for one in items if isinstance(one, MappingNode)]
    problems.check()
    return found


def _settings(fields: Fields, name: str, functions: Mapping[str, Any] = NOTHING) -> dict[str, Any]:
    fields.refuse_unknown(KEYS)
    own = fields.text("name")
    if not own and not name:
        fields.problems.add(fields.line, "context: it has no name", "Write name: WORD")
    if own and name and own != name:
        fields.problems.add(fields.line_of("name"), f"context: name is {own}, but {name} above", "Leave one of them out")
    tools = fields.fields("tools")
    if tools is not None:
        tools.refuse_unknown(TOOLS)
    rules = [
        Fields(one, "plan_rules", fields.problems) for one in fields.items("plan_rules") or () if isinstance(one, MappingNode)
    ]
    for rule in rules:
        rule.refuse_unknown(PLAN_RULE)
    return {
        "name": own or name,
        "aliases": fields.texts("aliases") or (),
        "intent": fields.text("intent") or "",
        "behaviours": fields.texts("behaviours") or (),
        "profile": fields.text("profile") or "balanced",
        "tools": {} if tools is None else {key: tools.texts(key) or () for key in TOOLS if key in tools},
        "plan_rules": tuple([{key: rule.data(key) for key in rule} for rule in rules]),
        "limits": fields.mapping("limits") or {},
        "load": _function(fields, functions),
    }


def _function(fields: Fields, functions: Mapping[str, Any]) -> Any:
    """Return the function that loads text about an entity; None without one."""
    name = fields.text("load")
    if not name:
        return None
    found = functions.get(name)
    if not callable(found):
        known = [key for key, value in functions.items() if callable(value) and not key.startswith("_")]
        fields.problems.add(fields.line_of("load"), f"context: there is no function {name}", lambda: near(name, known))
        return None
    return found
