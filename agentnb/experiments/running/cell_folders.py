"""The folders of a run, kept until the checks are done: its working folder, and the home of an external agent."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec.structs

from agentnb.acp import bridge
from agentnb.acp.external_agent import ExternalAgent
from agentnb.acp.known_agents import KnownAgent
from agentnb.agent.agent import Agent
from agentnb.errors import SettingsError
from agentnb.experiments.planning.run_folders import WORK_DIR, folder_content, row_in_copy
from agentnb.tools.builtin.shell.sandbox import sandbox_prefix
from agentnb.tools.builtin.shell.sandbox_view import View

SYSTEM = frozenset(
    ("bin", "boot", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "opt", "proc", "run", "sbin", "snap", "sys",
     "usr", "var")
)  # fmt: skip
"""Top-level folders that hold programs and settings of the system; others may hold users' files."""
INTERPRETER = "node"
"""Program that starts agents installed with npm."""
SIGN_IN = "The agent does not see your settings: pass a key in a variable, or in the folder home= of its variant"

CHANGED = 'Restore the folder and retry the run: EXPERIMENT.retry("the folder had changed")'


@dataclass(frozen=True, slots=True)
class CellFolders:
    """The folders of one run, inside a temporary folder, and the sandbox of an external agent."""

    folder: Path
    """The path with links resolved, as the sandbox needs it."""
    is_in_sandbox: bool = True
    originals: tuple[Path, ...] = ()
    """Folders to hide from an external agent in addition to users' folders: those of the task and of the records."""
    hosts: tuple[str, ...] = ()
    """Hosts that an external agent in the sandbox may reach; by default those in its entry."""

    @property
    def work(self) -> Path:
        """The working folder of the run."""
        return self.folder / "work"

    @property
    def home(self) -> Path:
        """The settings folder, which is the only user data that an external agent sees."""
        return self.folder / "home"

    @property
    def sockets(self) -> Path | None:
        """The folder of the sockets by which an agent in the sandbox reaches its model, or None without a sandbox."""
        return self.folder / "network" if self.is_in_sandbox else None

    def fill(self, row: Mapping[str, Any], home: str, files: str = "") -> dict[str, Any]:
        """Copy the folder of the task and the ``home`` of the variant, if any, and return the row with the run's folder.

        Raises `SettingsError` if the hash of the copy differs from ``files``, the hash of the folder when the experiment was
        read.
        """
        moved = row_in_copy(row, self.work)
        if files and folder_content(self.work) != files:
            raise SettingsError(f"{str(row[WORK_DIR])!r} has changed since the experiment began", CHANGED)
        if home:
            shutil.copytree(home, self.home, symlinks=True)
        else:
            self.home.mkdir()
        return moved

    def confine(self, agent: Agent) -> Agent:
        """Return a copy of an external agent that runs in these folders."""
        external = agent.used_model
        assert isinstance(external, ExternalAgent), "an agent with acp has an external agent as its model"
        return replace(agent, model=replace(external, place=self))

    def around(self, agent: KnownAgent) -> KnownAgent:
        """Return the command and environment of an external agent. Raises `SettingsError` if no sandbox is available."""
        env = {**agent.env, "HOME": str(self.home), **({agent.home: str(self.home)} if agent.home else {})}
        keys = tuple([name for name in agent.keys if name != agent.home])
        words = [] if self.sockets is None else self._sandbox_prefix(agent.command, self.sockets)
        return msgspec.structs.replace(agent, command=(*words, *agent.command), env=env, keys=keys, sign_in=SIGN_IN)

    def _sandbox_prefix(self, command: tuple[str, ...], sockets: Path) -> list[str]:
        view = View(has_network=False, hidden=(*_folders_of_persons(), *_below_system((Path.cwd(), *self.originals))))
        for word in (INTERPRETER, *command):
            if (
                program := shutil.which(word) or (word if Path(word).is_absolute() and Path(word).is_file() else None)
            ) is not None:
                view.show_program(Path(program))
        view.show_program(Path(bridge.__file__))
        for folder in (self.work, self.home):
            view.show(folder, writable=True)
        sockets.mkdir(exist_ok=True)
        view.show(sockets)
        empty = self.folder / "empty"
        empty.touch()
        return [*sandbox_prefix(view, self.work, empty), sys.executable, "-I", "-S", bridge.__file__, str(sockets)]


@contextmanager
def cell_folders(*, is_in_sandbox: bool, originals: Iterable[Path] = (), hosts: Iterable[str] = ()) -> Iterator[CellFolders]:
    """Provide new folders, and remove them at the end. ``originals``: folders to hide in addition to the current one;
    ``hosts``: see `CellFolders`.
    """
    with TemporaryDirectory(prefix="agentnb-cell-", ignore_cleanup_errors=True) as folder:
        yield CellFolders(Path(folder).resolve(), is_in_sandbox, tuple(originals), tuple(hosts))


def _folders_of_persons() -> Iterator[Path]:
    """Yield the top-level folders that do not belong to the system."""
    for path in Path("/").iterdir():
        if path.name not in SYSTEM and path.is_dir() and not path.is_symlink():
            yield path


def _below_system(folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the folders that are inside a system folder, with links resolved; the system folder itself stays visible."""
    for path in (folder.resolve() for folder in folders):
        if len(path.parts) > len(("/", "opt")) and path.parts[1] in SYSTEM and path.is_dir():
            yield path
