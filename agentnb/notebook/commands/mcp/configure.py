"""``%agent mcp add``, ``load`` and ``remove``: the session's configured servers."""

from __future__ import annotations

import math
import re
from typing import Any

from agentnb.display.texts.labels import clean
from agentnb.errors import SettingsError, suggest_names
from agentnb.notebook.frontend import asker
from agentnb.notebook.magic_errors import split_words
from agentnb.session.confirmed_servers import load_server_file
from agentnb.session.session import Session
from agentnb.tools.mcp.expansion import check_variables, secrets
from agentnb.tools.mcp.mcp_server import PREFIX, MCPServer, check_name, is_address_or_variable

ENV, HEADER, CWD, TIMEOUT, MAX_SECONDS, ROOTS = "--env", "--header", "--cwd", "--timeout", "--max-seconds", "--roots"
ADD_OPTIONS = {
    ENV: "NAME=VALUE",
    HEADER: "NAME=VALUE",
    CWD: "FOLDER",
    TIMEOUT: "SECONDS",
    MAX_SECONDS: "SECONDS",
    ROOTS: "FOLDER",
}
"""The options, with placeholders for their values."""
END = "--"
"""Ends the options; the words that follow belong to the command."""
USAGE = "Write: %agent mcp add [OPTIONS] NAME COMMAND ..., or NAME URL. Options: " + ", ".join(
    f"{option} {value}" for option, value in ADD_OPTIONS.items()
)
IN_THE_NOTEBOOK = "Values written here stay in the notebook. ${NAME} refers to an environment variable"
_ASSIGNMENTS = {ENV: re.compile(r"([^=\s]+)=(.*)", re.DOTALL), HEADER: re.compile(r"([^=:\s]+)(?:=|:\s*)(.*)", re.DOTALL)}
"""Syntax of environment variables and headers. A header may also be written as in a request: ``Authorization: Bearer ...``."""


def add_command(session: Session, shell: Any, rest: str) -> None:
    """NAME COMMAND... | URL: configure a server, replacing one of the same name"""
    server = _read(split_words(rest, is_secret=True))
    session.servers.configuration.add(server)
    print(clean(f"{server.name} is configured: {server.target}. Next: %%agent -t {PREFIX}{server.name}"))
    if secrets(server):
        print(IN_THE_NOTEBOOK)


def load_command(session: Session, shell: Any, rest: str) -> None:
    """FILE: configure the servers of a file, yours or another program's, after showing it and asking"""
    words = split_words(rest, is_secret=True)
    if len(words) != 1:
        raise SettingsError("Which file?" if not words else "One file at a time", "Write: %agent mcp load FILE")
    loaded = load_server_file(session.servers, words[0], asker(shell))
    names = [server.name for server in loaded.servers]
    next_step = f"configured. Next: %%agent -t {PREFIX}{names[0]}" if names else "no MCP servers"
    lines = [
        f"{words[0]}: {', '.join(names)}{' are ' if len(names) > 1 else ' is ' if names else ''}{next_step}",
        *loaded.notes,
    ]
    for name in names:
        source = session.servers.configuration.source(name)
        if session.servers.configuration.known[name] != loaded.find(name):
            lines.append(f"{name} keeps its settings: it was {source}. To use the file's settings: %agent mcp remove {name}")
    print(clean("\n".join(lines)))


def remove_command(session: Session, shell: Any, rest: str) -> None:
    """NAME: forget a server that was added or loaded, and end its connection"""
    words = split_words(rest, is_secret=True)
    if len(words) != 1:
        raise SettingsError("Which server?", suggest_names("", session.servers.configuration.known) or "%agent mcp lists them")
    session.servers.configuration.remove(words[0])
    source = session.servers.configuration.source(words[0])
    print(clean(f"{words[0]} was removed" + (f". The {words[0]} from {source} remains" if source else "")))


def _read(typed: list[str]) -> MCPServer:
    """Return the server that the words describe.

    Options come before a command; the command's own arguments are left unchanged. An address has no arguments, so options may
    follow it.
    """
    words, settings, remaining = list[str](), dict[str, Any](), [*typed]
    is_ended = False
    while remaining:
        word = remaining.pop(0)
        in_command = len(words) > 1 and not is_address_or_variable(words[1])
        if word == END and not is_ended and not in_command:
            is_ended = True
        elif is_ended or in_command or not word.startswith("-"):
            if word.partition("=")[0] in ADD_OPTIONS and not is_ended:
                mistake = f"{word.partition('=')[0]} comes after the command"
                raise SettingsError(mistake, f"Write it before the name; after {END} it is an argument of the command")
            words.append(word)
        else:
            _take_option(settings, word, remaining)
    if len(words) < 2:
        raise SettingsError(f"The MCP server has no {'command or address' if words else 'name'}", USAGE)
    name, target, *args = words
    is_remote = is_address_or_variable(target)
    if is_remote and args:
        raise SettingsError(f"An address takes no arguments, got {len(args)}", USAGE)
    texts = [text for setting in ("env", "headers") for text in settings.get(setting, {}).values()]
    if problem := check_variables((*([target] if is_remote else []), *texts)):
        raise SettingsError(f"{name}: {problem}", "Write ${NAME} for an environment variable")
    check_name(name)
    try:
        return MCPServer(name, target, args, **settings)
    except SettingsError as error:  # its advice is for Python
        raise SettingsError(error.what, USAGE) from None


def _take_option(settings: dict[str, Any], word: str, remaining: list[str]) -> None:
    """Add an option to the server's settings. Its value may be the next word."""
    option, equals, value = word.partition("=")
    if option not in ADD_OPTIONS:
        raise SettingsError(f"%agent mcp add has no option {option}", (*suggest_names(option, ADD_OPTIONS),))
    if not equals:
        if not remaining:
            raise SettingsError(f"{option} has no value", USAGE)
        value = remaining.pop(0)
    if option == ROOTS:
        settings.setdefault("roots", []).append(value)
    elif option in _ASSIGNMENTS:
        match = _ASSIGNMENTS[option].fullmatch(value)
        if match is None and (option == HEADER or not value.isidentifier()):
            raise SettingsError(f"{option} takes NAME=VALUE", USAGE)
        name, text = match.groups() if match is not None else (value, f"${{{value}}}")
        settings.setdefault("env" if option == ENV else "headers", {})[name] = text
    else:
        settings[option.removeprefix("--").replace("-", "_")] = value if option == CWD else _seconds(option, value)


def _seconds(option: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not (seconds > 0 and math.isfinite(seconds)):
        raise SettingsError(f"{option} {text!r} is not a duration", "Give a number of seconds above 0")
    return seconds
