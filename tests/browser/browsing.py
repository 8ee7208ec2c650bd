"""The browser, and fresh pages in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from missing_parts import skip_without

LEFT_OUT_BY_PLAYWRIGHT = (
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable",
    "LensOverlay",
    "MediaRouter",
    "PaintHolding",
    "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "OptimizationHints",
    "NetworkTimeServiceQuerying",
    "AimEnabled",
    "PreconnectToSearch",
)
"""Features of Chromium that Playwright disables; Chromium reads only the last such list."""
OF_THE_WINDOW = (
    "InitialWebUI",
    "PreloadTopChromeWebUI",
    "TabSearchPreload",
    "WebUILocationBar",
    "WebUIOmnibox",
    "WebUIOmniboxPopup",
    "WebUIReloadButton",
    "WebUIToolbar",
)
"""Parts of a window around the page; each is a page with its own process, unseen here."""
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-features=" + ",".join((*LEFT_OUT_BY_PLAYWRIGHT, *OF_THE_WINDOW)),
]
PATIENCE = 60_000
"""Milliseconds after which a missing element fails its test."""


def chromium() -> str:
    """Return the browser's path. Without one the test is skipped; in CI it fails."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        skip_without("Chromium", "no Chromium on this machine", in_ci=False)
    return path


class StayingPage:
    """A page shared by successive tests: loading JupyterLab takes most of the time of a short test."""

    def __init__(self, browser: Any, kind: type[Any], url: str, folder: Path) -> None:
        self._ways = browser, kind, url, folder
        self._open: AbstractContextManager[Any] | None = None
        self._page: Any = None

    def take(self) -> Any:
        """Return the page, with only the shared notebook open."""
        if self._open is None:
            self._open = fresh_page(*self._ways)
            self._page = self._open.__enter__()
            self._page.stays = True
        return self._page

    def give_back(self, spoiled: bool) -> None:
        """Tidy the page; if that fails, the next test gets another."""
        try:
            if not spoiled:
                self._page.tidy()
        except Exception as error:
            print(f"The page could not be tidied up: {error}")
            spoiled = True
        if spoiled:
            self.close()

    def close(self) -> None:
        """Close it, if it is open."""
        if self._open is not None:
            opened, self._open = self._open, None
            opened.__exit__(None, None, None)


@contextmanager
def started() -> Iterator[Any]:
    """Run Chromium until the end of the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class OpenBrowser:
    """Chromium and a page in it, opened on first use and kept until closed."""

    def __init__(self) -> None:
        self._until_closed = ExitStack()
        self._browser: Any = None
        self._page: StayingPage | None = None

    def browser(self) -> Any:
        """Chromium."""
        if self._browser is None:
            self._browser = self._until_closed.enter_context(started())
        return self._browser

    def page(self, kind: type[Any], url: str, folder: Path) -> StayingPage:
        """Return the page, created with this class on first use."""
        if self._page is None:
            self._page = StayingPage(self.browser(), kind, url, folder)
            self._until_closed.callback(self._page.close)
        return self._page

    def close(self) -> None:
        """Close both, if they are open."""
        self._browser = self._page = None
        self._until_closed.close()


@contextmanager
def fresh_page(browser: Any, kind: type[Any], url: str, folder: Path) -> Iterator[Any]:
    """Open a page that shares nothing with others of this browser. Pages opened beside it close with it."""
    contexts = list(browser.contexts)
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(PATIENCE)
    shown = kind(page, url, folder)
    try:
        yield shown
    finally:
        shown.end()
        for context in browser.contexts:
            if context not in contexts:
                context.close()
