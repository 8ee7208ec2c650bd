"""MCP server files named by the person: shown and confirmed before the servers in them are configured."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from hashlib import sha256
from pathlib import Path

import msgspec

from agentnb.core.redaction import redact
from agentnb.display.texts.servers.server_file import CONFIRM, describe_servers
from agentnb.errors import SettingsError, TraceError
from agentnb.personal_files import read_lines, write_lines
from agentnb.runtime.questions.model_code import check_person
from agentnb.runtime.servers.servers import CONFIGURING, Servers
from agentnb.store.regular_files import open_regular
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.mcp.server_settings import ServerList, read_servers
from agentnb.workflow.cagent.agent_file import described_servers

FILE = "confirmed-servers.txt"
"""The person's own file with a line for each confirmed server file. To withdraw a confirmation, delete its line."""
MAX_BYTES = 1_000_000
NAME_ONE = "Name a file of MCP servers, such as mcp.json"
WITHOUT_PERSON = (
    "Name the file once in an open notebook or a terminal, where you can confirm it. "
    "Or set the environment variable MCP_SERVERS to these servers"
)
_confirmed_here: set[str] = set()
"""Lines of files confirmed in this process, since the person's folder may not be writable."""


def load_server_file(servers: Servers, name: str, ask: Callable[[str], str] | None) -> ServerList:
    """Configure the servers in a file, after the person has confirmed it on first use and after each change.

    ``ask``: writes a question and returns the line that the person types, or None if nobody is present. Raises
    `SettingsError`, and configures nothing, if the file cannot be read, nobody is present, or the person declines.
    """
    check_person(CONFIGURING, is_lasting=True)
    path = Path(name).expanduser().absolute()
    listed = read_server_file(path, shown=name)
    line = _line(path, listed.servers)
    if listed.servers and line not in (*_confirmed_here, *read_lines(FILE)):
        _confirm(name, listed, ask)
        _remember(path, line)
    servers.configuration.load(listed, str(path))
    return listed


def read_server_file(path: Path, *, shown: str) -> ServerList:
    """Parse the MCP servers described in a file, without configuring them. ``shown``: the file's name in errors.

    A relative ``cwd`` is relative to the folder of the file. Raises `SettingsError` with the position of the problem.
    """
    try:
        with open_regular(path, MAX_BYTES) as file:
            text = file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{shown} is not UTF-8 text", NAME_ONE) from None
    except FileNotFoundError:
        raise SettingsError(f"There is no file {shown}", NAME_ONE) from None
    except OSError as error:
        raise SettingsError(f"{shown} cannot be read: {error.strerror or error}") from None
    except TraceError as error:
        raise SettingsError(error.what.replace(str(path), shown), NAME_ONE) from None
    return read_servers(described_servers(text) or text, shown, path.parent)


def _confirm(name: str, found: ServerList, ask: Callable[[str], str] | None) -> None:
    """Ask the person. Raises `SettingsError` unless they say yes."""
    if ask is None:
        names = ", ".join(server.name for server in found.servers)
        problem = f"{name} names MCP servers that you have not confirmed ({names}), and nobody can confirm them here"
        raise SettingsError(problem, WITHOUT_PERSON)
    reply = ask(f"{redact(describe_servers(name, found))}\n{CONFIRM}")
    if reply.strip().lower() not in ("y", "yes"):
        raise SettingsError("Nothing was configured", f"To be asked again, name {name} once more")


def _line(path: Path, servers: Sequence[MCPServer]) -> str:
    """Return the line for a file: the digest of its servers, including values, and its path."""
    named = [[getattr(server, setting.name) for setting in fields(server)] for server in servers]
    return f"{sha256(msgspec.json.encode(named, order='sorted')).hexdigest()} {json.dumps(str(path))}"


def _remember(path: Path, line: str) -> None:
    """Store the person's confirmation, replacing an earlier one for the same file."""
    _confirmed_here.difference_update({line_ for line_ in _confirmed_here if _is_of(line_, path)})
    _confirmed_here.add(line)
    write_lines(FILE, [*[line_ for line_ in read_lines(FILE) if not _is_of(line_, path)], line])


def _is_of(line: str, path: Path) -> bool:
    return line.partition(" ")[2] == json.dumps(str(path))
