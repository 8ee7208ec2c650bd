"""The ``toolsets:`` and ``mcps:`` of a file of docker/cagent, as words for tools and as servers to be configured."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import urlsplit

from agentnb.tools.builtin.named import GROUP_OF
from agentnb.tools.mcp.server import MAX_NAME, PREFIX
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.yaml_source import MappingNode, Node, ScalarNode, plain

MCP = "mcp"
TODO = "todo"
"""The toolset that every agent with tools has."""
RAG = "rag"
WORDS = {"filesystem": "files", "shell": "shell", "think": "think", "fetch": "web", "user_prompt": "ask_person", TODO: ""}
"""The words for the tools of toolsets."""
TOOLS = {
    "read_multiple_files": "read_file",
    "list_directory": "list_files",
    "directory_tree": "list_files",
    "search_files_content": "search_files",
    "shell": "bash",
    "fetch": "web_fetch",
}
"""The names of tools that differ from those of agentnb."""
OF_SERVERS = ("ref", "command", "args", "env", "remote", "config", "version")
"""The keys by which a file describes an MCP server."""
READ = ("type", "tools", "name", *OF_SERVERS)
GATEWAY = ("mcp", "gateway", "run", "--servers")
"""The arguments with which ``docker`` runs a server of its catalogue."""
CATALOGUE = "docker:"


class Toolsets:
    """The toolsets of a file."""

    def __init__(self, file: Fields) -> None:
        self._problems = file.problems
        self._shared = file.fields("mcps", "mcps")
        self.servers: dict[str, dict[str, Any]] = {}
        """The MCP servers that the file describes, by name, in the form of ``mcpServers``."""

    def words(self, agent: Fields) -> tuple[ScalarNode, ...]:
        """Return the words for the tools of an agent; warn of toolsets that are not there."""
        found = [word for node in agent.items("toolsets") or () for word in self._of_toolset(agent, node)]
        has_tools = any(word.text for word in found)
        if found and not has_tools:
            self._problems.warn(agent.line_of("toolsets"), f"{agent.where}: without other tools it keeps no todo list")
        return tuple([word for word in found if word.text])

    def _of_toolset(self, agent: Fields, node: Node) -> Iterator[ScalarNode]:
        if not isinstance(node, MappingNode):
            agent.add(node.line, "a toolset is a mapping", "Write toolsets: [{type: filesystem}]")
            return
        entry = Fields(node, f"{agent.where}: toolsets", self._problems)
        kind = entry.text("type") or ""
        if kind != MCP and kind not in WORDS:
            self._problems.warn(node.line, f'{entry.where}: there is no toolset "{kind}": the agent works without it')
            return
        for key in entry:
            if key not in READ:
                self._problems.warn(entry.line_of(key), f"{entry.where}: {key} of {kind} has no effect")
        word = WORDS.get(kind) or (f"{PREFIX}{self._server(entry)}" if kind == MCP else "")
        tools = entry.texts("tools")
        if tools is None or kind == TODO:
            yield ScalarNode(node.line, word, word)
            return
        named = [f"{word}/{tool}" if kind == MCP else TOOLS.get(tool, tool) for tool in tools]
        for name, tool in zip(named, tools, strict=True):
            if kind == MCP or name in GROUP_OF:
                yield ScalarNode(entry.line_of("tools"), name, name)
            else:
                self._problems.warn(entry.line_of("tools"), f'{entry.where}: there is no tool "{tool}" of {kind}')

    def _server(self, entry: Fields) -> str:
        """Return the name of the MCP server of a toolset, and keep its description."""
        reference = entry.text("ref")
        shared = self._shared.fields(reference) if reference and self._shared is not None else None
        return self._kept("", entry) if shared is None else self._kept(reference or "", shared)

    def _kept(self, name: str, entry: Fields) -> str:
        described = _described(entry)
        name = re.sub(r"[^a-zA-Z0-9_.-]+", "-", name or entry.text("name") or _name_of(described))[:MAX_NAME].strip("-._")
        name = name or MCP
        known = next((one for one in self.servers if self.servers[one] == described and one.startswith(name)), "")
        if not known:
            known = name if name not in self.servers else f"{name[: MAX_NAME - 4]}-{len(self.servers) + 1}"
            self.servers[known] = described
        return known


def _described(entry: Fields) -> dict[str, Any]:
    """Return a server in the form of ``mcpServers``."""
    given = {key: _with_variables(plain(entry.node.entries[key].value)) for key in OF_SERVERS if key in entry}
    env = {"env": given["env"]} if given.get("env") else {}
    if (remote := given.get("remote")) and isinstance(remote, dict):
        headers = {"headers": remote["headers"]} if remote.get("headers") else {}
        return {"url": remote.get("url", ""), **headers}
    if "command" in given:
        return {"command": given["command"], "args": given.get("args") or [], **env}
    reference = str(given.get("ref") or "")
    return {"command": "docker", "args": [*GATEWAY[:-1], f"{GATEWAY[-1]}={reference.removeprefix(CATALOGUE)}"], **env}


def _with_variables(value: Any) -> Any:
    """Return plain data with ``${NAME}`` for ``${env.NAME}``."""
    if isinstance(value, dict):
        return {key: _with_variables(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_variables(one) for one in value]
    return value.replace("${env.", "${") if isinstance(value, str) else value


def _name_of(described: dict[str, Any]) -> str:
    """Return the name of a server that has none: that in the catalogue, of its host, or of its program."""
    if "url" in described:
        found = urlsplit(str(described["url"]))
        return found.netloc
    last = str(described["args"][-1:] and described["args"][-1])
    return last.partition("=")[2] if last.startswith(GATEWAY[-1]) else PurePath(str(described["command"])).name
