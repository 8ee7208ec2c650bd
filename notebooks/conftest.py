"""The kernels of the notebooks under test: forks of a process that has imported agentnb, as in the other tests."""

from __future__ import annotations

from collections.abc import Generator
from unittest.mock import patch

import forked_kernels
import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    """Fork the kernel of a notebook where nbval starts it: before the first of its cells."""
    with patch("jupyter_client.provisioning.local_provisioner.launch_kernel", forked_kernels.launch):
        return (yield)
