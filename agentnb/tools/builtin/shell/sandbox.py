"""The sandbox of a command: bubblewrap with its own namespaces and without capabilities."""

from __future__ import annotations

import asyncio
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from agentnb import settings
from agentnb.advice import Plain
from agentnb.errors import SettingsError
from agentnb.git_copies.copies import GitCopy, copy_git
from agentnb.git_copies.way_back import transfer_changes
from agentnb.tools.builtin.shell.bounded_output import BoundedOutput
from agentnb.tools.builtin.shell.sandbox_repository import ProtectedPath, Repository
from agentnb.tools.builtin.shell.sandbox_view import SandboxView, View
from agentnb.tools.builtin.shell.shell_process import ProcessResult, run_process

SANDBOXES = ("bwrap",)
PROGRAM = "bwrap"
NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
WALLS = (*NAMESPACES, "--cap-drop", "ALL", "--new-session", "--die-with-parent")
SYSTEM = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
GIT_SETTINGS = r"^(user\.(name|email)|safe\.directory)$"
PROBE_SECONDS = 10
END_SECONDS = 1.0
MAX_COPIES = 20
"""Maximum number of repositories copied for a command: the one around the folder, and the first ones found inside it."""
FAILED_ADVICE = "The command did not run and is not at fault. Ask the person to check the sandbox"
MAX_INFO_BYTES = 4096


class Sandboxed(NamedTuple):
    """Result of a command in a sandbox. ``note``: a sentence about git data that the command wrote and that was discarded."""

    result: ProcessResult
    note: str


def check_sandbox(*, has_network: bool) -> None:
    """Raise `SettingsError`, naming what to install or set, if a sandbox is impossible here."""
    _walls(_program(Path.cwd()), has_network)


def sandbox_prefix(view: View, work_dir: Path, empty: Path) -> list[str]:
    """Return the command prefix for a sandbox with this view and without a network. ``empty``: an empty file.

    Raises `SettingsError` if a sandbox is impossible here.
    """
    program = _program(work_dir)
    return [program, *_walls(program, has_network=False), *SYSTEM, *view.words(empty), "--chdir", str(work_dir), "--"]


async def run_in_sandbox(
    sandbox: Sandbox, words: Sequence[str], variables: Mapping[str, str], seconds: float, kept: BoundedOutput | None = None
) -> Sandboxed:
    """Run a program in a sandbox and bring back its accepted changes to git data, even on cancellation.

    ``kept``: as for `run_process`. Raises `SettingsError` if the sandbox failed before the program ran.
    """
    opening = asyncio.ensure_future(asyncio.to_thread(sandbox.open))

    async def close() -> tuple[bool, str]:
        await asyncio.wait([opening])
        return await asyncio.to_thread(sandbox.close)

    try:
        command, descriptors = await asyncio.shield(opening)
        result = await run_process(
            [*command, *words],
            folder=sandbox.work_dir,
            variables=variables,
            seconds=seconds,
            descriptors=descriptors,
            kept=kept,
        )
    finally:
        has_run, note = await asyncio.shield(close())
    if not has_run and (result.exit_code or 0) > 0:
        raise SettingsError(f"The sandbox failed before the command ran: {result.errors.strip()[-500:]}", FAILED_ADVICE)
    return Sandboxed(result, note)


class Sandbox:
    """A sandbox around a folder, for one command. Opening it scans the folder, which takes time."""

    def __init__(self, work_dir: Path, variables: Mapping[str, str], *, has_network: bool, store: Path | None = None) -> None:
        """``store``: the folder of run logs, which is read-only."""
        self.work_dir = work_dir.resolve()
        self._variables, self._has_network, self._store = variables, has_network, store
        self._stack = ExitStack()
        self._copies: list[GitCopy] = []
        self._git: str | None = None
        self._told = -1

    def open(self) -> tuple[list[str], tuple[int, ...]]:
        """Return the command prefix for the sandbox, and the descriptors to inherit."""
        program, stack = _program(self.work_dir), self._stack
        walls = _walls(program, self._has_network)
        self._git = _program_outside("git", self.work_dir)
        view = SandboxView(self.work_dir, self._git, has_network=self._has_network, store=self._store)
        home = Path(self._variables["HOME"]).resolve()
        git_settings = _git_settings(self._git, self.work_dir, self._variables) if view.hides(home) else ""
        for part in view.guarded:
            stack.enter_context(_placeholder(part))
        temporary = tempfile.TemporaryDirectory(prefix="agentnb-sandbox-", ignore_cleanup_errors=True)
        stack.callback(threading.Thread(target=temporary.cleanup).start)  # takes milliseconds per folder
        folder = Path(temporary.name)
        empty = folder / "empty"
        empty.touch()
        if self._git is not None:
            self._copies = _copies(view.repositories, folder)
        person = _descriptor_of(git_settings, stack)
        git = ("--ro-bind-data", str(person), str(home / ".gitconfig")) if git_settings else ()
        arguments = [*walls, *SYSTEM, *view.words(empty, self._copies), *git, "--chdir", str(self.work_dir)]
        listed = _descriptor_of("\0".join(arguments) + "\0", stack)
        self._told, telling = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        stack.callback(os.close, telling)
        stack.callback(os.close, self._told)
        return [program, "--json-status-fd", str(telling), "--args", str(listed), "--"], (listed, person, telling)

    def close(self) -> tuple[bool, str]:
        """Bring back accepted changes to git data. Returns whether the program ran, and a note about git data that was not
        kept.
        """
        with self._stack:
            if self._told < 0:
                return False, ""
            state = _end_of(self._told)
            if "child-pid" in state and self._git is not None:
                return "exit-code" in state, transfer_changes(self._copies, self._git, self.work_dir).text
            return "exit-code" in state, ""


def _copies(repositories: Sequence[Repository], folder: Path) -> list[GitCopy]:
    """Copy the git folders. Folders beyond the maximum or of an unknown layout stay read-only."""
    copies: list[GitCopy] = []
    for shared in list(dict.fromkeys(repository.shared for repository in repositories))[:MAX_COPIES]:
        own = {repository.own for repository in repositories if repository.shared == shared} - {shared}
        copy = copy_git(shared, folder / str(len(copies)), own=own)
        if copy is not None:
            worktrees = [
                copy_git(worktree, folder / f"{len(copies)}-{number}", copy) for number, worktree in enumerate(sorted(own))
            ]
            copies += [copy, *(worktree for worktree in worktrees if worktree is not None)]
    return copies


def _program(work_dir: Path) -> str:
    program = _program_outside(PROGRAM, work_dir) if sys.platform == "linux" else None
    if program is None and sys.platform != "linux":
        raise SettingsError('sandbox="bwrap" works on Linux only', "Omit it to run commands without a sandbox")
    if program is None:
        raise SettingsError(
            'sandbox="bwrap" needs bubblewrap, which is not installed', "Install it: apt-get install bubblewrap"
        )
    return program


def _program_outside(name: str, work_dir: Path) -> str | None:
    """Return the path of a program outside the work folder, so that no sandboxed command can have created it."""
    folders = [Path(folder) for folder in settings.program_variables()["PATH"].split(os.pathsep) if folder.startswith("/")]
    inside = {folder for folder in folders if work_dir != Path(work_dir.anchor) and folder.resolve().is_relative_to(work_dir)}
    outside = [str(folder) for folder in folders if folder not in inside]
    return shutil.which(name, path=os.pathsep.join(outside)) if outside else None


@cache
def _walls(program: str, has_network: bool) -> tuple[str, ...]:
    """Return the namespace arguments that work here. Raises `SettingsError` if there are none."""
    walls = WALLS if has_network else (*WALLS, "--unshare-net")
    error = ""
    for further in (("--disable-userns",), ()):  # unknown to older versions
        command = [program, "--json-status-fd", "1", *walls, *further, *SYSTEM, "--tmpfs", "/tmp", "--", "true"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=PROBE_SECONDS)
        if done.returncode == 0:
            return (*walls, *further)
        error = done.stderr.strip().rpartition("\n")[2]
    raise SettingsError(
        f'sandbox="bwrap" does not work on this machine: {error}',
        Plain(
            "It needs bubblewrap (apt-get install bubblewrap) and user namespaces, which containers and some systems forbid:"
            " sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a container with --security-opt seccomp=unconfined"
        ),
    )


def _descriptor_of(text: str, stack: ExitStack) -> int:
    """Return a file descriptor from which this text can be read."""
    number = os.memfd_create("agentnb")
    stack.callback(os.close, number)
    os.write(number, os.fsencode(text))
    os.lseek(number, 0, os.SEEK_SET)
    return number


def _end_of(told: int) -> dict[str, int]:
    """Return bubblewrap's status report, once the first process of the sandbox, and therefore every other, has ended.

    Bubblewrap itself ends a moment earlier.
    """
    state: dict[str, int] = {}
    with suppress(OSError, ValueError):  # bubblewrap did not start
        for line in os.read(told, MAX_INFO_BYTES).splitlines():
            state |= json.loads(line)
    with suppress(KeyError, OSError):  # already gone
        process = os.pidfd_open(state["child-pid"])
        if not select.select([process], [], [], END_SECONDS)[0]:
            del state["child-pid"]  # it may still write: discard its changes to git data, although the program ran
        os.close(process)
    return state


def _git_settings(program: str | None, work_dir: Path, variables: Mapping[str, str]) -> str:
    """Return the person's name and email address as git configuration. Reading it runs no program from a repository."""
    if program is None:  # no git, no settings
        return ""
    command = [program, "-C", str(work_dir), "config", "--includes", "-z", "--get-regexp", GIT_SETTINGS]
    try:
        done = subprocess.run(command, env=variables, capture_output=True, check=False, timeout=PROBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = []
    for entry in filter(None, os.fsdecode(done.stdout).split("\0")):
        name, _, value = entry.partition("\n")
        section, _, key = name.partition(".")
        quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'[{section}]\n\t{key} = "{quoted}"\n')
    return "".join(lines)


_placed: Counter[Path] = Counter()
_placing = threading.Lock()


@contextmanager
def _placeholder(part: ProtectedPath) -> Iterator[None]:
    """Create a placeholder for a missing guarded path, and remove it when the last sandbox around it has ended."""
    with _placing:
        if part.path in _placed or not os.path.lexists(part.path):
            _placed[part.path] += 1
            _place(part)
            is_ours = True
        else:
            is_ours = False
    try:
        yield
    finally:
        with _placing:
            if is_ours:
                _placed[part.path] -= 1
                if not _placed[part.path]:
                    del _placed[part.path]
                    _take_away(part)


def _place(part: ProtectedPath) -> None:
    if part.missing is None:
        part.path.mkdir(exist_ok=True)
    elif not part.path.exists():
        part.path.write_text(part.missing)


def _take_away(part: ProtectedPath) -> None:
    with suppress(OSError):  # the person has changed or removed it
        if part.missing is None:
            part.path.rmdir()
        elif part.path.read_text() == part.missing:
            part.path.unlink()
