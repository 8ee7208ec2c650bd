"""A kernel for the tests that run cells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from real_kernel import TOOLS, Kernel


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with the extension and three tools, for all tests of a file."""
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    assert kernel.run(TOOLS).status == "ok"
    yield kernel
    kernel.close()
