"""Paths and addresses in rules: resolution, parsing, and matching by patterns."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from agentnb.commands.globs import names_glob, star_glob
from agentnb.commands.harmless import is_harmless
from agentnb.commands.shell_command import MOVES, Part, ShellCommand
from agentnb.settings import program_variables
from agentnb.tools.builtin.files.protected import is_protected_name
from agentnb.tools.builtin.web.web_address import PORTS, read_address
from agentnb.tools.tool import ToolRefused


def resolved_path(value: Any, work_dir: Path) -> Path | None:
    """Resolve the path of a call, including links, or return None for an invalid path."""
    real = real_path(value, str(work_dir))
    return None if real is None else Path(real)


def real_path(value: Any, work_dir: str) -> str | None:
    """Return `resolved_path` as text, for speed: it runs for each judged call with a path, and a `Path` is slow to create."""
    if not isinstance(value, str) or "\0" in value:
        return None
    path = os.path.join(work_dir, value)  # noqa: PTH118  # as above
    try:
        real = os.path.realpath(path, strict=False)
        return None if os.path.islink(real) else real  # noqa: PTH114  # circular links stay unresolved
    except (OSError, ValueError):  # name too long
        return None


def path_glob(pattern: str, work_dir: Path, *, with_inside: bool = False) -> str:
    """Return a regular expression for the absolute paths that match a pattern relative to the run's folder.

    ``*`` matches any text within a name, ``**`` any folders; ``folder/**`` includes the folder itself, and ``folder/`` is the
    same. ``with_inside``: a pattern without stars, which may name a folder, also matches everything below it.
    """
    root, names = path_beginning(pattern, work_dir)
    means_inside = pattern.endswith("/") or (with_inside and not names)
    return re.escape(str(root).rstrip("/")) + names_glob([*names, *(["**"] if means_inside else [])])


def path_beginning(pattern: str, work_dir: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the resolved beginning of a path pattern, and the names from the first one with a star onwards."""
    beginning, names = written_beginning(pattern, work_dir)
    return resolved_path(str(beginning), work_dir) or beginning, names


def written_beginning(pattern: str, work_dir: Path) -> tuple[Path, tuple[str, ...]]:
    """Return the beginning of a path pattern as written, in a folder, and the names from the first one with a star onwards."""
    try:
        path = work_dir / Path(pattern).expanduser()
    except RuntimeError:  # home of an unknown user
        path = work_dir / pattern
    stars = next((at for at, name in enumerate(path.parts) if "*" in name), len(path.parts))
    return Path(*path.parts[:stars]), path.parts[stars:]


def folders_of(command: ShellCommand, work_dir: Path) -> tuple[str, ...]:
    """Return the resolved folders in which parts of a command may run; empty if any may be outside ``work_dir``."""
    root = os.path.realpath(work_dir)
    folders = [root]
    for part in command.parts:
        if part.invocation.program not in MOVES:
            continue
        operands = [word.value for word in part.invocation.operands]
        target = real_path(operands[0], folders[-1]) if len(operands) == 1 and operands[0] not in ("", "-") else None
        if (
            target is None
            or not is_within(target, root)
            or _holds_git(target)
            or part.assignments
            or part.redirections
            or len(part.words) != 2
        ):
            return ()
        folders.append(target)
    return tuple(folders)


def parts_to_allow(command: ShellCommand, work_dir: Path) -> tuple[Part, ...]:
    """Return the parts of a command list that rules must allow: all except changes to a folder inside the working folder."""
    parts = command.parts[: command.listed]
    others = tuple([part for part in parts if part.invocation.program not in MOVES])
    return others if others and len(others) < len(parts) and folders_of(command, work_dir) else parts


def unknown_parts(command: ShellCommand, work_dir: Path) -> list[Part]:
    """Return the parts of a command not known to be harmless in a working folder."""
    folders = cache(lambda: folders_of(command, work_dir))
    return [part for part in command.parts if not is_harmless(part, lambda path: can_write(path, folders(), work_dir))]


def can_write(path: str, folders: Iterable[str], work_dir: Path) -> bool:
    """True if a command that writes a path in any of these folders stays in ``work_dir`` and outside git directories."""
    root = os.path.realpath(work_dir)
    targets = [real_path(path, folder) for folder in folders]
    return bool(targets) and all(real is not None and _may_change(real, path, root) for real in targets)


def _may_change(real: str, path: str, root: str) -> bool:
    """True if a resolved path may be written: it is inside the working folder and does not influence programs."""
    names = (*real.removeprefix(root).split("/"), *path.split("/"))
    if real == root or not is_within(real, root) or path.startswith("~") or any(map(_is_of_git, names)) or _holds_git(real):
        return False
    home = os.path.realpath(Path.home())
    is_setting = is_within(real, home) and real.removeprefix(home).startswith("/.")
    return not is_setting and not any(is_within(real, folder) or is_within(folder, real) for folder in _folders_of_programs())


def _folders_of_programs() -> list[str]:
    """Return the folders of programs with their surroundings: a virtual environment is treated as a whole."""
    folders = [os.path.realpath(folder) for folder in program_variables()["PATH"].split(os.pathsep) if folder]
    return [os.path.dirname(folder) if os.path.basename(folder) == "bin" else folder for folder in folders]  # noqa: PTH119, PTH120


def is_within(path: str, folder: str) -> bool:
    """True if a resolved path is a folder or inside it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _holds_git(folder: str) -> bool:
    """True if a folder may itself be a git directory: its settings can start programs."""
    return os.path.lexists(f"{folder}/HEAD")


def _is_of_git(name: str) -> bool:
    """True for the name of a protected folder, or one that turns a folder into a git directory."""
    return is_protected_name(name) or name.casefold() in ("config", "head")


def offered_folder(path: Path, work_dir: Path) -> str:
    """Return the pattern, offered with "always", for a file's folder; "" if nothing is offered."""
    folder = path.parent
    shown = "" if folder == folder.parent else offered_file(folder)
    return shown and f"{shown}/{'*' if folder == work_dir or work_dir.is_relative_to(folder) else '**'}"


def offered_file(path: Path) -> str:
    """Return the pattern, offered with "always", for a file; "" for a name with pattern characters."""
    return "" if any(sign in str(path) for sign in "*()") else with_tilde(path)


def with_tilde(path: Path) -> str:
    """Return a path as text, with ``~`` for the person's home."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) and path != home else str(path)


def canonical_address(value: Any) -> str | None:
    """Return the scheme, host, port and path of an address in canonical form, or None if it is incomplete or ambiguous."""
    try:
        address = read_address(value if isinstance(value, str) else "")
    except (ToolRefused, ValueError):
        return None
    path = unquote(address.target.partition("?")[0])
    if _is_odd_number(address.host) or _is_odd_path(path):
        return None
    return f"{address.scheme}://{address.host}:{address.port}{path}"


def address_glob(pattern: str) -> str | None:
    """Return a regular expression for an address pattern, or None unless it has ``http://`` or ``https://`` and a host."""
    match = re.fullmatch(r"(https?)://([^/:@?#\\\s]+)(?::(\d{1,5}))?(/[^?#\\\s]*)?", pattern)
    if match is None:
        return None
    scheme, host, port, path = match.groups()
    hosts = star_glob(host.lower().rstrip("."), "[^/:]+")
    paths = "/.*" if path is None else names_glob(path.split("/")[1:])
    return rf"{scheme}://{hosts}:{port or PORTS[scheme]}{paths}"


def offered_address(address: str) -> str:
    """Return the pattern, offered with "always", for the host of a canonical address."""
    scheme, _, remainder = address.partition("://")
    host, _, port = remainder.partition("/")[0].rpartition(":")
    shown = host if port == str(PORTS[scheme]) else f"{host}:{port}"
    return f"{scheme}://{shown}/**"


def _is_odd_number(host: str) -> bool:
    """True for an IPv6 address, or a numeric host that programs interpret in different ways, such as ``127.1``."""
    if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", host):
        return any(part != str(int(part)) for part in host.split("."))
    return ":" in host or re.fullmatch(r"\d+|0[xX][0-9a-fA-F]*", host.rpartition(".")[2]) is not None


def _is_odd_path(path: str) -> bool:
    """True for a path that servers may interpret as another path."""
    inner = path.split("/")[1:-1]
    return bool({".", ".."} & set(path.split("/"))) or "" in inner or "\\" in path or "%" in path
