"""The kernels of the notebooks under test: forks of a process that has imported agentnb, as in the other tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from unittest.mock import patch

import forked_kernels
import pytest
from bash_calls import skip_without_sandbox
from stand_ins import path_with_stand_ins

launch = partial(forked_kernels.launch, imported=forked_kernels.LOADED_BY_CELLS)
OF_OTHERS = "11_any_agent"
"""The notebook that runs external agents: programs of the tests stand in for them."""

MANY_RUNS = "by day test_personas.py, test_open_todos.py and test_guidance_table.py, of single runs"
AT_NIGHT = dict.fromkeys(("many-runs", "completion", "paired", "followed"), MANY_RUNS)
"""Cells by their ids that only `make nightly` executes, and what holds by day what they show."""


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp())


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave the dearest cells to the night."""
    cell = getattr(item, "cell", None)
    if cell is not None and cell.id in AT_NIGHT:
        item.add_marker(pytest.mark.nightly(AT_NIGHT[cell.id]))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Fork the kernel of a notebook where nbval starts it: before the first of its cells."""
    with ExitStack() as stack:
        if item.path.stem == OF_OTHERS:
            skip_without_sandbox()
            stack.enter_context(patch.dict(os.environ, PATH=path_with_stand_ins(_folder())))
        stack.enter_context(patch("jupyter_client.provisioning.local_provisioner.launch_kernel", launch))
        stack.enter_context(patch("jupyter_client.blocking.BlockingKernelClient.wait_for_ready"))  # nbval itself waits for both
        stack.enter_context(patch.dict(os.environ, DASK_DISTRIBUTED__WORKER__MULTIPROCESSING_METHOD="forkserver"))  # loads once
        return (yield)
