"""Environments of the real counterparts: each has its own below ``.venvs/world``, which stays until its requirements change."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
ENVIRONMENTS = ROOT / ".venvs" / "world"
COMPLETE = "complete.json"
"""The file in an environment that lists the requirements that it was made for; without it, the environment is made again."""
INSTALL_SECONDS = 1_200


class Missing(Exception):
    """A counterpart that this machine cannot have, and why."""


class Environment(NamedTuple):
    """The folder in which a counterpart is installed."""

    folder: Path
    version: str

    @property
    def path(self) -> str:
        """The folders of its programs, for ``PATH``."""
        return f"{self.folder / 'node_modules/.bin'}:{self.folder / 'bin'}"

    def program(self, name: str) -> str:
        """Return the path of a program that it has. Raises `Missing`."""
        found = shutil.which(name, path=self.path)
        if found is None:
            raise Missing(f"its packages have no program {name}")
        return found


def environment_of(row: dict[str, Any]) -> Environment:
    """Return the environment of a row, made now unless it is complete. Raises `Missing`."""
    wanted = {"npm": row.get("npm", []), "pypi": row.get("pypi", [])}
    folder = ENVIRONMENTS / _folder_name(*wanted["npm"], *wanted["pypi"])
    complete = folder / COMPLETE
    if not complete.exists() or json.loads(complete.read_text(encoding="utf-8")) != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if wanted["npm"]:
            if shutil.which("npm") is None:
                raise Missing("there is no npm")
            run(["npm", "install", "--loglevel=error", "--no-audit", "--no-fund", "--prefix", str(folder), *wanted["npm"]])
        if wanted["pypi"]:
            run([_python(row.get("python", "")), "-m", "venv", str(folder)])
            pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
            run([*pip, *(["--no-deps"] if row.get("no_deps") else []), *wanted["pypi"]])
        complete.write_text(json.dumps(wanted), encoding="utf-8")
    return Environment(folder, _version(folder, wanted))


def _python(version: str) -> str:
    """Return an interpreter of this version, by default this one. Raises `Missing`."""
    installed = sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    for candidate in (f"python{version}", *installed) if version else ():
        with suppress(Missing):
            return run([candidate, "-c", "import sys; print(sys.executable)"]).strip()
    if version:
        raise Missing(f"there is no Python {version}")
    return sys.executable


def _folder_name(first: str, *others: str) -> str:
    """Return a name of the folder for these requirements; rows with the same ones share it."""
    return "".join(letter if letter.isalnum() else "-" for letter in _package(first)).strip("-")


def _package(requirement: str) -> str:
    """Return the name of the package of a requirement such as ``@scope/name@1`` or ``name[extra]>=1,<2``."""
    scoped = requirement[1:].partition("@")[0] if requirement.startswith("@") else requirement.partition("@")[0]
    for mark in "[<>=!~ ":
        scoped = scoped.partition(mark)[0]
    return f"@{scoped}" if requirement.startswith("@") else scoped


def _version(folder: Path, wanted: dict[str, list[str]]) -> str:
    """Return the version of the first package."""
    if wanted["npm"]:
        about = folder / "node_modules" / _package(wanted["npm"][0]) / "package.json"
        return str(json.loads(about.read_text(encoding="utf-8"))["version"])
    code = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    return run([str(folder / "bin/python"), "-c", code, _package(wanted["pypi"][0])]).strip()


def run(command: list[str], *, cwd: Path | None = None, seconds: float = INSTALL_SECONDS) -> str:
    """Run a command and return its output. Raises `Missing` with the first line that names an error."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{Path(command[0]).name}: {error}") from error
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        told = [line for line in lines if "error" in line.lower()] or lines or ["no word"]
        raise Missing(f"{Path(command[0]).name} failed: {told[0].strip()[:200]}")
    return done.stdout
