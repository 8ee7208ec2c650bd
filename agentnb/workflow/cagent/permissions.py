"""The ``permissions:`` of a file of docker/cagent, as rules about what its agents may not call."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from agentnb.tools.builtin.named import GROUP_OF
from agentnb.tools.mcp.server import PREFIX
from agentnb.workflow.cagent.toolsets import TOOLS
from agentnb.workflow.form.fields import Fields
from agentnb.workflow.form.yaml_source import ListNode, ScalarNode, kind_of

SUBJECTS = {"bash": "cmd", "read_file": "path", "write_file": "path", "edit_file": "path", "list_files": "path"}
"""The arguments that patterns are about, as the program has them."""
OF_SERVERS = "mcp_*_"
"""Begins the pattern for a tool of any server."""


class Permissions:
    """The permissions of a file. What it denies is denied; what it allows is for the person to allow."""

    def __init__(self, file: Fields) -> None:
        self._denied: list[ScalarNode] = []
        """The patterns that can be kept, such as ``shell:cmd=rm *``."""
        permissions = file.fields("permissions", "permissions")
        if permissions is None:
            return
        if "allow" in permissions:
            file.problems.warn(permissions.line_of("allow"), "permissions: allow has no effect: a file permits no calls")
        node = permissions.given("deny")
        nodes = node.items if isinstance(node, ListNode) else () if node is None else (node,)
        for one in nodes:
            if isinstance(one, ScalarNode) and _rules_of(one.text, False) is not None:
                self._denied.append(one)
            else:
                permissions.add(one.line, f"deny: {kind_of(one)} cannot be kept", "Write TOOL, or shell:cmd=PATTERN")

    def denied_to(self, words: Iterable[ScalarNode]) -> tuple[ScalarNode, ...]:
        """Return the rules for an agent with the tools of these words."""
        has_servers = any(word.text.startswith(PREFIX) for word in words)
        rules = [(one.line, rule) for one in self._denied for rule in _rules_of(one.text, has_servers) or ()]
        return tuple([ScalarNode(line, rule, rule) for line, rule in dict.fromkeys(rules)])


def _rules_of(pattern: str, has_servers: bool) -> list[str] | None:
    """Return the rules that deny what a pattern denies; None for one about an argument that rules are not about.

    ``has_servers``: whether the agent has tools of MCP servers, which rules may name then.
    """
    tool, colon, argument = pattern.partition(":")
    key, _, glob = argument.partition("=")
    named = dict.fromkeys(TOOLS.get(one, one) for one in (*TOOLS, *GROUP_OF) if fnmatchcase(one, tool))
    if colon:
        return [f"{name}({glob})" for name in named] if named and all(SUBJECTS.get(one) == key for one in named) else None
    return [*named, *([f"{OF_SERVERS}{tool}"] if has_servers else [])]
