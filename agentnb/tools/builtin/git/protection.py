"""Protection from hostile repositories: their configuration, hooks and attributes cannot make git run programs.

Settings in the environment override all configuration files. Names chosen by the repository, such as those of filters, are read
from its configuration first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from agentnb.advice import Plain
from agentnb.errors import SettingsError
from agentnb.tools.tool import ToolRefused

OLDEST = (2, 31)
"""Oldest supported version of git, the first to read settings from ``GIT_CONFIG_COUNT``."""
MAX_NAMES = 2_000
"""Maximum number of settings whose names the repository chooses; more do not fit into an environment."""
NOTHING, FAILS, SUCCEEDS = os.devnull, "false", "true"
SETTINGS = {
    "core.hooksPath": NOTHING,
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.editor": SUCCEEDS,
    "sequence.editor": SUCCEEDS,
    "core.askPass": SUCCEEDS,
    "core.sshCommand": FAILS,
    "core.gitProxy": FAILS,
    "core.alternateRefsCommand": FAILS,
    "credential.helper": "",
    "interactive.diffFilter": "cat",
    "diff.external": "",
    "diff.orderFile": NOTHING,
    "gpg.program": FAILS,
    "gpg.openpgp.program": FAILS,
    "gpg.x509.program": FAILS,
    "gpg.ssh.program": FAILS,
    "gpg.ssh.defaultKeyCommand": FAILS,
    "commit.gpgSign": "false",
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    "diff.submodule": "short",
    "diff.ignoreSubmodules": "dirty",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "rerere.enabled": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    # Output format:
    "core.quotePath": "false",
    "color.ui": "false",
    "diff.noprefix": "false",
    "diff.mnemonicPrefix": "false",
    "i18n.commitEncoding": "UTF-8",
    "i18n.logOutputEncoding": "UTF-8",
}
NAMED_SETTINGS = {
    r"filter\..*\.(clean|smudge|process)": "",
    r"filter\..*\.required": "false",
    r"diff\..*\.(command|textconv)": "",
    r"merge\..*\.driver": FAILS,
    r"hook\..*\.enabled": "false",
    r"submodule\..*\.update": "none",
    r"submodule\..*\.ignore": "dirty",
    r"trailer\..*\.(cmd|command)": SUCCEEDS,
    r"remote\..*\.(uploadpack|receivepack)": FAILS,
    r"credential\..*\.helper": "",
    r"pager\..*": "false",
}
"""Settings with names partly chosen by the repository, by the pattern of the name."""
VARIABLES = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": SUCCEEDS,
    "GIT_SEQUENCE_EDITOR": SUCCEEDS,
    "GIT_ASKPASS": SUCCEEDS,
    "GIT_ALLOW_PROTOCOL": "none",  # unlike protocol.allow, it also wins over protocol.NAME.allow
    "GIT_NO_LAZY_FETCH": "1",
}
READING = {"GIT_OPTIONAL_LOCKS": "0"}


def protected_settings(configured: Iterable[str]) -> dict[str, str]:
    """Return the settings that keep git from running configured programs. ``configured``: names of all configured settings."""
    names = [f"{name.rpartition('.')[0]}.enabled" if name.startswith("hook.") else name for name in configured]
    named = {
        name: value for name in names for pattern, value in NAMED_SETTINGS.items() if re.fullmatch(pattern, name, re.DOTALL)
    }
    if len(named) > MAX_NAMES:
        raise ToolRefused(
            "git_error",
            f"The git configuration of this repository lists {len(named):,} programs, too many to disable.",
            "Ask the person to check .git/config.",
        )
    return SETTINGS | named


def protected_environment(folders: Iterable[str], configured: Iterable[str]) -> dict[str, str]:
    """Return the complete environment of a git process. ``folders``: search path of programs."""
    settings = protected_settings(configured)
    variables = {"PATH": os.pathsep.join(folders), "HOME": str(Path.home()), **VARIABLES}
    variables["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (name, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{index}"], variables[f"GIT_CONFIG_VALUE_{index}"] = name, value
    return variables


def program_folders(repository: Path | None = None) -> list[str]:
    """Return the folders of PATH outside the repository."""
    folders = [folder for folder in os.get_exec_path() if Path(folder).is_absolute()]
    if repository is None:
        return folders
    return [folder for folder in folders if not Path(folder).resolve().is_relative_to(repository)]


def find_git(folders: Iterable[str]) -> str:
    """Return the path of the git program. Raises `SettingsError` if it is missing or too old."""
    program = shutil.which("git", path=os.pathsep.join(folders))
    if program is None:
        install = "Install git: apt install git, brew install git or conda install git; then start the kernel again"
        raise SettingsError("The git tools need the git program, which is not on PATH", Plain(install))
    version = _version_of(program)
    if version < OLDEST:
        numbers, oldest = (".".join(map(str, parts)) for parts in (version, OLDEST))
        raise SettingsError(f"The git tools need git {oldest} or newer; {program} is git {numbers}", Plain("Upgrade git"))
    return program


@lru_cache
def _version_of(program: str) -> tuple[int, ...]:
    try:
        ended = subprocess.run(
            [program, "version"],
            capture_output=True,
            timeout=20,
            env={"LC_ALL": "C", "HOME": str(Path.home())},
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingsError(
            f"git could not be run: {error}", Plain("Run git version in a terminal, and reinstall git")
        ) from error
    numbers = re.search(rb"(\d+)\.(\d+)", ended.stdout)
    return tuple(map(int, numbers.groups())) if numbers else (0, 0)
