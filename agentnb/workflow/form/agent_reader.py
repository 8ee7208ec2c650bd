"""Parser for a workflow's ``agents:`` and limits, and the order of delegation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from agentnb.errors import SettingsError
from agentnb.guidance import find_set
from agentnb.models.destinations.destination import FileModelName
from agentnb.models.registry import check_model
from agentnb.policies.permissions.permission_rules import RuleList
from agentnb.policies.policy_sets import find_policy
from agentnb.policies.run_limits import LIMITS, ON_LIMIT
from agentnb.tools.mcp.wire_names import registry_name
from agentnb.workflow.form.fields import Fields, SourceMap
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.workflow_spec import AgentSpec, keys_of
from agentnb.workflow.form.yaml_source import MappingNode, ScalarNode, plain

WRAPPER = ("name", "description", "strict", "schema")
"""Keys of a ``structured_output`` that wraps the schema."""
OF_WORKFLOWS = ("budget", "max_seconds")
"""Limits of a workflow as a whole."""
SUB_AGENTS = "sub_agents"
_SCHEMA = "For example: {type: object, properties: {is_approved: {type: boolean}}, required: [is_approved]}"


def read_agents(fields: Fields | None, places: SourceMap, problems: Problems) -> dict[str, AgentSpec]:
    """Parse the agents, by name."""
    if fields is None:
        return {}
    agents: dict[str, AgentSpec] = {}
    for name, entry in fields.node.entries.items():
        node = entry.value
        if isinstance(node, ScalarNode) and node.value is None:
            node = MappingNode(entry.line, {})
        if not isinstance(node, MappingNode):
            problems.add(node.line, f'agent "{name}" must be a mapping', "For example: {instruction: Write one sentence.}")
            agents[name] = AgentSpec(name=name, line=entry.line)
        elif not name.strip():
            problems.add(entry.line, "an agent has an empty name")
        else:
            agents[name] = _agent(Fields(node, f'agent "{name}"', problems), name, entry.line, places)
    return agents


def _agent(fields: Fields, name: str, line: int, places: SourceMap) -> AgentSpec:
    fields.refuse_unknown(keys_of(AgentSpec))
    places.add_use(name, "instruction", fields.node_at("instruction"), is_of_agent=True)
    places.lines |= {(name, key): fields.line_of(key) for key in (SUB_AGENTS, "tools")}
    model, source = _read_valid(fields, "model", check_model), fields.problems.source
    return AgentSpec(
        name=name,
        line=line,
        model=None if model is None else FileModelName(model, str(Path(source).parent) if source else None),
        instruction=fields.text("instruction") or "",
        description=fields.text("description"),
        sub_agents=fields.texts(SUB_AGENTS) or (),
        tools=tuple(map(registry_name, fields.texts("tools") or ())),
        deny=_read_deny(fields),
        structured_output=_structured_output(fields),
        guidance=_read_valid(fields, "guidance", find_set),
        policy=_read_valid(fields, "policy", find_policy),
        limits=read_limits(fields.fields("limits"), tuple(LIMITS)),
        replies=tuple(plain(node) for node in fields.items("replies") or ()),
    )


def _read_deny(fields: Fields) -> tuple[str, ...]:
    """Return the rules under ``deny``."""
    rules = fields.texts("deny") or ()
    try:
        RuleList.of(dict.fromkeys(rules, "deny"))
    except SettingsError as error:
        fields.add("deny", f"deny: {error.what}", error.advice)
        return ()
    return rules


def _read_valid(fields: Fields, key: str, check: Callable[[str], Any]) -> str | None:
    """Return the key's text if it passes ``check``; otherwise report the `SettingsError` that it raises."""
    text = fields.text(key)
    try:
        if text is not None:
            check(text)
    except SettingsError as error:
        node = fields.node_at(key)
        fields.problems.add(node.line if node else fields.line, f"{fields.where}: {error.what}", error.advice)
        return None
    return text


def _structured_output(fields: Fields) -> dict[str, Any] | None:
    """Return the JSON Schema, whether bare or wrapped with a name and a description."""
    section = fields.fields("structured_output")
    if section is None:
        return None
    if isinstance(section.node_at("schema"), MappingNode) and not {"type", "properties", "$ref"} & set(section):
        section.refuse_unknown(WRAPPER)
        section.flag("strict")
        schema = section.data("schema")
    else:
        schema = plain(section.node)
    return fields.schema("structured_output", schema, _SCHEMA)


def read_limits(fields: Fields | None, known: tuple[str, ...]) -> dict[str, Any]:
    """Parse the limits, by name. ``known``: the valid limits; an agent may also have ``on_limit`` and ``unpriced``."""
    if fields is None:
        return {}
    with_on_limit = "max_rounds" in known
    fields.refuse_unknown((*known, "on_limit", "unpriced") if with_on_limit else known)
    limits: dict[str, Any] = {}
    for key, entry in fields.node.entries.items():
        if key == "on_limit" and with_on_limit:
            limits[key] = fields.choice(key, ON_LIMIT)
        elif key == "unpriced" and with_on_limit:
            limits[key] = fields.flag(key)
        elif key in known:
            node = entry.value
            try:
                if not isinstance(node, ScalarNode):
                    raise SettingsError(f"{key} must be a number")
                LIMITS[key].check(node.value)
                limits[key] = node.value
            except SettingsError as error:
                fields.add(node.line, error.what, error.advice)
    return {key: value for key, value in limits.items() if value is not None}


class DelegationCircle(SettingsError):
    """Raised for an agent that delegates to itself through its sub-agents; ``agent`` is its name."""

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"it delegates to itself ({' -> '.join(names)})", "Remove one of them from sub_agents")
        self.agent = names[0]


def delegation_order(agents: Mapping[str, AgentSpec]) -> list[str]:
    """Return the agent names ordered so that sub-agents come first. Raises `DelegationCircle`."""
    try:
        return [*TopologicalSorter({name: agent.sub_agents for name, agent in agents.items()}).static_order()]
    except CycleError as error:
        raise DelegationCircle(error.args[1][::-1]) from None
