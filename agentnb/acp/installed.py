"""What is installed of the known agents, and in which version. Nothing is started to find out."""

from __future__ import annotations

import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import msgspec

from agentnb.acp.known_agents import KnownAgent


class Package(msgspec.Struct):
    """The part of a ``package.json`` that is read."""

    version: str = ""


class Installed(NamedTuple):
    """An installed program: its path, and its version, empty if nothing beside it tells it."""

    path: Path
    version: str


def installed(agent: KnownAgent) -> Installed | None:
    """Return the program of an agent; None if it is not on the ``PATH``."""
    found = shutil.which(agent.command[0])
    return None if found is None else Installed(Path(found), _version(Path(found), agent))


def _version(program: Path, agent: KnownAgent) -> str:
    """Return the version that the package of npm or pip says which the program is of."""
    for folder in program.resolve().parents:
        if (packed := folder / "package.json").is_file():
            try:
                return msgspec.json.decode(packed.read_bytes(), type=Package).version
            except (OSError, msgspec.DecodeError):
                return ""
    name = agent.install.rpartition(" ")[2] if agent.install.startswith("pip ") else ""
    try:
        return version(name) if name else ""
    except PackageNotFoundError:
        return ""
