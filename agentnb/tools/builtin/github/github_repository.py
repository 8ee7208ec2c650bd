"""The repository of a GitHub call, taken from its arguments, the settings, or the remote ``origin``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from agentnb.errors import SettingsError
from agentnb.tools.builtin.git.work_tree import open_repository
from agentnb.tools.builtin.github.api_errors import invalid_repository, no_repository
from agentnb.tools.tool import ToolRefused

SCHEMES = ("https", "http", "ssh", "git")
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9_.-]{1,100}")
_SCP_ADDRESS = re.compile(r"(?:[\w.-]+@)?([\w.-]+):(?!//)(.+)")
"""Address such as ``git@github.com:owner/name.git``."""


class Repository(NamedTuple):
    """A repository on GitHub."""

    owner: str
    name: str

    def __str__(self) -> str:
        return f"{self.owner}/{self.name}"


def read_name(text: str) -> Repository | None:
    """Parse ``owner/name``, or return None for any other text."""
    owner, _, name = text.partition("/")
    return Repository(owner, name) if _NAME.fullmatch(owner) and _NAME.fullmatch(name) else None


def check_name(repo: object) -> None:
    """Raise `SettingsError` unless a setting is empty or ``owner/name``."""
    if not isinstance(repo, str) or (repo and read_name(repo) is None):
        raise SettingsError(f"repo={repo!r} is not a repository name", 'Write GitHub(repo="owner/name")')


async def find_repository(owner: str, repo: str, default: str, work_dir: Path, api_url: str) -> Repository:
    """Return the repository of a call, completed from the default or from ``origin``. Raises `ToolRefused` if there is
    neither.
    """
    if "/" in repo and not owner:
        owner, _, repo = repo.partition("/")
    for argument, value in {"owner": owner, "repo": repo}.items():
        if value and not _NAME.fullmatch(value):
            raise invalid_repository(f"{argument}={value[:100]!r} is not a valid GitHub name.")
    if owner and repo:
        return Repository(owner, repo)
    usual = read_name(default) or await _repository_of_origin(work_dir, api_url)
    return Repository(owner or usual.owner, repo or usual.name)


def read_origin(address: str) -> tuple[str, Repository] | None:
    """Parse the address of a remote into host and repository, or return None if that is impossible."""
    if "://" in address:
        try:
            parts = urlsplit(address)
            host, path = parts.hostname or "", parts.path
        except ValueError:
            return None
        if parts.scheme not in SCHEMES:
            return None
    else:
        match = _SCP_ADDRESS.fullmatch(address)
        if match is None:
            return None
        host, path = match[1].lower(), match[2]
    repository = read_name(path.strip("/").removesuffix(".git"))
    return None if repository is None or not host else (host, repository)


async def _repository_of_origin(work_dir: Path, api_url: str) -> Repository:
    try:
        address = (await open_repository(work_dir)).config.text("remote.origin.url")
    except ToolRefused as refused:
        raise no_repository(refused.outcome.problem) from None
    if not address:
        raise no_repository("The git repository containing the working directory has no remote named origin.")
    host = (urlsplit(api_url).hostname or "").removeprefix("api.")
    origin = read_origin(address)
    if origin is None or origin[0] != host:
        raise no_repository(f"The git remote origin is not a repository on {host}.")
    return origin[1]
