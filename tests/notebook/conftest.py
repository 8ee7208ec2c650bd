"""A kernel for the tests that run cells."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import forked_kernels
import pytest
from real_kernel import TOOLS, Kernel


@pytest.fixture(scope="module", autouse=True)
def kernels_are_forks() -> Iterator[None]:
    """Fork every kernel that these tests start, including those that nbclient uses."""
    with patch("jupyter_client.provisioning.local_provisioner.launch_kernel", forked_kernels.launch):
        yield


@pytest.fixture(scope="module")
def kernel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """Return a kernel with the extension, three tools and the module's ``SETUP``, shared by all tests of a file."""
    kernel = Kernel(tmp_path_factory.mktemp("kernel"))
    for cell in (TOOLS, getattr(request.module, "SETUP", "")):
        made = kernel.run(cell)
        assert made.status == "ok", made.error
    yield kernel
    kernel.close()
