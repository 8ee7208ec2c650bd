"""The question about a file of MCP servers: what agentnb would start and reach, and which variables would go where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentnb.display.texts.labels import cut
from agentnb.display.texts.visible_text import visible
from agentnb.tools.mcp.expansion import VARIABLE, variables
from agentnb.tools.mcp.server import DEFAULT_TIMEOUT, MCPServer

MAX_SHOWN = 2_000
"""Characters of each line; the number of further ones is shown."""
CONFIRM = "Configure these servers, from now on until the file changes? [y/N] "


def describe_servers(file: str, servers: Iterable[MCPServer]) -> str:
    """Return what each server of a file would do, as lines for a person. Values of variables, env and headers are not shown."""
    lines = [f"{visible(file)} names MCP servers that you have not confirmed:"]
    for server in servers:
        lines.append(f"  {server.name}")
        lines += [f"    {name:<8} {_indent(cut(visible(value), MAX_SHOWN))}" for name, value in _facts(server)]
    return "\n".join(lines)


def _indent(text: str) -> str:
    """Indent all further lines, so that none can pass for another fact."""
    return text.replace("\n", f"\n{' ' * 15}")


def _facts(server: MCPServer) -> Iterator[tuple[str, str]]:
    """Yield a name and a value for each thing that the person would accept."""
    yield ("reaches", server.command_or_url) if server.is_remote else ("starts", _command(server))
    if server.cwd is not None:
        yield "in", str(server.cwd)
    yield from (("root", str(root)) for root in server.roots)
    for kind, values in (("env", server.env), ("header", server.headers)):
        for name, value in values.items():
            yours = list(dict.fromkeys(VARIABLE.findall(value)))
            yield kind, f"{name}, with your {', '.join(yours)}" if yours else f"{name}, as the file has it"
    elsewhere = [
        name for name in variables(server) if any(f"${{{name}}}" in text for text in (server.command_or_url, *server.args))
    ]
    if elsewhere:
        yield "gets", f"your {', '.join(elsewhere)} in its {'address' if server.is_remote else 'arguments'}"
    if server.timeout != DEFAULT_TIMEOUT:
        yield "time-out", "none" if server.timeout is None else f"{server.timeout:,g} seconds"


def _command(server: MCPServer) -> str:
    """Return the command line, so that an argument with blanks is seen to be one."""
    return " ".join(word if _is_plain(word) else repr(word) for word in (server.command_or_url, *server.args))


def _is_plain(word: str) -> bool:
    return bool(word) and not any(char.isspace() or char in "\"'" for char in word)
