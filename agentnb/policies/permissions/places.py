"""Paths and addresses as the rules about them see them: resolved, parsed, and matched by patterns."""

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
from agentnb.tools.builtin.web.addresses import PORTS, read_address
from agentnb.tools.tool import ToolRefused


def resolved_path(value: Any, work_dir: Path) -> Path | None:
    """Return the path that a call means, links followed; None for what is no path."""
    real = real_path(value, str(work_dir))
    return None if real is None else Path(real)


def real_path(value: Any, work_dir: str) -> str | None:
    """Return `resolved_path` as a text: each judged call of a tool with a path needs it, and a `Path` takes long to make."""
    if not isinstance(value, str) or "\0" in value:
        return None
    path = os.path.join(work_dir, value)  # noqa: PTH118  # as above
    try:
        real = os.path.realpath(path, strict=False)
        return None if os.path.islink(real) else real  # noqa: PTH114  # links in a circle are left as they are
    except (OSError, ValueError):  # a name that is too long
        return None


def path_glob(pattern: str, work_dir: Path, *, with_inside: bool = False) -> str:
    """Return the regular expression of the absolute paths that a pattern means, relative to the folder of the run.

    ``*`` is any text within a name, ``**`` any folders; a folder itself belongs to ``folder/**``, and ``folder/`` is the same.
    ``with_inside``: a pattern without stars, which may be the path of a folder, means all that is below it, too.
    """
    try:
        path = work_dir / Path(pattern).expanduser()
    except RuntimeError:  # the home of nobody
        path = work_dir / pattern
    stars = next((at for at, name in enumerate(path.parts) if "*" in name), len(path.parts))
    beginning = Path(*path.parts[:stars])
    root = resolved_path(str(beginning), work_dir) or beginning
    means_inside = pattern.endswith("/") or (with_inside and stars == len(path.parts))
    return re.escape(str(root).rstrip("/")) + names_glob([*path.parts[stars:], *(["**"] if means_inside else [])])


def folders_of(command: ShellCommand, work_dir: Path) -> tuple[str, ...]:
    """Return the folders in which parts of a command may run, links followed; nothing if one may be outside of ``work_dir``."""
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
    """Return the parts of a list that rules have to allow: all but those that change to a folder in the working folder."""
    parts = command.parts[: command.listed]
    others = tuple([part for part in parts if part.invocation.program not in MOVES])
    return others if others and len(others) < len(parts) and folders_of(command, work_dir) else parts


def unknown_parts(command: ShellCommand, work_dir: Path) -> list[Part]:
    """Return the parts of a command that are not known as harmless in a working folder."""
    folders = cache(lambda: folders_of(command, work_dir))
    return [part for part in command.parts if not is_harmless(part, lambda path: can_write(path, folders(), work_dir))]


def can_write(path: str, folders: Iterable[str], work_dir: Path) -> bool:
    """Return whether a command that writes a path in any of these folders writes in ``work_dir``, and nothing of git."""
    root = os.path.realpath(work_dir)
    targets = [real_path(path, folder) for folder in folders]
    return bool(targets) and all(real is not None and _may_change(real, path, root) for real in targets)


def _may_change(real: str, path: str, root: str) -> bool:
    """Return whether a resolved path may be written: it is in the working folder, and decides about no program."""
    names = (*real.removeprefix(root).split("/"), *path.split("/"))
    if real == root or not is_within(real, root) or path.startswith("~") or any(map(_is_of_git, names)) or _holds_git(real):
        return False
    home = os.path.realpath(Path.home())
    is_setting = is_within(real, home) and real.removeprefix(home).startswith("/.")
    return not is_setting and not any(is_within(real, folder) or is_within(folder, real) for folder in _folders_of_programs())


def _folders_of_programs() -> list[str]:
    """Return the folders in which programs are looked for, each with what is beside it: a virtual environment is one whole."""
    folders = [os.path.realpath(folder) for folder in program_variables()["PATH"].split(os.pathsep) if folder]
    return [os.path.dirname(folder) if os.path.basename(folder) == "bin" else folder for folder in folders]  # noqa: PTH119, PTH120


def is_within(path: str, folder: str) -> bool:
    """Return whether a resolved path is a folder or something in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _holds_git(folder: str) -> bool:
    """Return whether a folder may be a git directory itself, whose settings start programs."""
    return os.path.lexists(f"{folder}/HEAD")


def _is_of_git(name: str) -> bool:
    """Return whether a name is that of a protected folder, or makes a folder a git directory."""
    return is_protected_name(name) or name.casefold() in ("config", "head")


def offered_folder(path: Path, work_dir: Path) -> str:
    """Return the pattern of the folder of a file that "always" offers; empty if none is offered."""
    folder = path.parent
    shown = "" if folder == folder.parent else offered_file(folder)
    return shown and f"{shown}/{'*' if folder == work_dir or work_dir.is_relative_to(folder) else '**'}"


def offered_file(path: Path) -> str:
    """Return the pattern of one file that "always" offers; empty if its name would be read as a pattern."""
    if any(sign in str(path) for sign in "*()"):
        return ""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) and path != home else str(path)


def canonical_address(value: Any) -> str | None:
    """Return scheme, host, port and path of an address, in one spelling; None for what has not all of them."""
    try:
        address = read_address(value if isinstance(value, str) else "")
    except (ToolRefused, ValueError):
        return None
    path = unquote(address.target.partition("?")[0])
    if _is_odd_number(address.host) or _is_odd_path(path):
        return None
    return f"{address.scheme}://{address.host}:{address.port}{path}"


def address_glob(pattern: str) -> str | None:
    """Return the regular expression of an address pattern; None if it is not ``http://`` or ``https://`` with a host."""
    match = re.fullmatch(r"(https?)://([^/:@?#\\\s]+)(?::(\d{1,5}))?(/[^?#\\\s]*)?", pattern)
    if match is None:
        return None
    scheme, host, port, path = match.groups()
    hosts = star_glob(host.lower().rstrip("."), "[^/:]+")
    paths = "/.*" if path is None else names_glob(path.split("/")[1:])
    return rf"{scheme}://{hosts}:{port or PORTS[scheme]}{paths}"


def offered_address(address: str) -> str:
    """Return the pattern of the host of a canonical address that "always" offers."""
    scheme, _, remainder = address.partition("://")
    host, _, port = remainder.partition("/")[0].rpartition(":")
    shown = host if port == str(PORTS[scheme]) else f"{host}:{port}"
    return f"{scheme}://{shown}/**"


def _is_odd_number(host: str) -> bool:
    """Return whether a host is a number in a spelling that programs read in different ways: ``127.1``, or an IPv6 one."""
    if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", host):
        return any(part != str(int(part)) for part in host.split("."))
    return ":" in host or re.fullmatch(r"\d+|0[xX][0-9a-fA-F]*", host.rpartition(".")[2]) is not None


def _is_odd_path(path: str) -> bool:
    """Return whether a path is in a spelling that servers may read as another path."""
    inner = path.split("/")[1:-1]
    return bool({".", ".."} & set(path.split("/"))) or "" in inner or "\\" in path or "%" in path
