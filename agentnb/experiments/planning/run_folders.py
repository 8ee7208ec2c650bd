"""Folders for runs: a copy of the task's folder, and the sandbox of an external agent."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from agentnb.acp.external_agent import ExternalAgent
from agentnb.acp.installed import find_installed
from agentnb.agent.agent import Agent
from agentnb.core.messages import encodable
from agentnb.errors import SettingsError
from agentnb.key_files import is_key_file
from agentnb.tools.builtin.shell.sandbox import check_sandbox
from agentnb.workflow.workflow import Workflow

WORK_DIR = "work_dir"
"""Column that holds the folder of a task or, in checks, the folder of the run."""
OWN = ".agentnb"
"""Folder of agentnb's settings and logs, which grows during an experiment."""
GIT = ".git"
ENVIRONMENT = "pyvenv.cfg"
"""File that marks a folder as a Python environment, as in ``.venv``."""
HOME = "home"
"""Variant setting for the folder with an external agent's initial settings."""
HOSTS = "hosts"
"""Variant setting for the hosts that an external agent in the sandbox may reach."""
INSIDE, OUTSIDE = "bubblewrap", "no sandbox"
NO_QUESTION = "it cannot ask anyone here, so it runs only inside bubblewrap"
ELSEWHERE = "Name a folder elsewhere, or leave folder out"
LOOSEN = "Or give it full access to this machine: outside_sandbox=True"


def runs_external_agent(work: Agent | Workflow) -> TypeGuard[Agent]:
    """True if the variant runs an external agent."""
    return isinstance(work, Agent) and bool(work.acp)


def names_folder(row: Mapping[str, Any]) -> bool:
    """True if a task has a folder."""
    return bool(row.get(WORK_DIR))


def files_left_out(folder: str, names: Iterable[str]) -> list[str]:
    """Return the names to leave out of a copy: logs, key files, special files, Python environments, and links to any of these.

    The scripts of an environment contain its path, so a copy would use the original; tools can rebuild the environment.
    """
    return [name for name in names if name == OWN or not _is_copied(Path(folder, name))]


def _is_copied(path: Path) -> bool:
    if Path(path, ENVIRONMENT).is_file():
        return False
    # Git stores branches and tags as files.
    holds_keys = is_key_file(path.name) and not path.is_dir() and GIT not in path.parts
    if path.is_symlink() and path.exists() and not holds_keys:
        target, here = Path(os.path.realpath(path)), Path(os.path.realpath(path.parent))
        on_the_way = {target, *target.parents} - {here, *here.parents}
        return all(part.name != OWN and _is_copied(part) for part in on_the_way)  # otherwise the copied link leads nowhere
    return not holds_keys and (path.is_file() or path.is_dir() or path.is_symlink())


def row_in_copy(row: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Copy the folder of a task, if it has one, to a new ``folder``, and return the row with that path."""
    if names_folder(row):
        shutil.copytree(row[WORK_DIR], folder, symlinks=True, ignore=files_left_out)
    else:
        folder.mkdir()
    return {**row, WORK_DIR: str(folder)}


def folder_content(folder: str | Path) -> str:
    """Return a hash of the files in a folder, as they are copied.

    Raises `SettingsError` if the folder is missing, or contains a link to the outside, through which a copy would reach the
    original.
    """
    if not Path(folder).is_dir():
        raise SettingsError(f"{str(folder)!r} is not a folder")
    try:
        return _hash_of(folder)
    except OSError as error:
        raise SettingsError(f"{error.filename!r} cannot be read: {error.strerror}") from error


def _hash_of(folder: str | Path) -> str:
    hashed, root = hashlib.sha256(), os.path.realpath(folder)
    for path, names, _ in _walk(folder):
        for file in (Path(path, name) for name in names):
            content = _target_of(file, root) if file.is_symlink() else file.read_bytes()
            hashed.update(f"{file.relative_to(folder)} {len(content)}\n".encode("utf-8", "surrogateescape") + content)
    return hashed.hexdigest()


def _walk(folder: str | Path) -> Iterator[tuple[str, list[str], set[str]]]:
    """Yield each folder to copy, with the names of its files and links, and the names left out."""
    for path, folders, names in os.walk(folder):
        left_out = set(files_left_out(path, (*folders, *names)))
        folders[:] = sorted(name for name in folders if name not in left_out)
        links = [name for name in folders if Path(path, name).is_symlink()]
        yield path, sorted(name for name in (*links, *names) if name not in left_out), left_out


def left_out_of(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the paths within the tasks' folders that are left out of copies, except agentnb's own folder."""
    folders = dict.fromkeys(str(row[WORK_DIR]) for row in rows if names_folder(row))
    paths = [
        os.path.relpath(Path(path, name), folder)
        for folder in folders
        for path, _, left_out in _walk(folder)
        for name in left_out - {OWN}
    ]
    return tuple(sorted({encodable(path) for path in paths}))


def _target_of(link: Path, root: str) -> bytes:
    target = link.readlink()
    if target.is_absolute() or not Path(os.path.realpath(link)).is_relative_to(root):
        raise SettingsError(
            f"{str(link)!r} links to a place outside the folder", "Put a copy in its place, or move it elsewhere"
        )
    return os.fsencode(target)


def folder_problems(
    works: Mapping[str, Agent | Workflow],
    rows: Sequence[Mapping[str, Any]],
    confined: Iterable[str],
    *,
    records: Path | None,
    outside_sandbox: Any,
    executor: Any,
) -> Iterable[str]:
    """Yield the problems of external agents and of the runs' folders.

    ``works``: agents and workflows of the variants, by name; ``confined``: names of the variants with `HOSTS`;
    ``records``: the folder of rows and logs.
    """
    external = [(name, work, work.used_model) for name, work in works.items() if runs_external_agent(work)]
    if type(outside_sandbox) is not bool:
        yield f"outside_sandbox={outside_sandbox!r}: give True or False"
    if external and executor != "kernel":
        yield f"Variant {external[0][0]}: external agents run in their own processes. Leave executor out"
    for name, _, model in external:
        assert isinstance(model, ExternalAgent), "an agent with acp has an external agent as its model"
        if problem := _problem_of(model, outside_sandbox=outside_sandbox is True):
            yield f"Variant {name}: {problem}"
    for name in confined if outside_sandbox is True else ():
        yield f"Variant {name}: {HOSTS}= applies only inside the sandbox. Leave it out, or leave outside_sandbox out"
    if records is not None:
        yield from _problems_of_records(records, {str(row[WORK_DIR]) for row in rows if names_folder(row)})
    if external or any(map(names_folder, rows)):
        if executor not in ("kernel", "processes"):
            yield f'{WORK_DIR}: a pool does not share your folders. Use executor="processes", or leave it out'
        for name, work in works.items():
            if isinstance(work, Agent) and work.work_dir is not None:
                advice = f"Leave {WORK_DIR} out, or make it a column of the tasks"
                yield f"Variant {name}: each run works in its own folder. {advice}"


def _problems_of_records(records: Path, folders: Iterable[str]) -> Iterable[str]:
    for folder in sorted(folders):
        parts = Path(os.path.relpath(records.resolve(), Path(folder).resolve())).parts
        if parts[:1] != ("..",) and OWN not in parts:
            yield f"folder={str(records)!r} is inside {folder!r}, a task's folder; logs would change it. {ELSEWHERE}"


def _problem_of(agent: ExternalAgent, *, outside_sandbox: bool) -> str:
    if find_installed(agent.known) is None:
        advice = agent.known.install or f"put {agent.known.command[0]} on the PATH"
        return f"{agent.name} is not installed. Install it: {advice}"
    try:
        if not outside_sandbox:
            check_sandbox(has_network=False)
    except SettingsError as error:
        return f"{agent.name}: {NO_QUESTION}. {error}. {LOOSEN}"
    return ""


def sandboxes(works: Mapping[str, Agent | Workflow], *, outside_sandbox: bool) -> dict[str, str]:
    """Return the sandbox of each external agent, by variant."""
    return {name: OUTSIDE if outside_sandbox else INSIDE for name, work in works.items() if runs_external_agent(work)}
