"""Kernels that differ in nothing but their ipykernel: same interpreter, same packages, another version laid over them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

NEWEST = "newest"
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

    It is kept in the environment the tests run in; only the newest is asked for anew each time.
    """
    kept = Path(sys.prefix) / "kernels" / version
    if version != NEWEST and kept.is_dir():
        return kept
    if sys.prefix == sys.base_prefix:  # no environment of ours to keep anything in
        return _installed(version, Path(tempfile.mkdtemp(prefix="agentnb-kernel-")))
    kept.parent.mkdir(exist_ok=True)
    fresh = _installed(version, Path(tempfile.mkdtemp(dir=kept.parent)))
    shutil.rmtree(kept, ignore_errors=True)
    return fresh.rename(kept)


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
