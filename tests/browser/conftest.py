"""A real JupyterLab, and once a classic Notebook, in a real browser."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from browsing import OpenBrowser, StayingPage, chromium, fresh_page
from kernels import Kernels
from pages import Classic, Lab
from property_settings import AT_NIGHT
from servers import NOT_NOTEBOOKS, serving

HERE = Path(__file__).parent
OPEN = OpenBrowser()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Add to the report of a failure what the page shows."""
    report = yield
    if report.failed and call.when == "call":
        for page in getattr(item, "funcargs", {}).values():
            if isinstance(page, Lab):
                with suppress(Exception):  # the page may have crashed
                    report.sections.append(("The page", page.state()))
    return report


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    """Makes kernels of other versions of ipykernel: ``lab.open(..., kernel=kernels("7.3.0"))``."""
    return Kernels(tmp_path_factory.mktemp("kernelspecs"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, kernels: Kernels) -> Iterator[tuple[str, Path]]:
    """A JupyterLab server on loopback, with a copy of the notebooks."""
    chromium()
    without = () if AT_NIGHT else NOT_NOTEBOOKS  # a fifth of what it takes to load a page
    with serving("jupyterlab", tmp_path_factory.mktemp("lab"), kernels.folder, without) as served:
        yield served


@pytest.fixture(scope="session")
def classic_server(tmp_path_factory: pytest.TempPathFactory, kernels: Kernels) -> Iterator[tuple[str, Path]]:
    """The same with a classic Notebook 7."""
    chromium()
    with serving("notebook", tmp_path_factory.mktemp("classic"), kernels.folder) as served:
        yield served


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Note whether the browser is needed for longer than this test."""
    OPEN.goes_on = nextitem is not None and HERE in nextitem.path.parents


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Close the browser also where tests end early, before the server has gone."""
    OPEN.close()


@pytest.fixture(scope="module", autouse=True)
def closed_when_no_longer_needed() -> Iterator[None]:
    """Close the browser after the last file here: while it runs, asyncio believes that an event loop runs on this thread."""
    yield
    if not OPEN.goes_on:
        OPEN.close()


@pytest.fixture(scope="module")
def browser() -> Any:
    """Chromium, for all files."""
    return OPEN.browser()


@pytest.fixture(scope="module")
def staying_page(server: tuple[str, Path]) -> StayingPage:
    """The page that the tests of all files share."""
    return OPEN.page(Lab, *server)


@pytest.fixture
def lab(request: pytest.FixtureRequest, staying_page: StayingPage) -> Iterator[Lab]:
    """A page with nothing in it of another test. What the test opens in it, and the kernels of that, end with the test."""
    failed = request.session.testsfailed
    yield staying_page.take()
    staying_page.give_back(spoiled=request.session.testsfailed > failed)


@pytest.fixture
def fresh_lab(browser: Any, server: tuple[str, Path]) -> Iterator[Lab]:
    """A page of its own, for what must be there before a page is loaded, and for what a page that was loaded holds."""
    with fresh_page(browser, Lab, *server) as page:
        yield page


@pytest.fixture
def classic(browser: Any, classic_server: tuple[str, Path]) -> Iterator[Classic]:
    """A fresh page of the classic Notebook."""
    with fresh_page(browser, Classic, *classic_server) as page:
        yield page
