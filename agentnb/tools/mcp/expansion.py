"""``${NAME}`` in the settings of MCP servers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from agentnb.errors import SettingsError
from agentnb.tools.mcp.server import MCPServer, home_expanded, is_address

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NO_VARIABLE = re.compile(r"\$\{(?![A-Za-z_][A-Za-z0-9_]*\})")
_OF_OTHER_PROGRAMS = re.compile(r"\$\{(env|input):")
"""Variables as other programs write them."""


def expanded(server: MCPServer, environment: Mapping[str, str]) -> MCPServer:
    """Return the server with the values of environment variables for ``${NAME}``.

    Raises `SettingsError`, which holds no value, for a variable that is not set, and for a setting that its value spoils.
    """

    def fill(text: str) -> str:
        def value(match: re.Match[str]) -> str:
            name = match.group(1)
            if name not in environment:
                what = f"The MCP server {server.name} needs the environment variable {name}, which is not set"
                raise SettingsError(what, f'Set it: os.environ["{name}"] = ...')
            return environment[name]

        return VARIABLE.sub(value, text)

    address = fill(server.command_or_url) if server.is_remote else ""
    if server.is_remote and not is_address(address):
        raise SettingsError(f"The address of the MCP server {server.name} does not begin with http:// or https://")
    headers = {name: fill(value) for name, value in server.headers.items()}
    cwd = None if server.cwd is None else home_expanded(server.cwd)
    for folder, purpose in ((cwd, "to start in"), *[(Path(root), "to have the root") for root in server.roots]):
        if folder is not None and not folder.is_dir():
            raise SettingsError(f"The MCP server {server.name} is {purpose} {folder}, which is not a folder")
    for name, value in headers.items():
        if not value.isprintable():  # the error of the client would repeat it
            raise SettingsError(f"The header {name} of the MCP server {server.name} has a line break or control character")
    return replace(
        server,
        command_or_url=address or server.command_or_url,
        args=tuple(map(fill, server.args)),
        env={name: fill(value) for name, value in server.env.items()},
        headers=headers,
        cwd=cwd,
    )


def check_variables(texts: Iterable[str], *, is_program_text: bool = False) -> str:
    """Return what is wrong with the variables in texts, such as ``${env:NAME}``; empty if nothing is.

    ``is_program_text``: they are arguments, which may have a meaning of their own for ``${...}``, as in a shell.
    """
    wrong = _OF_OTHER_PROGRAMS if is_program_text else _NO_VARIABLE
    return "${...} in it is not the name of a variable" if any(wrong.search(text) for text in texts) else ""


def variables(server: MCPServer) -> list[str]:
    """Return the names of the environment variables that its settings read, each once."""
    address = (server.command_or_url,) if server.is_remote else ()
    texts = (*address, *server.args, *server.env.values(), *server.headers.values())
    return list(dict.fromkeys(name for text in texts for name in VARIABLE.findall(text)))


def secrets(server: MCPServer) -> list[str]:
    """Return the secrets in the settings of a server: values of env and headers that are not plain words.

    ``warning`` or ``Europe/Paris`` would be masked wherever they occur, and are no secrets; ``${NAME}`` is none yet.
    """
    values = [value for value in (*server.env.values(), *server.headers.values()) if not VARIABLE.search(value)]
    parts = [part for value in values for part in {value, value.rpartition(" ")[2]}]
    return [part for part in parts if not _PLAIN.fullmatch(part)]


_PLAIN = re.compile(r"[A-Za-z/_.:, -]{0,40}")
