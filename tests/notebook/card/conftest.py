"""A kernel per file of this folder with its setup, and a browser that shows its cards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pretend_browser import Browser


@pytest.fixture(scope="module")
def story_kernel(kernel: Any, request: pytest.FixtureRequest) -> Any:
    """Return a kernel with the file's ``STORY`` already run."""
    assert kernel.run(request.module.STORY).status == "ok"
    return kernel


@pytest.fixture
def browser(story_kernel: Any) -> Iterator[Browser]:
    """Return a listening browser."""
    browser = Browser(story_kernel)
    yield browser
    browser.close()
