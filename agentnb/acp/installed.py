"""Installed versions of the known agents, for ``%agent acp``. No program is started to find these."""

from __future__ import annotations

import shlex
import shutil
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple

import msgspec

from agentnb.acp.known_agents import KnownAgent, known_agents
from agentnb.errors import SettingsError

HOW_TO_ADD = "Usage: %agent acp add NAME COMMAND"


class Package(msgspec.Struct):
    """The part of a ``package.json`` that is used."""

    version: str = ""


class Installed(NamedTuple):
    """An installed program: its path, and its version or "" if unknown."""

    path: Path
    version: str


def find_installed(agent: KnownAgent) -> Installed | None:
    """Return the program of an agent, or None if it is not on the ``PATH``."""
    program = shutil.which(agent.command[0])
    return None if program is None else Installed(Path(program), _version(Path(program), agent))


def _version(program: Path, agent: KnownAgent) -> str:
    """Return the version of the program's npm or pip package, or "" if unknown."""
    actual = program.resolve()
    if agent.install.startswith("pip "):
        name = agent.install.rpartition(" ")[2]
        beside = [str(path) for path in actual.parents[1].glob("lib/python*/site-packages")]
        return next((distribution.version for distribution in distributions(name=name, path=beside)), "")
    for folder in actual.parents:
        if (packed := folder / "package.json").is_file():
            try:
                return msgspec.json.decode(packed.read_bytes(), type=Package).version
            except (OSError, msgspec.DecodeError):
                return ""
    return ""


def acp_command(rest: str) -> str:
    """Run ``%agent acp`` and return its output. Raises `SettingsError`."""
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise SettingsError(f"{error} in: {rest}", "Close it, or leave it out") from error
    if not words:
        return "\n".join(_line(name, agent) for name, agent in known_agents().items())
    if words[0] != "add" or len(words) < 3:
        raise SettingsError(f"%agent acp has no command {rest!r}", HOW_TO_ADD)
    _, name, *command = words
    if not name.isidentifier():
        raise SettingsError(f"{name!r} is not a valid agent name", "Use only letters, digits and _")
    known_agents()[name] = KnownAgent(command=tuple(command), asks=False)
    return f"{name} is now known in this kernel. Run it: %%agent --acp {name}"


def _line(name: str, agent: KnownAgent) -> str:
    """Return a line about an agent: its version, or instructions for installing it."""
    program = find_installed(agent)
    if program is None:
        return f"{name:<9} not installed: {agent.install or f'there is no {agent.command[0]}'}"
    tried = "" if agent.tried in ("", program.version) else f", tried with {agent.tried}"
    sign_in = f". To sign in: {agent.sign_in}" if agent.sign_in else ""
    return f"{name:<9} {program.version or 'of unknown version'}{tried}{sign_in}"
