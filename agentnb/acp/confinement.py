"""The confinement of an agent that nobody watches: settings of its own, and walls around all but two folders."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from agentnb.acp import bridge
from agentnb.acp.known_agents import KnownAgent
from agentnb.tools.builtin.shell.sandbox import words_of_sandbox
from agentnb.tools.builtin.shell.sandbox_view import View

SYSTEM = frozenset(
    ("bin", "boot", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "run", "sbin", "snap", "sys",
     "usr", "var")
)  # fmt: skip
"""Folders at the top that hold programs and settings of the system. The others may hold files of the person."""
INTERPRETER = "node"
"""The program that starts agents of npm."""
SIGN_IN = "Its settings are its own here: a key reaches it by a variable, or by the folder home= of its variant"


@dataclass(frozen=True, slots=True)
class Confinement:
    """The folder of one run, in which the agent has its settings, and whether there are walls around it."""

    folder: Path
    is_in_sandbox: bool = True

    @property
    def home(self) -> Path:
        """The folder of settings: all that the agent finds of a person."""
        return self.folder / "home"

    def around(self, agent: KnownAgent, work_dir: Path) -> KnownAgent:
        """Return the row of the agent as it starts there. Raises `SettingsError` if there can be no sandbox here."""
        env = {**agent.env, "HOME": str(self.home), **({agent.home: str(self.home)} if agent.home else {})}
        keys = tuple([name for name in agent.keys if name != agent.home])
        command = agent.command
        if self.is_in_sandbox:
            command = (*words_of_sandbox(self._view(command, work_dir), work_dir, self._empty()), *command)
        return replace(agent, command=command, env=env, keys=keys, sign_in=SIGN_IN)

    def _view(self, command: tuple[str, ...], work_dir: Path) -> View:
        view = View(has_network=True, hidden=_folders_of_persons())
        for word in (INTERPRETER, *command):
            if (
                found := shutil.which(word) or (word if Path(word).is_absolute() and Path(word).is_file() else None)
            ) is not None:
                view.show_program(Path(found))
        view.show_program(Path(bridge.__file__))
        for folder in (work_dir, self.home):
            view.show(folder, writable=True)
        return view

    def _empty(self) -> Path:
        empty = self.folder / "empty"
        empty.touch()
        return empty


def _folders_of_persons() -> Iterator[Path]:
    """Return the folders at the top of the file system that are not the system's own."""
    for path in Path("/").iterdir():
        if path.name not in SYSTEM and path.is_dir() and not path.is_symlink():
            yield path
