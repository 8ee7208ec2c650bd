"""The ``permissions:`` of a file of docker/cagent, as rules about what its agents may not call."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from agentnb.tools.builtin.named import GROUP_OF
from agentnb.tools.mcp.server import server_tools
from agentnb.tools.mcp.wire_names import WILDCARDS, wire_name
from agentnb.workflow.cagent.toolsets import TOOLS
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.yaml_source import ScalarNode, kind_of

COMMAND = "cmd"
SUBJECTS = {"bash": COMMAND, **dict.fromkeys(("read_file", "write_file", "edit_file", "list_files"), "path")}
"""The arguments that patterns are about, as the program has them."""
TRANSFER = "transfer_task"
"""The program's tool that gives a task to a sub-agent."""
OF_SERVERS = "mcp_*_"
"""Begins the pattern for a tool of any server."""
_PATTERN = re.compile(r"(?P<tool>.*?)(?::(?P<key>\w+)=(?P<glob>.*))?", re.DOTALL)
_SERVER = re.compile(r"mcp:([^:]+):([^:]+)")
_CONDITION = re.compile(r":\w+=")


class Permissions:
    """The permissions of a file. What it denies is denied; what it allows is for the person to allow."""

    def __init__(self, file: Fields) -> None:
        self._denied: list[ScalarNode] = []
        """The patterns that can be kept, such as ``shell:cmd=rm *``."""
        permissions = file.fields("permissions", "permissions")
        if permissions is None:
            return
        permissions.refuse_unknown(("allow", "ask", "deny"))
        if "allow" in permissions:
            file.problems.warn(permissions.line_of("allow"), "permissions: allow has no effect: a file permits no calls")
        if "ask" in permissions:
            permissions.add("ask", "ask cannot be kept: a call that it is about could run unasked", "Write it under deny")
        for one in permissions.nodes("deny"):
            if isinstance(one, ScalarNode) and _rules_of(one.text, (), ()) is not None:
                self._denied.append(one)
            else:
                permissions.add(one.line, f"deny: {kind_of(one)} cannot be kept", "Write TOOL, or shell:cmd=PATTERN")

    def denied_to(self, words: Collection[ScalarNode], sub_agents: Collection[str]) -> tuple[ScalarNode, ...]:
        """Return the rules for an agent with the tools of these words."""
        servers = dict.fromkeys(item.name for word in words if (item := server_tools(word.text)) is not None)
        rules = [(one.line, rule) for one in self._denied for rule in _rules_of(one.text, servers, sub_agents) or ()]
        return tuple([ScalarNode(line, rule, rule) for line, rule in dict.fromkeys(rules)])


def _rules_of(pattern: str, servers: Collection[str], sub_agents: Collection[str]) -> list[str] | None:
    """Return the rules that deny what a pattern denies; None for one about an argument that rules are not about.

    ``servers``: the MCP servers of the agent, whose tools rules may name.
    """
    found = _PATTERN.fullmatch(pattern)
    assert found is not None, "its groups may be empty"
    tool, key, glob = found["tool"].lower(), found["key"], found["glob"]
    named = dict.fromkeys(TOOLS.get(one, one) for one in (*TOOLS, *GROUP_OF) if fnmatchcase(one, tool))
    if key is not None:
        if not glob or _CONDITION.search(glob) or not named or any(SUBJECTS.get(one) != key for one in named):
            return None
        return [f"{name}({one})" for name in named for one in _globs(key, glob)]
    if (of_server := _SERVER.fullmatch(tool)) is not None:
        return [f"{wire_name(one, '')}{of_server[2]}" for one in servers if fnmatchcase(one.lower(), of_server[1])]
    if ":" in tool:
        return None
    delegation = sub_agents if fnmatchcase(TRANSFER, tool) else ()
    return [*named, *delegation, *([f"{OF_SERVERS}{tool}"] if servers else []), *_with_prefix(tool, servers)]


def _globs(key: str, glob: str) -> Iterator[str]:
    """Yield the globs for a glob of the program, in which case does not count and ``*`` at either end passes ``/``."""
    for one in dict.fromkeys((glob, glob.lower())):
        yield one
        if key != COMMAND and one.startswith("*"):
            yield f"**/{one}"
        if key != COMMAND and one.endswith("*"):
            yield f"{one}/**"


def _with_prefix(tool: str, servers: Collection[str]) -> Iterator[str]:
    """Yield the pattern of a name that begins with that of a server, as the program writes names of its tools."""
    known = re.split(r"[*?[]", tool, maxsplit=1)[0]
    begins = [f"{one.lower()}_" for one in servers]
    if any(known.startswith(one) or (WILDCARDS & set(tool) and one.startswith(known)) for one in begins):
        yield f"mcp_{tool}"
