"""The kernel of each file of this folder, with what its tests run, and a browser that shows its cards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pretend_browser import Browser


@pytest.fixture(scope="module")
def told(kernel: Any, request: pytest.FixtureRequest) -> Any:
    """The kernel, in which the ``STORY`` of the file was run."""
    assert kernel.run(request.module.STORY).status == "ok"
    return kernel


@pytest.fixture
def browser(told: Any) -> Iterator[Browser]:
    """A browser that listens."""
    browser = Browser(told)
    browser.listen(0.1)
    yield browser
    browser.close()
