"""The sandbox of a command: bubblewrap, with namespaces of its own and no capabilities."""

from __future__ import annotations

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
from agentnb.tools.builtin.shell.repository import Guarded
from agentnb.tools.builtin.shell.sandbox_view import SandboxView

SANDBOXES = ("bwrap",)
PROGRAM = "bwrap"
NAMESPACES = ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
WALLS = (*NAMESPACES, "--cap-drop", "ALL", "--new-session", "--die-with-parent")
SYSTEM = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
GIT_SETTINGS = r"^(user\.(name|email)|safe\.directory)$"
PROBE_SECONDS = 10
END_SECONDS = 1.0
MAX_INFO_BYTES = 4096


class Wrapped(NamedTuple):
    """A command line in a sandbox, and the descriptors that it needs."""

    words: list[str]
    descriptors: tuple[int, ...]


def check_sandbox(*, has_network: bool) -> None:
    """Raise `SettingsError`, with what to install or set, if there can be no sandbox here."""
    _walls(_program(Path.cwd()), has_network)


class Sandbox:
    """A sandbox around a folder. Making it looks through the folder, which takes its time."""

    def __init__(self, work_dir: Path, variables: Mapping[str, str], *, has_network: bool, store: Path | None = None) -> None:
        """``store``: the folder of the logs of runs, which stays as it is."""
        work_dir = work_dir.resolve(strict=True)
        self._view = SandboxView(work_dir, has_network=has_network, store=store)
        self._program = _program(work_dir)
        self._walls = _walls(self._program, has_network)
        self._work_dir = work_dir
        self._home = Path(variables["HOME"]).resolve()
        self._git_settings = _git_settings(work_dir, variables) if self._view.hides(self._home) else ""

    @contextmanager
    def around(self, words: Sequence[str]) -> Iterator[Wrapped]:
        """Yield the command line that runs this one in the sandbox."""
        with ExitStack() as stack:
            for part in self._view.guarded:
                stack.enter_context(_in_place(part))
            number, empty = tempfile.mkstemp(prefix="agentnb-empty-")
            os.close(number)
            stack.callback(os.unlink, empty)
            person = _descriptor_of(self._git_settings, stack)
            git = ("--ro-bind-data", str(person), str(self._home / ".gitconfig")) if self._git_settings else ()
            arguments = [*self._walls, *SYSTEM, *self._view.words(Path(empty)), *git, "--chdir", str(self._work_dir)]
            listed = _descriptor_of("\0".join(arguments) + "\0", stack)
            told, telling = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            stack.callback(os.close, telling)
            stack.callback(os.close, told)
            stack.callback(_wait_for_end, told)
            command = [self._program, "--info-fd", str(telling), "--args", str(listed), "--", *words]
            yield Wrapped(command, (listed, person, telling))


def _program(work_dir: Path) -> str:
    program = _program_outside(PROGRAM, work_dir) if sys.platform == "linux" else None
    if program is None and sys.platform != "linux":
        raise SettingsError('sandbox="bwrap" works on Linux only', "Leave it out: then commands run without a wall")
    if program is None:
        raise SettingsError(
            'sandbox="bwrap" needs bubblewrap, which is not installed', "Install it: apt-get install bubblewrap"
        )
    return program


def _program_outside(name: str, work_dir: Path) -> str | None:
    """Return the path of a program that no command in a sandbox around this folder can have put there."""
    folders = [Path(folder) for folder in settings.program_variables()["PATH"].split(os.pathsep) if folder.startswith("/")]
    inside = {folder for folder in folders if work_dir != Path(work_dir.anchor) and folder.resolve().is_relative_to(work_dir)}
    outside = [str(folder) for folder in folders if folder not in inside]
    return shutil.which(name, path=os.pathsep.join(outside)) if outside else None


@cache
def _walls(program: str, has_network: bool) -> tuple[str, ...]:
    """Return the arguments for namespaces that work here; raise `SettingsError` if none do."""
    walls = WALLS if has_network else (*WALLS, "--unshare-net")
    error = ""
    for further in (("--disable-userns",), ()):  # older ones know no such argument
        command = [program, *walls, *further, *SYSTEM, "--tmpfs", "/tmp", "--", "true"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=PROBE_SECONDS)
        if done.returncode == 0:
            return (*walls, *further)
        error = done.stderr.strip().rpartition("\n")[2]
    raise SettingsError(
        f'sandbox="bwrap" cannot be made on this machine: {error}',
        Plain(
            "It takes bubblewrap (apt-get install bubblewrap) and user namespaces, which containers and some systems forbid:"
            " sysctl kernel.apparmor_restrict_unprivileged_userns=0, or a container with --security-opt seccomp=unconfined"
        ),
    )


def _descriptor_of(text: str, stack: ExitStack) -> int:
    """Return a descriptor that reads this text."""
    number = os.memfd_create("agentnb")
    stack.callback(os.close, number)
    os.write(number, os.fsencode(text))
    os.lseek(number, 0, os.SEEK_SET)
    return number


def _wait_for_end(told: int) -> None:
    """Wait until the first process of the sandbox is gone, and with it all others: bubblewrap itself ends a moment earlier."""
    try:
        number = json.loads(os.read(told, MAX_INFO_BYTES))["child-pid"]
        process = os.pidfd_open(number)
    except (OSError, ValueError):  # it was never there, or is gone
        return
    select.select([process], [], [], END_SECONDS)
    os.close(process)


def _git_settings(work_dir: Path, variables: Mapping[str, str]) -> str:
    """Return the name and address of the person as settings for git. To read them runs nothing of a repository."""
    program = _program_outside("git", work_dir)
    if program is None:  # nothing in the sandbox needs it
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
def _in_place(part: Guarded) -> Iterator[None]:
    """Put something where a guarded path is missing, and take it away when the last sandbox around it has ended."""
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


def _place(part: Guarded) -> None:
    if part.missing is None:
        part.path.mkdir(exist_ok=True)
    elif not part.path.exists():
        part.path.write_text(part.missing)


def _take_away(part: Guarded) -> None:
    with suppress(OSError):  # the person has put something there, or taken it away
        if part.missing is None:
            part.path.rmdir()
        elif part.path.read_text() == part.missing:
            part.path.unlink()
