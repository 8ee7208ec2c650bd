"""What is installed of the known agents, and in which version. Nothing is started to find out."""

from __future__ import annotations

import shutil
from importlib.metadata import distributions
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
    """Return the version of the program's package, of npm or pip; empty if none says it."""
    actual = program.resolve()
    if agent.install.startswith("pip "):
        name = agent.install.rpartition(" ")[2]
        beside = [str(path) for path in actual.parents[1].glob("lib/python*/site-packages")]
        return next((found.version for found in distributions(name=name, path=beside)), "")
    for folder in actual.parents:
        if (packed := folder / "package.json").is_file():
            try:
                return msgspec.json.decode(packed.read_bytes(), type=Package).version
            except (OSError, msgspec.DecodeError):
                return ""
    return ""
