"""Kernels that differ only in ipykernel: same interpreter and packages, with another version overlaid."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NEWEST = "newest"
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"process {os.getpid()}")
"""A folder that all workers of a run share."""
ALSO_NEEDED = {"6": ["nest-asyncio>=1.4"]}
"""Requirements of that major version that the environment, with version 7, lacks."""


class Kernels:
    """Creates kernelspecs in a folder listed in JUPYTER_PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions: dict[str, str] = {}

    def __call__(self, version: str) -> str:
        """Return the name of the kernel with this ipykernel (a version or ``newest``), created on first use."""
        name = f"ipykernel-{version}"
        if name not in self.versions:
            paths = [str(overlay(version)), os.environ.get("PYTHONPATH", "")]
            env = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
            self.versions[name] = self._what_runs(env)
            assert version in (NEWEST, self.versions[name]), f"{name} would run {self.versions[name]}"
            self._write(name, env)
        return name

    def version_of(self, name: str) -> str:
        """Return the ipykernel version of this kernel."""
        return self.versions[name]

    def _what_runs(self, env: dict[str, str]) -> str:
        ask = [sys.executable, "-c", "import ipykernel; print(ipykernel.__version__)"]
        return subprocess.run(ask, env=os.environ | env, check=True, capture_output=True, text=True).stdout.strip()

    def _write(self, name: str, env: dict[str, str]) -> None:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        spec = {"argv": argv, "display_name": name, "language": "python", "env": env}
        path = self.folder / "kernels" / name / "kernel.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(spec))


def overlay(version: str) -> Path:
    """Return a folder that contains only this ipykernel.

    Kept in the environment of the tests; only the newest is downloaded again, once per run for all workers.
    """
    if sys.prefix == sys.base_prefix:  # no environment to keep it in
        return _installed(version, Path(tempfile.mkdtemp(prefix="agentnb-kernel-")))
    kept = Path(sys.prefix) / "kernels" / version
    kept.parent.mkdir(exist_ok=True)
    asked = kept.parent / "newest-asked-by"
    with _alone(kept.parent):
        if kept.is_dir() and (version != NEWEST or (asked.exists() and asked.read_text() == RUN)):
            return kept
        fresh = _installed(version, Path(tempfile.mkdtemp(dir=kept.parent)))
        shutil.rmtree(kept, ignore_errors=True)
        if version == NEWEST:
            asked.write_text(RUN)
        return fresh.rename(kept)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Exclude installs by other workers."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _installed(version: str, target: Path) -> Path:
    exact = [f"ipykernel=={version}", *ALSO_NEEDED.get(version.partition(".")[0], [])]
    wanted = ["ipykernel"] if version == NEWEST else exact
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps", "--target"]
    env = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}  # the lock has one version only
    done = subprocess.run([*pip, str(target), *wanted], env=env, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(target)
        _do_without(f"ipykernel {version} cannot be installed beside this one: {done.stderr.strip()[-500:]}")
    return target


def _do_without(reason: str) -> None:
    """Skip these tests without a package index; in CI they fail."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    print(reason)
    pytest.skip(reason)
