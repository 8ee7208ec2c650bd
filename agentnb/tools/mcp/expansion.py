"""Variables such as ``${NAME}`` in the settings of MCP servers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from agentnb.errors import SettingsError
from agentnb.settings import values_of
from agentnb.tools.mcp.mcp_server import FILE, VARIABLE, MCPServer, expand_home, is_address

MAX_FILE = 100_000
"""Maximum number of bytes in a file that is used as a value or contains variables."""
_NO_VARIABLE = re.compile(rf"\$\{{(?!{VARIABLE.pattern[4:]})")
_AS_OTHERS_WRITE = (
    (re.compile(r"\$\{\{\s*secrets\.([A-Za-z_]\w*)\s*\}\}"), r"${\1}"),  # Continue
    (re.compile(r"\$\{(?:env|localEnv)[:.]([A-Za-z_]\w*)"), r"${\1"),  # VS Code, Cursor, Windsurf, Roo Code
    (re.compile(r"(?:\$|^(?=\w+$))(COPILOT_MCP_\w+)"), r"${\1}"),  # the coding agent of GitHub
    (re.compile(r"(?<!\$)\{env:([A-Za-z_]\w*)\}"), r"${\1:-}"),  # opencode, empty if unset
    (re.compile(r"(?<!\$)\{file:([^}:]+)\}"), r"${file:\1}"),
)
"""Environment variables in the syntax of other programs, with their replacements."""
_FILE = re.compile(r"\$\{file:([^}:]+)(?=[}:])\}")
_BARE = re.compile(r"\$([A-Z_][A-Z0-9_]*)\b")
_WORKSPACE = "workspaceFolder|workspaceRoot|workspacePath|CLAUDE_PROJECT_DIR|cwd"
_FOLDERS = re.compile(rf"\$\{{(?:({_WORKSPACE})(?::[^}}]*)?|(userHome)|(workspaceFolderBasename)|(pathSeparator|/))\}}")
"""Folder variables of editors, which are not environment variables."""
_REFUSED = {
    "VS Code asks its user for {}": re.compile(r"\$\{(?:input|promptString):([^}]*)\}"),
    "only VS Code knows {}": re.compile(r"\$\{(?:command|config):([^}]*)\}"),
    "Continue asks its user for {}": re.compile(r"\$\{\{\s*inputs\.([^}\s]*)\s*\}\}"),
    "Claude Desktop asks its user for {}": re.compile(r"\$\{user_config\.([^}]*)\}"),
    "only a shell runs $({1} ...)": re.compile(r"^\$\(\s*(\w+).*\)$"),
    "LibreChat asks its user for {}": re.compile(r"(?<!\{)\{\{([A-Z][A-Z0-9_]+)\}\}"),
    "{} is the folder of a Claude Code plugin": re.compile(r"\$\{(CLAUDE_PLUGIN_(?:ROOT|DATA))\}"),
    "{} is the folder of a Gemini CLI extension": re.compile(r"\$\{(extensionPath)\}"),
    "{} is the folder of a Claude Desktop extension": re.compile(r"\$\{(__dirname)\}"),
}
"""Variables that only the program itself can fill."""


def translate_variables(text: str, key: str | int, folder: Path | None, *, has_bare_variables: bool) -> str:
    """Translate the variables of another program's file to agentnb's syntax.

    ``key``: the setting, or an index in a list; ``folder``: the working folder. For a variable that only the program itself can
    fill, raises `SettingsError` with a replacement that works.
    """
    for reason, pattern in _REFUSED.items():
        if match := pattern.search(text):
            name = re.sub(r"\W", "_", match[1]).upper()
            value, then = f"${{{name}}}", f', and set it: os.environ["{name}"] = ...'
            if reason.startswith("{}"):
                value, then = "/THAT/FOLDER", ""
            around = [part if _PLAIN.fullmatch(part) else "..." for part in (text[: match.start()], text[match.end() :])]
            setting = f'"{key}": ' if isinstance(key, str) else ""
            raise SettingsError(reason.format(*match.group(0, 1)), f'Write {setting}"{value.join(around)}"{then}')
    for pattern, replacement in _AS_OTHERS_WRITE:
        text = pattern.sub(replacement, text)
    workspace = folder or Path.cwd()
    places = (str(workspace), str(Path.home()), workspace.name, os.sep)
    text = _FOLDERS.sub(lambda match: places[(match.lastindex or 1) - 1], text)
    text = _FILE.sub(lambda match: f"${{{FILE}{(folder or Path()) / expand_home(match[1])}}}", text)
    return _BARE.sub(r"${\1}", text) if has_bare_variables else text


_KIND = "environment variable"


def expand_variables(server: MCPServer, environment: Mapping[str, str]) -> MCPServer:
    """Replace ``${NAME}`` in the settings of a server with the values of environment variables.

    Raises `SettingsError`, without values, for an unset variable, and for a setting that becomes invalid once expanded.
    """

    def fill(text: str) -> str:
        def value(match: re.Match[str]) -> str:
            name, default = match.groups()
            if name not in environment and default is not None:
                return fill(default)
            if name not in environment:
                is_file = name.startswith(FILE)
                needed = (
                    f"file {name.removeprefix(FILE)}, which cannot be read" if is_file else f"{_KIND} {name}, which is not set"
                )
                advice = "" if is_file else f'Set it: os.environ["{name}"] = ...'
                raise SettingsError(f"The MCP server {server.name} needs the {needed}", advice)
            return environment[name]

        return VARIABLE.sub(value, text)

    target = fill(server.command_or_url)
    if server.is_remote and not is_address(target):
        raise SettingsError(f"The address of the MCP server {server.name} does not begin with http:// or https://")
    headers = {name: fill(value) for name, value in server.headers.items()}
    cwd = None if server.cwd is None else expand_home(fill(str(server.cwd)))
    for folder, purpose in ((cwd, "starts in"), *[(Path(root), "has the root") for root in server.roots]):
        if folder is not None and not folder.is_dir():
            raise SettingsError(f"The MCP server {server.name} {purpose} {folder}, which is not a folder")
    for name, value in headers.items():
        if not value.isprintable():  # the client's error would repeat it
            raise SettingsError(f"The header {name} of the MCP server {server.name} contains a line break or control character")
    return replace(
        server,
        command_or_url=target,
        args=tuple(map(fill, server.args)),
        env={name: fill(value) for name, value in server.env.items()},
        headers=headers,
        cwd=cwd,
    )


def check_variables(texts: Iterable[str]) -> str:
    """Describe the problem with the variables in this text, such as ``${x y}``, or return ""."""
    return "it contains ${...} without a valid variable name" if any(_NO_VARIABLE.search(text) for text in texts) else ""


def values(server: MCPServer) -> dict[str, str]:
    """Return the values of the variables in a server's settings, from the environment and readable files."""
    names = variables(server)
    files = {name: text_of(Path(name.removeprefix(FILE))) for name in names if name.startswith(FILE)}
    return values_of(names) | {name: text.strip() for name, text in files.items() if text is not None}


def text_of(path: Path) -> str | None:
    """Return the text of a small file, or None if it cannot be read."""
    try:
        is_read = path.is_file() and path.stat().st_size <= MAX_FILE
        return path.read_text("utf-8") if is_read else None
    except (OSError, ValueError):
        return None


def variables(server: MCPServer) -> list[str]:
    """Return the names of the variables in a server's settings, without duplicates."""
    texts = (server.command_or_url, *server.args, *server.env.values(), *server.headers.values(), str(server.cwd or ""))
    return list(dict.fromkeys(name for text in texts for name in _names(text)))


def _names(text: str) -> Iterator[str]:
    """Yield the names of the variables in the text, including those in default values."""
    for name, default in VARIABLE.findall(text):
        yield name
        yield from _names(default)


def secrets(server: MCPServer) -> list[str]:
    """Return the secrets in a server's settings: values of env and headers, and default values of variables.

    Values such as ``warning`` or ``Europe/Paris`` do not count: they would be masked wherever they occur. ``${NAME}`` is not
    expanded.
    """
    values = (*server.env.values(), *server.headers.values())
    defaults = [text for value in (*values, *server.args, server.command_or_url) for text in _defaults(value)]
    own = [value for value in values if not VARIABLE.search(value)]
    parts = [part for value in (*own, *defaults) for part in {value, value.rpartition(" ")[2]}]
    return [part for part in parts if not _PLAIN.fullmatch(part)]


def _defaults(text: str) -> Iterator[str]:
    """Yield the default values of the variables in the text."""
    for _, default in VARIABLE.findall(text):
        yield from _defaults(default) if VARIABLE.search(default) else [default]


_PLAIN = re.compile(r"[A-Za-z/_.:, -]{0,40}")
