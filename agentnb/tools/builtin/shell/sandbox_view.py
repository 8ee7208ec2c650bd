"""Files visible to a sandboxed command: hidden, writable and empty paths."""

from __future__ import annotations

import json
import os
import site
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentnb import settings
from agentnb.core.log.stores import BEFORE_IMAGES
from agentnb.errors import SettingsError
from agentnb.git_copies.copies import GitCopy
from agentnb.key_files import is_key_file
from agentnb.tools.builtin.shell.sandbox_repository import (
    ProtectedPath,
    Repository,
    followed_parts,
    linked_repositories,
    repository_around,
)

MAX_ENTRIES = 200_000
MAX_CERTIFICATE_BYTES = 2_000_000
"""Maximum size of a ``*.pem`` file checked for keys. Packages ship certificates in such files for network access."""


@dataclass
class Findings:
    """Result of a walk. ``is_whole``: True if the walk was complete."""

    covered: list[Path] = field(default_factory=list)
    """Key files and sockets."""
    hidden: list[Path] = field(default_factory=list)
    """Folders of files saved before changes."""
    repositories: list[Path] = field(default_factory=list)
    is_whole: bool = True


def walk(roots: Iterable[Path], passed_over: Container[str] = ()) -> Findings:
    """Scan folders breadth-first, each once. Links to folders are not followed.

    ``passed_over``: folders to skip because no command can write to them. No folder is skipped for its name: a command could
    choose it.
    """
    findings, todo, seen = Findings(), deque(roots), set[Path]()
    remaining = MAX_ENTRIES
    while todo:
        folder = todo.popleft()
        if folder in seen:
            continue
        seen.add(folder)
        entries = _entries(folder)
        remaining -= len(entries)
        if remaining < 0:
            findings.is_whole = False
            break
        for entry in entries:
            if entry.path not in passed_over:
                _look_at(entry, findings, todo)
    return findings


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _look_at(entry: os.DirEntry[str], findings: Findings, todo: deque[Path]) -> None:
    if entry.name == ".git":
        findings.repositories.append(Path(entry.path).parent)
    if entry.is_dir(follow_symlinks=False):
        (findings.hidden if entry.name.startswith(BEFORE_IMAGES) else todo).append(Path(entry.path))
    elif is_key_file(entry.name):
        target = Path(entry.path).resolve()
        if target.is_file() and not _holds_certificates_only(target):
            findings.covered.append(target)
    elif not entry.is_file() and _is_socket(entry.path):
        findings.covered.append(Path(entry.path))


def _holds_certificates_only(path: Path) -> bool:
    """True if a ``*.pem`` file has certificates and no key."""
    if path.suffix.lower() != ".pem":
        return False
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CERTIFICATE_BYTES + 1)
    except OSError:
        return False
    return len(data) <= MAX_CERTIFICATE_BYTES and b"BEGIN CERTIFICATE" in data and b"PRIVATE" not in data


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


HIDDEN = ("/home", "/root", "/run", "/tmp", "/var/tmp", "/var/run")
SOCKETS = Path("/proc/net/unix")
PROCESSES = Path("/proc")
WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
MAX_LINKS = 20
MAX_CONNECTION_BYTES = 10_000


class View:
    """Mounts of a sandbox: homes and temporary files are hidden, the kernel's Python is visible.

    A mount applies to its folder; deeper mounts take precedence.
    """

    def __init__(self, *, has_network: bool, hidden: Iterable[Path] = ()) -> None:
        """``hidden``: further folders that appear empty."""
        self.guarded: list[ProtectedPath] = []
        self._mounts: dict[Path, tuple[str, ...]] = {}
        self._covered: set[Path] = set()
        self._emptied: set[Path] = set()
        for folder in (*_hidden_folders(), *hidden):
            self._mounts[folder] = ("--tmpfs", str(folder))
        self._show_python()
        if has_network and (resolver := Path("/etc/resolv.conf").resolve()).is_file():
            self.show(resolver)
        self._covered.update(_sockets(), _connection_files())

    def words(self, empty: Path, copies: Sequence[GitCopy] = ()) -> list[str]:
        """Return the mounts as arguments for bubblewrap, outer ones first. ``empty``: an empty file."""
        mounts = [words for _, words in sorted(self._mounts.items(), key=lambda item: len(item[0].parts))]
        mounts += [("--ro-bind", path, path) for path in _kernel_settings()]
        mounts += [mount for copy in copies for mount in copy.mounts]
        mounts += [("--ro-bind", str(part.path), str(part.path)) for part in self.guarded]
        for path in sorted(self._covered):
            copied = [copy for copy in copies if path.is_relative_to(copy.source)]
            shown = [path] if not self._is_hidden(path) else []
            mounts += [("--ro-bind", str(empty), str(target)) for copy in copied for target in copy.paths_of(path)]
            mounts += [("--ro-bind", str(empty), str(target)) for target in shown if not copied]
        mounts += [("--tmpfs", str(path)) for path in sorted(self._emptied) if not self._is_hidden(path)]
        return [word for words in mounts for word in words]

    def hides(self, folder: Path) -> bool:
        """True if this folder itself is hidden, so that a command sees it empty and can write to it."""
        return self._mounts.get(folder, ("",))[0] == "--tmpfs"

    def _show_python(self) -> None:
        """Show the kernel's Python inside hidden folders, and the links that lead to it."""
        for path in _python_folders():
            if self._may_show(path) and self._is_hidden(path):
                self.show(path)
        link = _without_dots(Path(sys.executable))
        for _ in range(MAX_LINKS):
            if not link.is_symlink():
                break
            target = link.readlink()
            if self._is_hidden(link):
                self._mounts[link] = ("--symlink", str(target), str(link))
            link = _without_dots(link.parent / target)

    def show(self, path: Path, *, writable: bool = False) -> None:
        """Mount a file or folder at its own path."""
        self._mounts[path] = ("--bind" if writable else "--ro-bind", str(path), str(path))

    def show_program(self, path: Path) -> None:
        """Show a hidden program with its dependencies: its npm packages, or its Python environment."""
        program = path.resolve()
        for part in _parts_of(program):
            if self._may_show(part) and self._is_hidden(part):
                self.show(part)
        if program != path and self._is_hidden(path):
            self._mounts[path] = ("--symlink", str(program), str(path))

    def _may_show(self, folder: Path) -> bool:
        """True if showing the folder reveals nothing else: it is not the root, and not hidden as a whole."""
        return folder != Path("/") and not self.hides(folder)

    def _is_hidden(self, path: Path) -> bool:
        nearest = next((parent for parent in (path, *path.parents) if parent in self._mounts), None)
        return nearest is not None and self.hides(nearest)


class SandboxView(View):
    """Mounts of a command's sandbox: its working folder is writable, except for files that outside programs act on."""

    def __init__(self, work_dir: Path, git: str | None, *, has_network: bool, store: Path | None = None) -> None:
        """``git``: path of the git program, outside the reach of commands."""
        super().__init__(has_network=has_network)
        self._git = git
        self.repositories: list[Repository] = []
        if self.hides(work_dir) or work_dir == Path("/"):
            raise SettingsError(
                f"The sandbox hides the working directory, {work_dir}",
                "Ask the person to use a subfolder or another folder as the working directory",
            )
        self._show_work(work_dir)
        if store is not None and self._is_writable(store.resolve()) and work_dir / ".agentnb" not in store.resolve().parents:
            self._guard(ProtectedPath(store.resolve()))
        self._keep_python(work_dir)

    def _show_work(self, work_dir: Path) -> None:
        """Mount the working folder writable and the repository around it read-only, and cover keys and sockets inside."""
        repository = repository_around(work_dir)
        if repository is not None and not self._may_show(repository.root):
            repository = None
        roots = [work_dir]
        if repository is not None:
            roots.append(repository.root)
            self.show(repository.root)
        self.show(work_dir, writable=True)
        findings = walk(roots, frozenset(map(str, _python_folders())))  # not writable for commands
        if not findings.is_whole:
            raise SettingsError(
                f"The folder has more than {MAX_ENTRIES:,} files, too many to search for key files",
                "Ask the person to work in a smaller folder",
            )
        self._covered.update(findings.covered)
        self._emptied.update(findings.hidden)
        if repository is not None:
            self._show_git(repository)
        for root in (root for root in findings.repositories if work_dir in root.parents):
            if (inner := repository_around(root)) is not None and inner.root == root:
                self._show_git(inner)
            if (root / ".git").is_file() and not (root / ".git").is_symlink():
                self._guard(ProtectedPath(root / ".git"))
        for inner_mark in (
            inner_mark for repository in self.repositories for inner_mark in linked_repositories(repository, self._git)
        ):
            if work_dir in inner_mark.parents and inner_mark.parent.resolve() == inner_mark.parent:  # git status enters these
                self._pin(inner_mark)
                if inner_mark not in self._mounts and not inner_mark.is_file():
                    self._guard(ProtectedPath(inner_mark))
        mark = work_dir / ".git"
        if mark not in self._mounts:
            self._guard(ProtectedPath(mark))
            self._guard(ProtectedPath(work_dir / "HEAD"))  # would turn the folder itself into a repository
        self._guard(ProtectedPath(work_dir / ".agentnb"))

    def _show_git(self, repository: Repository) -> None:
        """Mount the git folders read-only, as separate mounts so that they cannot be moved away."""
        for folder in dict.fromkeys((repository.shared, repository.own)):
            self.show(folder)
        self.repositories.append(repository)
        for part in followed_parts(repository):
            if self._is_writable(part.path) and (len(self.repositories) == 1 or part.path.resolve() == part.path):
                self._guard(part)

    def _keep_python(self, work_dir: Path) -> None:
        """Make the kernel's Python read-only inside the working folder: the kernel runs these files."""
        for path in _python_folders():
            if work_dir in path.parents:
                self._pin(path)
                self.show(path)

    def _guard(self, part: ProtectedPath) -> None:
        """Make a path read-only and immovable. For a missing path, keep its first missing folder empty."""
        path = part.path
        if path.resolve() != path:
            raise SettingsError(
                f"The sandbox cannot protect {path}, which is a link or is reached through one",
                "Ask the person to replace the link with the real file or folder",
            )
        if not path.parent.exists():
            path = next(folder for folder in reversed(path.parents) if not folder.exists())
            part = ProtectedPath(path)
        self._pin(path)
        self.guarded.append(part)

    def _pin(self, path: Path) -> None:
        """Mount the writable folders around a path, so that it cannot be moved away."""
        for folder in path.parents:
            if folder in self._mounts:
                break
            self._mounts[folder] = ("--bind", str(folder), str(folder))

    def _is_writable(self, path: Path) -> bool:
        """True if a command can write at this path."""
        nearest = next((parent for parent in path.parents if parent in self._mounts), None)
        return nearest is not None and self._mounts[nearest][0] == "--bind"


def _parts_of(program: Path) -> Iterator[Path]:
    """Yield the npm packages or the Python environment that contain a program, otherwise the program."""
    packages = next((folder for folder in reversed(program.parents) if folder.name == "node_modules"), None)
    settings_of_python = program.parent.parent / "pyvenv.cfg"
    if packages is not None:
        yield packages
    elif settings_of_python.is_file():
        yield settings_of_python.parent
        yield from [
            Path(value.strip()).parent
            for name, _, value in (line.partition("=") for line in settings_of_python.read_text(errors="replace").splitlines())
            if name.strip() == "home"
        ]
    else:
        yield program


def _python_folders() -> tuple[Path, ...]:
    """Return the folders of the kernel's Python, as named and with links resolved."""
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
    folders += [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    forms = (form for folder in map(Path, folders) for form in (_without_dots(folder), folder.resolve()))
    return tuple(dict.fromkeys(form for form in forms if form.is_dir()))


def _without_dots(path: Path) -> Path:
    """Return an absolute path without ``..``, resolving links only if needed for that."""
    return path if path.is_absolute() and ".." not in path.parts else path.parent.resolve() / path.name


def _hidden_folders() -> Iterator[Path]:
    """Yield the existing folders for homes, temporary files and sockets."""
    named = (*map(Path, HIDDEN), *settings.folders_of_variables(), settings.personal_folder(), Path(tempfile.gettempdir()))
    for folder in named:
        path = folder.resolve()
        if path.is_dir() and path != Path("/"):
            yield path


def _kernel_settings() -> Iterator[str]:
    """Yield the paths in ``/proc`` that control the machine. Root can write to them even without capabilities, so they are
    made read-only.
    """
    with os.scandir(PROCESSES) as entries:
        for entry in entries:
            if entry.name.isdigit() or entry.is_symlink():
                continue
            if entry.is_dir() or entry.stat().st_mode & WRITABLE:
                yield entry.path


def _sockets() -> Iterator[Path]:
    """Yield the paths of the machine's sockets, because read-only mounts do not prevent connections."""
    try:
        lines = SOCKETS.read_text(errors="replace").splitlines()[1:]
    except OSError:
        return
    for path in {columns[7] for line in lines if len(columns := line.split(maxsplit=7)) == 8}:
        try:
            if path.startswith("/") and stat.S_ISSOCK(os.lstat(path).st_mode):
                yield Path(path).resolve()
        except OSError:  # gone, or inaccessible for a command too
            continue


def _connection_files() -> Iterator[Path]:
    """Yield the connection file with this kernel's key, as named on the kernel's command line."""
    for argument in sys.argv[1:]:
        path = Path(argument.rpartition("=")[2])
        try:
            if path.suffix == ".json" and path.stat().st_size <= MAX_CONNECTION_BYTES:
                content = json.loads(path.read_bytes())
                if isinstance(content, dict) and {"shell_port", "key"} <= set(content):
                    yield path.resolve()
        except (OSError, ValueError):
            continue
