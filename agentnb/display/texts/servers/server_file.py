"""The question about a file of MCP servers: processes to start, addresses to reach, and variables sent to them."""

from __future__ import annotations

from collections.abc import Iterator

from agentnb.display.texts.labels import cut
from agentnb.display.texts.visible_text import visible
from agentnb.tools.mcp.mcp_server import VARIABLE, MCPServer, without_defaults
from agentnb.tools.mcp.server_settings import ServerList

MAX_SHOWN = 2_000
"""Maximum characters of each line; the rest are counted."""
CONFIRM = "Configure these servers until the file changes? [y/N] "


def describe_servers(file: str, found: ServerList) -> str:
    """Return lines that describe each server in a file to the person. Values of variables, env and headers are not shown."""
    product = f", as {found.product} has them" if found.product else ""
    lines = [f"{visible(file)} names MCP servers that you have not confirmed{product}:"]
    for server in found.servers:
        lines.append(f"  {server.name}")
        lines += [f"    {name:<8} {_indent(cut(visible(value), MAX_SHOWN))}" for name, value in _facts(server)]
    return "\n".join([*lines, *(f"  Note: {_indent(cut(visible(note), MAX_SHOWN))}" for note in found.notes)])


def _indent(text: str) -> str:
    """Indent all lines after the first, so that they cannot pass for another fact."""
    return text.replace("\n", f"\n{' ' * 15}")


def _facts(server: MCPServer) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each fact that the person would be accepting."""
    yield "reaches" if server.is_remote else "starts", _command(server)
    if server.cwd is not None:
        yield "in", str(server.cwd)
    yield from (("root", str(root)) for root in server.roots)
    for kind, values in (("env", server.env), ("header", server.headers)):
        yield from ((kind, f"{name}, {_origin(value) or 'as in the file'}") for name, value in values.items())
    if elsewhere := _origin(" ".join((server.command_or_url, *server.args))):
        yield "gets", f"{elsewhere.removeprefix('with ')} in its {'address' if server.is_remote else 'command'}"
    if server.timeout is None:
        yield "time-out", "none"
    else:
        more = f", with progress {server.max_seconds:,g}" if server.max_seconds > server.timeout else ""
        yield "time-out", f"{server.timeout:,g} seconds{more}"


def _origin(text: str) -> str:
    """Return the variables from which a text takes its value, or ""."""
    variables = dict(VARIABLE.findall(text))
    names = [f"{name} (or the file's own value)" if f"${{{name}:-" in text else name for name in variables]
    return f"with your {', '.join(names)}" if names else ""


def _command(server: MCPServer) -> str:
    """Return the address, or the command line with quotes around arguments that contain blanks."""
    words = (without_defaults(server.command_or_url, is_target=True), *map(without_defaults, server.args))
    return " ".join(word if _is_plain(word) else repr(word) for word in words)


def _is_plain(word: str) -> bool:
    return bool(word) and not any(char.isspace() or char in "\"'" for char in word)
