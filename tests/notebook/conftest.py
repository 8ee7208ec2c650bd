"""A kernel for the tests that run cells."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from unittest.mock import patch

import forked_kernels
import pytest
from real_kernel import TOOLS, Kernel


@pytest.fixture(scope="module", autouse=True)
def kernels_are_forks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fork every kernel that these tests start, including those that nbclient uses; a file may name what they have imported."""
    imported = getattr(request.module, "IMPORTED", forked_kernels.LOADED_BY_CELLS)
    launch = partial(forked_kernels.launch, imported=imported)
    with patch("jupyter_client.provisioning.local_provisioner.launch_kernel", launch):
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
