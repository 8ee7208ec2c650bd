"""Translation of a cagent file's ``permissions:`` to rules that deny calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from agentnb.tools.builtin.builtin_names import GROUP_OF
from agentnb.tools.mcp.mcp_server import server_tools
from agentnb.tools.mcp.wire_names import WILDCARDS, wire_name
from agentnb.workflow.cagent.toolsets import TOOLS
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.yaml_source import ScalarNode, kind_of

COMMAND = "cmd"
SUBJECTS = {"bash": COMMAND, **dict.fromkeys(("read_file", "write_file", "edit_file", "list_files"), "path")}
"""Arguments that patterns may test, under cagent's names."""
TRANSFER = "transfer_task"
"""cagent's tool for delegating to a sub-agent."""
OF_SERVERS = "mcp_*_"
"""Prefix of patterns that match the tools of every server."""
_PATTERN = re.compile(r"(?P<tool>.*?)(?::(?P<key>\w+)=(?P<glob>.*))?", re.DOTALL)
_SERVER = re.compile(r"mcp:([^:]+):([^:]+)")
_CONDITION = re.compile(r":\w+=")


class Permissions:
    """Permissions of a file. Only its denials are kept, since only the person may allow calls."""

    def __init__(self, file: Fields) -> None:
        self._denied: list[ScalarNode] = []
        """Supported patterns, for example ``shell:cmd=rm *``."""
        permissions = file.fields("permissions", "permissions")
        if permissions is None:
            return
        permissions.refuse_unknown(("allow", "ask", "deny"))
        if "allow" in permissions:
            file.problems.warn(permissions.line_of("allow"), "permissions: allow has no effect: files cannot permit calls")
        if "ask" in permissions:
            permissions.add(
                "ask", "ask is not supported: a matching call could run without being asked about", "Write it under deny"
            )
        for pattern in permissions.nodes("deny"):
            if isinstance(pattern, ScalarNode) and _rules_of(pattern.text, (), ()) is not None:
                self._denied.append(pattern)
            else:
                permissions.add(pattern.line, f"deny: {kind_of(pattern)} is not supported", "Write TOOL, or shell:cmd=PATTERN")

    def denied_to(self, words: Collection[ScalarNode], sub_agents: Collection[str]) -> tuple[ScalarNode, ...]:
        """Return the denial rules for an agent that has the tools named by these words."""
        servers = dict.fromkeys(item.name for word in words if (item := server_tools(word.text)) is not None)
        rules = [
            (pattern.line, rule) for pattern in self._denied for rule in _rules_of(pattern.text, servers, sub_agents) or ()
        ]
        return tuple([ScalarNode(line, rule, rule) for line, rule in dict.fromkeys(rules)])


def _rules_of(pattern: str, servers: Collection[str], sub_agents: Collection[str]) -> list[str] | None:
    """Return the denial rules for a pattern, or None if it tests an argument that rules cannot test.

    ``servers``: the agent's MCP servers, whose tools rules may name.
    """
    match = _PATTERN.fullmatch(pattern)
    assert match is not None, "its groups may be empty"
    tool, key, glob = match["tool"].lower(), match["key"], match["glob"]
    named = dict.fromkeys(TOOLS.get(name, name) for name in (*TOOLS, *GROUP_OF) if fnmatchcase(name, tool))
    if key is not None:
        if not glob or _CONDITION.search(glob) or not named or any(SUBJECTS.get(name) != key for name in named):
            return None
        return [f"{name}({variant})" for name in named for variant in _globs(key, glob)]
    if (of_server := _SERVER.fullmatch(tool)) is not None:
        return [f"{wire_name(server, '')}{of_server[2]}" for server in servers if fnmatchcase(server.lower(), of_server[1])]
    if ":" in tool:
        return None
    delegation = sub_agents if fnmatchcase(TRANSFER, tool) else ()
    return [*named, *delegation, *([f"{OF_SERVERS}{tool}"] if servers else []), *_with_prefix(tool, servers)]


def _globs(key: str, glob: str) -> Iterator[str]:
    """Yield equivalents of a cagent glob, which ignores case and in which a ``*`` at either end also matches ``/``."""
    for variant in dict.fromkeys((glob, glob.lower())):
        yield variant
        if key != COMMAND and variant.startswith("*"):
            yield f"**/{variant}"
        if key != COMMAND and variant.endswith("*"):
            yield f"{variant}/**"


def _with_prefix(tool: str, servers: Collection[str]) -> Iterator[str]:
    """Yield the pattern if it starts with a server name, as cagent's names of server tools do."""
    stem = re.split(r"[*?[]", tool, maxsplit=1)[0]
    begins = [f"{server.lower()}_" for server in servers]
    if any(stem.startswith(prefix) or (WILDCARDS & set(tool) and prefix.startswith(stem)) for prefix in begins):
        yield f"mcp_{tool}"
