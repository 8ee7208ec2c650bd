"""The git repository around a folder, and the other paths that it refers to, which a sandbox must protect.

A ``.git`` file may name any folder. Only worktree folders that point back to it, and submodules of a surrounding repository,
are accepted, since neither can be created from inside a sandbox.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from agentnb.git_copies.copies import read_plain
from agentnb.git_copies.git import Git, links_among

MAX_CONFIG_BYTES = 1_000_000
GITLINK_MODE = b"\x00\x00\xe0\x00"
"""Mode of a submodule in an index."""


class Repository(NamedTuple):
    """A repository. ``shared``: its git folder; ``own``: that of this worktree, if different."""

    root: Path
    shared: Path
    own: Path


class ProtectedPath(NamedTuple):
    """A path that must not change.

    ``missing``: content of the placeholder file if the path does not exist, or None for a placeholder folder.
    """

    path: Path
    missing: str | None = None


def repository_around(folder: Path) -> Repository | None:
    """Return the repository that contains a folder, or None. Ignores a ``.git`` that is a link."""
    for root in (folder, *folder.parents):
        mark = root / ".git"
        if mark.is_symlink():
            continue
        if (mark / "HEAD").is_file():
            return Repository(root, mark, mark)
        if mark.is_file() and (repository := _of_file(root, mark)):
            return repository
    return None


def _of_file(root: Path, mark: Path) -> Repository | None:
    """Return the repository that a ``.git`` file refers to, or None if it is not accepted."""
    text = _text_of(mark).strip()
    if not text.startswith("gitdir:"):
        return None
    own = (root / text.removeprefix("gitdir:").strip()).resolve()
    if not (own / "HEAD").is_file():
        return None
    shared = own.parent.parent
    if own.parent.name == "worktrees" and (own / "gitdir").is_file():
        points_back = Path(_text_of(own / "gitdir").strip()).resolve() == mark
        return Repository(root, shared, own) if points_back and (shared / "HEAD").is_file() else None
    is_module = any((outer / ".git" / "modules") in own.parents for outer in root.parents)
    return Repository(root, own, own) if is_module else None


def followed_parts(repository: Repository) -> Iterator[ProtectedPath]:
    """Yield paths outside the repository that git runs or follows: targets of its links, and paths named in its
    configuration.
    """
    for folder in {repository.shared, repository.own}:
        links = (Path(entry.path) for entry in os.scandir(folder) if entry.is_symlink())
        yield from (ProtectedPath(Path(os.path.normpath(folder / link.readlink()))) for link in links)
    for name, value in _settings(repository.shared / "config"):
        if not value.startswith(("~", "%")):
            base = repository.root if name == "core.hookspath" else repository.shared
            path = Path(os.path.normpath(base / value))
            yield ProtectedPath(path, None if name == "core.hookspath" else "")


def linked_repositories(repository: Repository, program: str | None) -> list[Path]:
    """Return the paths of submodules in the index, which ``git status`` enters."""
    if program is None or GITLINK_MODE not in (read_plain(repository.own / "index") or b""):
        return []
    staged = Git(program, repository.own).run("ls-files", "--stage", "-z")[1]
    return [repository.root / os.fsdecode(path) / ".git" for path in links_among(staged)]


def _settings(config: Path) -> Iterator[tuple[str, str]]:
    """Yield the lowercase names and the values of settings that refer to other paths."""
    section = ""
    for line in _text_of(config).splitlines():
        text = line.strip()
        if text.startswith("["):
            section, _, text = text[1:].partition("]")
            section = section.partition('"')[0].strip().lower()
        key, _, value = text.strip().partition("=")
        name = f"{section}.{key.strip().lower()}"
        if name in ("core.hookspath", "include.path", "includeif.path"):
            yield name, value.strip().strip('"')


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_CONFIG_BYTES).decode(errors="replace")
    except OSError:
        return ""
