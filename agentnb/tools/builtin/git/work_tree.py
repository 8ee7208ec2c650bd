"""The repository around the working folder: its location, its configuration, and git processes in it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentnb.errors import SettingsError
from agentnb.tools.builtin.git.git_process import WHOLE, ProcessResult, run_process
from agentnb.tools.builtin.git.path_text import shown_name
from agentnb.tools.builtin.git.protection import READING, find_git, program_folders, protected_environment
from agentnb.tools.builtin.shell.bounded_output import Bounds
from agentnb.tools.tool import ToolRefused

NO_REPOSITORY = "Work without git, or ask the person to run git init in a terminal."
REDIRECTED = "The git tools do not follow it. Work without git, or ask the person."
FALSE_WORDS = ("", "false", "no", "off", "0")


class GitConfig:
    """Configured values by name; the first and last part of a name are lowercase. A name without a value, which means true,
    maps to None.
    """

    def __init__(self, listed: bytes) -> None:
        """``listed``: the output of ``git config --list -z --show-scope``."""
        parts = listed.split(b"\0")
        self._values: dict[str, str | None] = {}
        for scope, entry in zip(parts[::2], parts[1::2], strict=False):
            if scope != b"command":
                name, separator, value = entry.partition(b"\n")
                self._values[os.fsdecode(name)] = os.fsdecode(value) if separator else None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def text(self, *names: str) -> str:
        """Return the last value of the first of these names that is set, or "" if none is."""
        return next((value for name in names if (value := self._values.get(name))), "")

    def is_on(self, name: str) -> bool:
        """True if a setting is on."""
        value = self._values.get(name, "")
        return value is None or value.lower() not in FALSE_WORDS


@dataclass(frozen=True)
class Repository:
    """A repository and the working folder in it. Links in the paths are resolved."""

    work_dir: Path
    top: Path
    git_dir: Path
    common_dir: Path
    config: GitConfig
    folders: tuple[str, ...]
    """Search path of programs."""

    @property
    def prefix(self) -> bytes:
        """Path of the working folder relative to the top, with a trailing slash; empty at the top."""
        relative = os.fsencode(self.work_dir.relative_to(self.top))
        return b"" if relative == b"." else relative + b"/"

    async def run(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        bounds: Bounds = WHOLE,
        is_reading: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> ProcessResult:
        """Run git in the working folder and return its result, whatever the exit code."""
        command: Sequence[str | bytes] = (_git(self.folders), "-C", os.fsencode(self.work_dir), "--no-pager", *arguments)
        environment = protected_environment(self.folders, self.config) | (READING if is_reading else {}) | dict(variables or {})
        return await run_process(command, self.work_dir, environment, stdin, bounds)

    async def output(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        is_reading: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run git and return its complete output. Raises `ToolRefused` if it fails or prints too much."""
        result = await self.run(*arguments, stdin=stdin, is_reading=is_reading, variables=variables)
        check_result(result, os.fsdecode(arguments[0]))
        if result.output.omitted_bytes:
            raise ToolRefused(
                "too_much",
                "git printed more than agentnb can read.",
                "Narrow the request, for example to one folder, or ask the person.",
            )
        return bytes(result.output.head)

    def names(self, listed: bytes) -> list[bytes]:
        """Split a list of paths, each terminated by a zero byte."""
        return [name for name in listed.split(b"\0") if name]

    def is_inside(self, path: bytes) -> bool:
        """True if a path, relative to the top, is below the working folder."""
        return path.startswith(self.prefix)

    def below(self, path: bytes) -> bytes:
        """Convert a path relative to the top into one relative to the working folder, if it is below that folder."""
        return path.removeprefix(self.prefix)

    def display_path(self, path: bytes) -> str:
        """Convert a path relative to the top into text for a model, relative to the working folder."""
        is_around = path.endswith(b"/") and self.prefix.startswith(path)  # an untracked folder
        return "./" if is_around else shown_name(self.below(path))


def check_result(result: ProcessResult, action: str) -> None:
    """Raise `ToolRefused` with git's message if git failed."""
    if result.code != 0:
        words = result.error or f"exit code {result.code}"
        raise ToolRefused(
            "git_error", f"git {action} failed: {words}", "Change the arguments if they are the cause, or ask the person."
        )


async def open_repository(work_dir: Path) -> Repository:
    """Return the repository around a folder.

    Raises `ToolRefused` outside a repository, if git rejects the repository, or if it refers to files elsewhere.
    """
    repository = await asyncio.to_thread(_nearest_repository, work_dir)
    options = ("--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir")
    located = await repository.run("rev-parse", *options)
    if located.code != 0:
        raise ToolRefused("not_a_repository", f"git does not accept this repository: {located.error}", NO_REPOSITORY)
    config = GitConfig(await repository.output("config", "--list", "-z", "--show-scope"))
    return await asyncio.to_thread(_with_place, replace(repository, config=config), bytes(located.output.head))


def _nearest_repository(work_dir: Path) -> Repository:
    """Return the repository of the nearest folder with ``.git``, from the working folder upwards."""
    work_dir = work_dir.resolve()
    if ".git" in work_dir.parts:
        raise ToolRefused("not_a_repository", "The working directory is inside .git.", NO_REPOSITORY)
    for top in (work_dir, *work_dir.parents):
        if os.path.lexists(top / ".git"):
            return Repository(work_dir, top, top / ".git", top / ".git", GitConfig(b""), tuple(program_folders(top)))
    raise ToolRefused("not_a_repository", "The working directory is not in a git repository.", NO_REPOSITORY)


def _with_place(repository: Repository, located: bytes) -> Repository:
    """Return the repository with the paths of its data filled in. Raises `ToolRefused` unless these paths are the repository's
    own.
    """
    lines = located.split(b"\n")
    if len(lines) != 4:  # the path of the repository has a line break
        raise ToolRefused("git_error", "The path of this repository contains a line break.", NO_REPOSITORY)
    git_top, git_dir, common_dir = (Path(os.fsdecode(line)).resolve() for line in lines[:3])
    repository = replace(repository, git_dir=git_dir, common_dir=common_dir)
    _check_place(repository, git_top)
    return repository


def _git(folders: Sequence[str]) -> str:
    try:
        return find_git(folders)
    except SettingsError as error:
        raise ToolRefused("git_missing", str(error)) from error


def _check_place(repository: Repository, git_top: Path) -> None:
    """Raise `ToolRefused` unless the work tree and the data belong to the repository itself."""
    top, git_dir, common_dir = repository.top, repository.git_dir, repository.common_dir
    if git_top != top:
        raise ToolRefused(
            "redirected", "The work tree of this repository is not the folder containing its .git (core.worktree).", REDIRECTED
        )
    if git_dir != top / ".git" and not _belongs_to_work_tree(repository):
        problem = "This folder's .git points to a repository elsewhere that does not have this folder as its work tree."
        raise ToolRefused("redirected", problem, REDIRECTED)
    if common_dir not in (git_dir, git_dir.parent.parent if git_dir.parent.name == "worktrees" else git_dir):
        raise ToolRefused("redirected", "This repository uses the data of another one (commondir).", REDIRECTED)
    for folder in {git_dir, common_dir}:
        for path in _places_that_git_writes(folder):
            if path.is_symlink() and not path.resolve().is_relative_to(folder):
                name = shown_name(os.fsencode(path.relative_to(folder)))
                raise ToolRefused("redirected", f"A link in .git points elsewhere: {name}.", REDIRECTED)


def _places_that_git_writes(folder: Path) -> Iterator[Path]:
    """Yield the entries of a git folder, including all references and their logs, and the linked object folders."""
    yield from folder.iterdir()
    yield from (path for path in (folder / "objects").glob("*") if path.is_symlink())
    for part in ("refs", "logs"):
        for parent, folders, files in os.walk(folder / part):  # does not follow links
            yield from (Path(parent, name) for name in (*folders, *files))


def _belongs_to_work_tree(repository: Repository) -> bool:
    """True if data outside a work tree belongs to it, as for a linked work tree or a submodule."""
    if repository.config.text("core.worktree"):  # git has resolved it to the same folder
        return True
    try:
        back = Path(os.fsdecode((repository.git_dir / "gitdir").read_bytes().rstrip(b"\n")))
    except OSError:
        return False
    return (repository.git_dir / back).parent.resolve() == repository.top
