"""``${NAME}`` in the settings of MCP servers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from agentnb.errors import SettingsError
from agentnb.tools.mcp.server import MCPServer

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def expanded(server: MCPServer, environment: Mapping[str, str]) -> MCPServer:
    """Return the server with the values of environment variables for ``${NAME}``; raises `SettingsError` for an unset one."""

    def fill(text: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match.group(1)
            if name not in environment:
                what = f"The MCP server {server.name} needs the environment variable {name}, which is not set"
                raise SettingsError(what, f'Set it: os.environ["{name}"] = ...')
            return environment[name]

        return VARIABLE.sub(value, text)

    return replace(
        server,
        command_or_url=fill(server.command_or_url) if server.is_remote else server.command_or_url,
        args=tuple(map(fill, server.args)),
        env={name: fill(value) for name, value in server.env.items()},
        headers={name: fill(value) for name, value in server.headers.items()},
    )


def variables(server: MCPServer) -> list[str]:
    """Return the names of the environment variables that its settings read, each once."""
    texts = (server.command_or_url, *server.args, *server.env.values(), *server.headers.values())
    return list(dict.fromkeys(name for text in texts for name in VARIABLE.findall(text)))


def secrets(server: MCPServer) -> list[str]:
    """Return the secrets of a server whose variables are replaced: values of env and headers that are not plain words.

    ``warning`` or ``Europe/Paris`` would be masked wherever they occur, and are no secrets.
    """
    values = (*server.env.values(), *server.headers.values())
    parts = [part for value in values for part in {value, value.rpartition(" ")[2]}]
    return [part for part in parts if not _PLAIN.fullmatch(part)]


_PLAIN = re.compile(r"[A-Za-z/_.:, -]{0,40}")
