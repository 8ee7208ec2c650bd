"""Paths and addresses as the rules about them see them: resolved, parsed, and matched by patterns."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from agentnb.policies.permissions.globs import names_glob, star_glob

PORTS = {"http": 80, "https": 443}


def resolved_path(value: Any, work_dir: Path) -> Path | None:
    """Return the path that a call means, links followed; None for what is no path."""
    found = real_path(value, str(work_dir))
    return None if found is None else Path(found)


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
    parsed = _parsed(value)
    if parsed is None or parsed.username is not None or parsed.password is not None:
        return None
    try:
        port = parsed.port or PORTS[parsed.scheme]
        host = parsed.hostname or ""
        host = (host if host.isascii() else host.encode("idna").decode()).rstrip(".")
    except (ValueError, UnicodeError):
        return None
    path = unquote(parsed.path) or "/"
    if not host or _is_odd_number(host) or _is_odd_path(path):
        return None
    return f"{parsed.scheme}://{host.lower()}:{port}{path}"


def address_glob(pattern: str) -> str | None:
    """Return the regular expression of an address pattern; None if it is not ``http://`` or ``https://`` with a host."""
    found = re.fullmatch(r"(https?)://([^/:@?#\\\s]+)(?::(\d{1,5}))?(/[^?#\\\s]*)?", pattern)
    if found is None:
        return None
    scheme, host, port, path = found.groups()
    hosts = star_glob(host.lower().rstrip("."), "[^/:]+")
    paths = "/.*" if path is None else names_glob(path.split("/")[1:])
    return rf"{scheme}://{hosts}:{port or PORTS[scheme]}{paths}"


def offered_address(address: str) -> str:
    """Return the pattern of the host of a canonical address that "always" offers."""
    scheme, _, rest = address.partition("://")
    host, _, port = rest.partition("/")[0].rpartition(":")
    shown = host if port == str(PORTS[scheme]) else f"{host}:{port}"
    return f"{scheme}://{shown}/**"


def _parsed(value: Any) -> SplitResult | None:
    if not isinstance(value, str) or re.search(r"[\s\\\x00-\x1f\x7f]", value):
        return None
    try:
        parsed = urlsplit(value)
    except ValueError:
        return None
    return parsed if parsed.scheme in PORTS else None


def _is_odd_number(host: str) -> bool:
    """Return whether a host is a number in a spelling that programs read in different ways: ``127.1``, or an IPv6 one."""
    if re.fullmatch(r"\d{1,3}(?:\.\d{1,3}){3}", host):
        return any(part != str(int(part)) for part in host.split("."))
    return ":" in host or re.fullmatch(r"\d+|0[xX][0-9a-fA-F]*", host.rpartition(".")[2]) is not None


def _is_odd_path(path: str) -> bool:
    """Return whether a path is in a spelling that servers may read as another path."""
    inner = path.split("/")[1:-1]
    return bool({".", ".."} & set(path.split("/"))) or "" in inner or "\\" in path or "%" in path
