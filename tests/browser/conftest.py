"""A real JupyterLab, and a classic Notebook, in a real browser."""

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
    """Add a description of the page to the report of a failure."""
    report = yield
    if report.failed and call.when == "call":
        for page in getattr(item, "funcargs", {}).values():
            if isinstance(page, Lab):
                with suppress(Exception):  # the page may have crashed
                    report.sections.append(("The page", page.state()))
    return report


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    """Return a factory of kernels with other ipykernel versions: ``lab.open(..., kernel=kernels("7.3.0"))``."""
    return Kernels(tmp_path_factory.mktemp("kernelspecs"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, kernels: Kernels) -> Iterator[tuple[str, Path]]:
    """Run a JupyterLab server on loopback with a copy of the notebooks."""
    chromium()
    without = () if AT_NIGHT else NOT_NOTEBOOKS  # a fifth of the time to load a page
    with serving("jupyterlab", tmp_path_factory.mktemp("lab"), kernels.folder, without) as served:
        yield served
        OPEN.close()  # before the server ends


@pytest.fixture(scope="session")
def classic_server(tmp_path_factory: pytest.TempPathFactory, kernels: Kernels) -> Iterator[tuple[str, Path]]:
    """The same with a classic Notebook 7."""
    chromium()
    with serving("notebook", tmp_path_factory.mktemp("classic"), kernels.folder) as served:
        yield served


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Close the browser after the last test here, even a skipped one: meanwhile asyncio finds a running loop on this thread."""
    yield
    if nextitem is None or HERE not in nextitem.path.parents:
        OPEN.close()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Close the browser also if tests end early."""
    OPEN.close()


@pytest.fixture(scope="module")
def browser() -> Any:
    """Chromium, for all files."""
    return OPEN.browser()


@pytest.fixture(scope="module")
def staying_page(server: tuple[str, Path]) -> StayingPage:
    """Return the page that the tests of all files share."""
    return OPEN.page(Lab, *server)


@pytest.fixture
def lab(request: pytest.FixtureRequest, staying_page: StayingPage) -> Iterator[Lab]:
    """Return a clean page. Notebooks and kernels that the test opens end with the test."""
    failed = request.session.testsfailed
    yield staying_page.take()
    staying_page.give_back(spoiled=request.session.testsfailed > failed)


@pytest.fixture
def fresh_lab(browser: Any, server: tuple[str, Path]) -> Iterator[Lab]:
    """Return an unshared page, for tests of page loading and of its state afterwards."""
    with fresh_page(browser, Lab, *server) as page:
        yield page


@pytest.fixture
def classic(browser: Any, classic_server: tuple[str, Path]) -> Iterator[Classic]:
    """A fresh page of the classic Notebook."""
    with fresh_page(browser, Classic, *classic_server) as page:
        yield page
