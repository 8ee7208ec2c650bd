"""The browser, and fresh pages in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

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


@contextmanager
def started() -> Iterator[Any]:
    """Chromium, until the end of the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def fresh_page(browser: Any, kind: type[Any], url: str, folder: Path) -> Iterator[Any]:
    """A page that shares nothing with others of this browser. With it go all that were opened beside it."""
    known = list(browser.contexts)
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(PATIENCE)
    shown = kind(page, url, folder)
    try:
        yield shown
    finally:
        shown.end()
        for context in browser.contexts:
            if context not in known:
                context.close()
