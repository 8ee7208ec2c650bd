"""Starts a Jupyter server on loopback, with its own home folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOMES = ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTERLAB_SETTINGS_DIR")
OPTIONS = {
    "jupyterlab": ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"],
    "notebook": ["--JupyterNotebookApp.expose_app_in_browser=True"],
}
"""The module to start and its own options. The page needs its ``window.jupyterapp``."""

NOT_NOTEBOOKS = (
    "audio",
    "csvviewer",
    "extensionmanager",
    "help",
    "htmlviewer",
    "hub",
    "imageviewer",
    "launcher",
    "markdownviewer",
    "pluginmanager",
    "settingeditor",
    "terminal",
    "video",
)
"""Extensions of JupyterLab unrelated to notebooks."""


@contextmanager
def serving(module: str, home: Path, kernelspecs: Path, without: tuple[str, ...] = ()) -> Iterator[tuple[str, Path]]:
    """Run a server of this module; return its address and its folder with a copy of the notebooks.

    ``without``: extensions of JupyterLab to disable.
    """
    folder = home / "work"
    left_out = shutil.ignore_patterns(".agentnb", "*.executed.ipynb", ".ipynb_checkpoints")
    shutil.copytree(ROOT / "notebooks", folder, ignore=left_out)
    _leave_out(home / "jupyter_config_dir", without)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--allow-root", "--no-browser", f"--port={port}", "--IdentityProvider.token=t", f"--ServerApp.root_dir={folder}"]
    options.append("--KernelManager.shutdown_wait_time=0.02")  # seconds for a kernel to end by itself
    command = [sys.executable, str(Path(__file__).with_name("server_of_forks.py")), module, *options, *OPTIONS[module]]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, env=_environment(home, kernelspecs), stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_for(url, process, home / "log")
            yield url, folder
        finally:
            process.kill()  # seconds faster than asking; the kernels have ended, and their fork parent ends with it
            process.wait(30)


def _leave_out(config: Path, extensions: tuple[str, ...]) -> None:
    disabled = {f"@jupyterlab/{name}-extension": True for name in extensions}
    (config / "labconfig").mkdir(parents=True)
    (config / "labconfig/page_config.json").write_text(json.dumps({"disabledExtensions": disabled}))


def _environment(home: Path, kernelspecs: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not re.search("API_KEY|AGENTNB", key)}
    own = {name: str(home / name.lower()) for name in HOMES}
    return kept | own | {"JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"), "JUPYTER_PATH": str(kernelspecs)}


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{url}/api?token=t", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("The Jupyter server does not answer:\n" + log.read_text())
