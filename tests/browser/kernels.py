"""Kernels that differ in nothing but their ipykernel: same interpreter, same packages, another version laid over them."""

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
"""What all workers of a run have in common."""
ALSO_NEEDED = {"6": ["nest-asyncio>=1.4"]}
"""What that major version requires and the environment, which has version 7, does not bring."""


class Kernels:
    """Makes kernelspecs in a folder that stands in JUPYTER_PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions: dict[str, str] = {}

    def __call__(self, version: str) -> str:
        """The name of the kernel with this ipykernel (a version or ``newest``), made when first asked for."""
        name = f"ipykernel-{version}"
        if name not in self.versions:
            paths = [str(overlay(version)), os.environ.get("PYTHONPATH", "")]
            env = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
            self.versions[name] = self._what_runs(env)
            assert version in (NEWEST, self.versions[name]), f"{name} would run {self.versions[name]}"
            self._write(name, env)
        return name

    def version_of(self, name: str) -> str:
        """Which ipykernel this kernel runs."""
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
    """A folder with only this ipykernel in it.

    It is kept in the environment the tests run in; only the newest is asked for anew, once by all workers of a run.
    """
    if sys.prefix == sys.base_prefix:  # no environment of ours to keep anything in
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
    """No other worker installs here meanwhile."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _installed(version: str, target: Path) -> Path:
    exact = [f"ipykernel=={version}", *ALSO_NEEDED.get(version.partition(".")[0], [])]
    wanted = ["ipykernel"] if version == NEWEST else exact
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--no-deps", "--target"]
    env = {key: value for key, value in os.environ.items() if key != "PIP_CONSTRAINT"}  # the lock holds one version only
    done = subprocess.run([*pip, str(target), *wanted], env=env, capture_output=True, text=True)
    if done.returncode:
        shutil.rmtree(target)
        _do_without(f"ipykernel {version} cannot be installed beside this one: {done.stderr.strip()[-500:]}")
    return target


def _do_without(reason: str) -> None:
    """Without a package index these tests are skipped, in CI they fail."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    print(reason)
    pytest.skip(reason)
