"""A real JupyterLab in a real browser."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 60_000
"""Milliseconds after which something that does not appear fails its test."""


def chromium() -> str:
    """The browser's path. Without one the test is skipped, in CI it fails."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        reason = "no Chromium on this machine (Debian: apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


class Lab:
    """One page with one notebook."""

    def __init__(self, page: Any, url: str, folder: Path) -> None:
        self.page = page
        self.url = url
        self.folder = folder

    def open(self, notebook: str) -> None:
        self.page.goto(f"{self.url}/lab/tree/{notebook}?token=t&reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        self.wait_idle()

    def wait_idle(self) -> None:
        """Until the kernel is there and has nothing to do, as it says itself and as the notebook shows."""
        self.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'"
        )
        self.page.wait_for_selector('.jp-Notebook-ExecutionIndicator[data-status="idle"]')

    def command(self, name: str) -> None:
        self.page.evaluate("name => { window.jupyterapp.commands.execute(name) }", name)

    def run_all(self) -> None:
        """Run all cells and wait until the last one has run."""
        self.command("notebook:run-all-cells")
        self.page.wait_for_function(
            """() => {
                const cells = window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells;
                return cells.filter(c => c.cell_type === 'code').every(c => c.execution_count !== null);
            }"""
        )
        self.wait_idle()

    def cell(self, index: int) -> Any:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def write_last(self, code: str) -> int:
        """Put code into a new cell at the end; its index."""
        self.page.evaluate(
            """code => {
                const panel = window.jupyterapp.shell.currentWidget;
                const model = panel.content.model.sharedModel;
                model.addCell({cell_type: 'code', source: code});
                panel.content.activeCellIndex = model.cells.length - 1;
            }""",
            code,
        )
        return int(self.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.length")) - 1

    def start_active(self) -> None:
        self.command("notebook:run-cell")

    def errors(self) -> list[str]:
        """The errors that cells of the notebook show."""
        return self.page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]').all_inner_texts()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A JupyterLab server on loopback, with a copy of the notebooks."""
    chromium()
    home = tmp_path_factory.mktemp("lab")
    folder = home / "work"
    shutil.copytree(
        ROOT / "notebooks", folder, ignore=shutil.ignore_patterns(".agentnb", "*.executed.ipynb", ".ipynb_checkpoints")
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    names = ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTERLAB_SETTINGS_DIR")
    env = {key: value for key, value in os.environ.items() if not re.search("API_KEY|AGENTNB", key)}
    env |= {name: str(home / name.lower()) for name in names} | {"JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces")}
    options = ["--allow-root", "--no-browser", f"--port={port}", "--IdentityProvider.token=t", f"--ServerApp.root_dir={folder}"]
    options += ["--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "-m", "jupyterlab", *options], env=env, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_for(url, process, home / "log")
            yield url, folder
        finally:
            process.terminate()
            process.wait(30)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{url}/api?token=t", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError("JupyterLab does not answer:\n" + log.read_text())


@pytest.fixture
def lab(server: tuple[str, Path]) -> Iterator[Lab]:
    """A fresh page."""
    from playwright.sync_api import sync_playwright

    url, folder = server
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(PATIENCE)
        yield Lab(page, url, folder)
        browser.close()
