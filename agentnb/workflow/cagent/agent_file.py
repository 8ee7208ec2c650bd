"""Translation of docker/cagent files to workflow files: the same nodes at the same lines, with agentnb's keys.

Keys: https://github.com/docker/cagent/blob/main/agent-schema.json
"""

from __future__ import annotations

import json
from collections.abc import Collection

from agentnb.errors import suggest_similar
from agentnb.workflow.cagent.cagent_models import Models, is_with_slash
from agentnb.workflow.cagent.cagent_permissions import Permissions
from agentnb.workflow.cagent.toolsets import RAG, Toolsets
from agentnb.workflow.form.agent_reader import SUB_AGENTS
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.workflow_spec import AgentSpec, keys_of
from agentnb.workflow.form.yaml_source import Entry, ListNode, MappingNode, Node, ScalarNode, plain, read_yaml

ROOT = "root"
"""Agent to run if a file has no workflow."""
MARKS = ("version", "metadata", "models", "providers", "mcps", "rag", "permissions")
"""Keys found only in cagent files."""
TOOLSETS = "toolsets"
REFUSED = {
    "hooks": ("agentnb would run calls that they should stop", "Delete them, and pass a gate or rules to the run"),
    "handoffs": ("agents delegate tasks to each other and wait for the answer", "Write sub_agents: [...]"),
}
"""Agent keys whose omission would change the run, each with the reason and advice."""
_STEPS = ("steps", "step", "true", "false")
"""Step keys that contain steps."""


def as_workflow_file(file: MappingNode, known: Collection[str], problems: Problems) -> MappingNode:
    """Translate a docker/cagent file to a workflow file; return other files unchanged.

    Reports unsupported keys: as problems if they would change the run, otherwise as warnings. ``known``: keys of a workflow
    file.
    """
    agents = _agents_of(file)
    if agents is None:
        return file
    top = Fields(file, "workflow file", problems)
    for key in file.entries:
        if key not in (*known, *MARKS):
            _note_unused(top, key, (*known, *MARKS))
    reader = _Agents(top)
    translated = {name: entry._replace(value=reader.agent(name, entry.value)) for name, entry in agents.entries.items()}
    entries = {key: entry for key, entry in file.entries.items() if key in known}
    entries["agents"] = entries["agents"]._replace(value=MappingNode(agents.line, translated))
    if "workflow" in entries:
        entries["workflow"] = entries["workflow"]._replace(value=_with_steps(entries["workflow"].value, translated))
    elif ROOT in translated:
        line = translated[ROOT].line
        entries["workflow"] = Entry(line, ListNode(line, (_agent_step(ScalarNode(line, ROOT, ROOT)),)))
    return MappingNode(file.line, entries)


def described_servers(text: str) -> str:
    """Return the MCP servers of a docker/cagent file in the format of a server file; empty for other files."""
    file = read_yaml(text, Problems()) if TOOLSETS in text else None  # other files may be large, and YAML parses slowly
    agents = _agents_of(file) if isinstance(file, MappingNode) else None
    if not isinstance(file, MappingNode) or agents is None:
        return ""
    reader = _Agents(Fields(file, "", Problems()))
    for name, entry in agents.entries.items():
        reader.agent(name, entry.value)
    servers = reader.toolsets.servers
    return json.dumps({"mcpServers": servers}) if servers else ""


class _Agents:
    """Translator of agents."""

    def __init__(self, file: Fields) -> None:
        self._models = Models(file)
        self.toolsets = Toolsets(file)
        self._permissions = Permissions(file)
        self._problems = file.problems

    def agent(self, name: str, node: Node) -> Node:
        """Translate an agent to the keys of a workflow file."""
        if not isinstance(node, MappingNode):
            return node
        fields, own = Fields(node, f'agent "{name}"', self._problems), keys_of(AgentSpec)
        entries = {key: entry for key, entry in node.entries.items() if key in own}
        for key, entry in node.entries.items():
            if key in REFUSED:
                reason, hint = REFUSED[key]
                fields.add(key, f"{key} is not supported: {reason}", hint)
            elif key == "max_iterations":
                if plain(entry.value) != 0:  # 0 means no limit
                    own_limits = node.entries["limits"].value if "limits" in node.entries else None
                    more = own_limits.entries if isinstance(own_limits, MappingNode) else {}
                    entries["limits"] = Entry(entry.line, MappingNode(entry.line, {"max_rounds": entry, **more}))
            elif key == RAG:
                self._problems.warn(
                    entry.line, f"{fields.where}: {RAG} has no effect: the agent works without a knowledge base"
                )
            elif key not in (*own, TOOLSETS):
                _note_unused(fields, key, (*own, TOOLSETS, *REFUSED))
        entries.pop("model", None)
        if (model := self._models.name_for(fields)) is not None:
            entries["model"] = Entry(model.line, model)
        words = self.toolsets.words(fields)
        if words:
            line = fields.line_of(TOOLSETS)
            entries["tools"] = Entry(line, ListNode(line, (*fields.nodes("tools"), *words)))
        if denied := self._permissions.denied_to(words, fields.texts(SUB_AGENTS) or ()):
            entries["deny"] = Entry(denied[0].line, ListNode(denied[0].line, (*fields.nodes("deny"), *denied)))
        return MappingNode(node.line, entries)


def _agents_of(file: MappingNode) -> MappingNode | None:
    """Return the agents of a docker/cagent file, or None for any other file."""
    agents = file.entries["agents"].value if "agents" in file.entries else None
    if not isinstance(agents, MappingNode):
        return None
    if "workflow" not in file.entries or any(key in file.entries for key in MARKS):
        return agents
    return agents if any(map(_has_marks, agents.entries.values())) else None


def _has_marks(agent: Entry) -> bool:
    """True if an agent has toolsets, or a model written as ``provider/name``."""
    entries = agent.value.entries if isinstance(agent.value, MappingNode) else {}
    model = entries["model"].value if "model" in entries else None
    return TOOLSETS in entries or (isinstance(model, ScalarNode) and is_with_slash(model.text))


def _note_unused(fields: Fields, key: str, known: Collection[str]) -> None:
    """Report an unused key, as a problem if it resembles a known key."""
    entry = fields.node.entries[key]
    if similar := suggest_similar(key, known):
        fields.add(entry.line, f'unknown key "{key}"', similar)
    else:
        fields.problems.warn(entry.line, f"{fields.where}: {key} has no effect")


def _agent_step(name: ScalarNode) -> MappingNode:
    kind = ScalarNode(name.line, "agent", "agent")
    return MappingNode(name.line, {"type": Entry(name.line, kind), "name": Entry(name.line, name)})


def _with_steps(node: Node, agents: Collection[str]) -> Node:
    """Return the steps, with each bare agent name expanded to an agent step."""
    if isinstance(node, ScalarNode):
        return _agent_step(node) if node.text in agents else node
    if isinstance(node, ListNode):
        return ListNode(node.line, tuple([_with_steps(item, agents) for item in node.items]))
    changed = {
        key: entry._replace(value=_with_steps(entry.value, agents)) for key, entry in node.entries.items() if key in _STEPS
    }
    return MappingNode(node.line, {**node.entries, **changed})
