"""Translation of a cagent file's ``toolsets:`` and ``mcps:`` to tool words and server configurations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import PurePath
from typing import Any

from agentnb.core.messages import JsonObject
from agentnb.tools.builtin.builtin_names import GROUP_OF
from agentnb.tools.mcp.mcp_server import MAX_NAME, PREFIX
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.yaml_source import MappingNode, Node, ScalarNode

MCP = "mcp"
TODO = "todo"
"""Toolset that every agent with tools has."""
RAG = "rag"
WORDS = {"filesystem": "files", "shell": "shell", "think": "think", "fetch": "web", "user_prompt": "ask_person", TODO: ""}
"""Tool words by toolset."""
TOOLS = {
    "read_multiple_files": "read_file",
    "list_directory": "list_files",
    "directory_tree": "list_files",
    "search_files_content": "search_files",
    "shell": "bash",
    "fetch": "web_fetch",
    "user_prompt": "ask_person",
}
"""Tool names that differ from agentnb's."""
OF_SERVERS = ("ref", "command", "args", "env", "remote", "config", "version")
"""Keys of an MCP server's description."""
READ = ("type", "tools", "name", *OF_SERVERS)
GATEWAY = ("mcp", "gateway", "run", "--servers")
"""Arguments with which ``docker`` runs a server from its catalogue of servers."""
CATALOGUE = "docker:"
_HOST = re.compile(r"://(?:[^/?#]*@)?([^/?#@]+)")


class Toolsets:
    """The toolsets of a file."""

    def __init__(self, file: Fields) -> None:
        self._problems = file.problems
        self._shared = file.fields("mcps", "mcps")
        self.servers: dict[str, JsonObject] = {}
        """MCP servers described in the file, by name, in the form of ``mcpServers``."""

    def words(self, agent: Fields) -> tuple[ScalarNode, ...]:
        """Return the tool words of an agent; warn about unknown toolsets."""
        words = [word for node in agent.items("toolsets") or () for word in self._of_toolset(agent, node)]
        if words and not any(word.text for word in words) and "sub_agents" not in agent:
            self._problems.warn(agent.line_of("toolsets"), f"{agent.where}: an agent without other tools has no todo list")
        return tuple([word for word in words if word.text])

    def _of_toolset(self, agent: Fields, node: Node) -> Iterator[ScalarNode]:
        if not isinstance(node, MappingNode):
            agent.add(node.line, "a toolset must be a mapping", "Write toolsets: [{type: filesystem}]")
            return
        entry = Fields(node, f"{agent.where}: toolsets", self._problems)
        kind = entry.text("type") or ""
        if kind != MCP and kind not in WORDS:
            self._problems.warn(node.line, f'{entry.where}: there is no toolset "{kind}": the agent works without it')
            return
        for key in entry:
            if key not in READ:
                self._problems.warn(entry.line_of(key), f"{entry.where}: {key} of {kind} has no effect")
        word, tools = WORDS.get(kind, ""), entry.texts("tools")
        if kind == MCP:
            server = self._shared_server(entry) or entry
            word, tools = self._word_of(server, entry), tools or server.texts("tools")
        if tools is None or kind == TODO or not word:
            yield ScalarNode(node.line, word, word)
            return
        for tool in tools:
            name = f"{word}/{tool}" if kind == MCP else TOOLS.get(tool, tool)
            if kind == MCP or word in (name, GROUP_OF.get(name)):
                yield ScalarNode(entry.line_of("tools"), name, name)
            else:
                self._problems.warn(entry.line_of("tools"), f'{entry.where}: there is no tool "{tool}" of {kind}')

    def _shared_server(self, entry: Fields) -> Fields | None:
        """Return the server under ``mcps`` to which a toolset refers."""
        reference = entry.text("ref")
        return self._shared.fields(reference) if reference and self._shared is not None else None

    def _word_of(self, server: Fields, entry: Fields) -> str:
        """Return the tool word for an MCP server, storing its description; empty if it has no description."""
        described = _describe_server(server)
        if not described:
            entry.add(entry.line, "an MCP server needs a ref, a command or a remote", "Write {type: mcp, ref: NAME}")
            return ""
        named = entry.text("ref") if server is not entry else entry.text("name")
        name = re.sub(r"[^a-zA-Z0-9_.-]+", "-", named or _name_of(described))[: MAX_NAME - 4].strip("-._") or MCP
        names = (f"{name}-{number}" if number > 1 else name for number in count(1))
        unique_name = next(candidate for candidate in names if self.servers.setdefault(candidate, described) == described)
        return f"{PREFIX}{unique_name}"


def _describe_server(server: Fields) -> JsonObject:
    """Return a server in the form of ``mcpServers``; empty if it has neither a program nor an address."""
    remote, command, reference = server.fields("remote"), server.text("command"), server.text("ref")
    described: JsonObject = {}
    if remote is not None:
        described = {"url": remote.text("url") or "", "headers": remote.mapping("headers")}
    elif command:
        described = {"command": command, "args": [*(server.texts("args") or ())], "env": server.mapping("env")}
    elif reference:
        args = [*GATEWAY[:-1], f"{GATEWAY[-1]}={reference.removeprefix(CATALOGUE)}"]
        described = {"command": "docker", "args": args, "env": server.mapping("env")}
    return {key: _with_variables(value) for key, value in described.items() if value is not None}


def _with_variables(value: Any) -> Any:
    """Replace ``${env.NAME}`` with ``${NAME}`` in plain data."""
    if isinstance(value, dict):
        return {key: _with_variables(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_variables(item) for item in value]
    return value.replace("${env.", "${") if isinstance(value, str) else value


def _name_of(described: JsonObject) -> str:
    """Return a default name for a server: its name in the catalogue, its host, or its program."""
    if "url" in described:
        return match[1] if (match := _HOST.search(described["url"])) else ""
    last = "".join(described["args"][-1:])
    return last.partition("=")[2] if last.startswith(GATEWAY[-1]) else PurePath(described["command"]).name
