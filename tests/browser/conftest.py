"""A real JupyterLab, and once a classic Notebook, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import StayingPage, chromium, fresh_page, started
from kernels import Kernels
from pages import Classic, Lab
from servers import serving


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    """Makes kernels of other versions of ipykernel: ``lab.open(..., kernel=kernels("7.3.0"))``."""
    return Kernels(tmp_path_factory.mktemp("kernelspecs"))


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, kernels: Kernels) -> Iterator[tuple[str, Path]]:
    """A JupyterLab server on loopback, with a copy of the notebooks."""
    chromium()
    with serving("jupyterlab", tmp_path_factory.mktemp("lab"), kernels.folder) as served:
        yield served


@pytest.fixture(scope="session")
def classic_server(tmp_path_factory: pytest.TempPathFactory, kernels: Kernels) -> Iterator[tuple[str, Path]]:
    """The same with a classic Notebook 7."""
    chromium()
    with serving("notebook", tmp_path_factory.mktemp("classic"), kernels.folder) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for the tests of one file: while it runs, asyncio believes that an event loop runs on this thread."""
    with started() as browser:
        yield browser


@pytest.fixture(scope="module")
def staying_page(browser: Any, server: tuple[str, Path]) -> Iterator[StayingPage]:
    """The page that the tests of a file share."""
    page = StayingPage(browser, Lab, *server)
    yield page
    page.close()


@pytest.fixture
def lab(request: pytest.FixtureRequest, staying_page: StayingPage) -> Iterator[Lab]:
    """A page in which nothing is open. What the test opens in it, and the kernels of that, end with the test."""
    failed = request.session.testsfailed
    yield staying_page.take()
    staying_page.give_back(spoiled=request.session.testsfailed > failed)


@pytest.fixture
def fresh_lab(browser: Any, server: tuple[str, Path]) -> Iterator[Lab]:
    """A page of its own, for what must be there before a page is loaded, for what loads it again, and for what it holds."""
    with fresh_page(browser, Lab, *server) as page:
        yield page


@pytest.fixture
def classic(browser: Any, classic_server: tuple[str, Path]) -> Iterator[Classic]:
    """A fresh page of the classic Notebook."""
    with fresh_page(browser, Classic, *classic_server) as page:
        yield page
