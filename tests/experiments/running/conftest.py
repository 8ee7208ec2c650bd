"""A Dask cluster shared by the tests of this room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

SET = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.comm.timeouts.connect": "120s",  # a busy machine starts workers slowly
    "distributed.worker.profile.enabled": False,
    "distributed.deploy.lost-worker-timeout": "1h",  # else a worker killed again after 15 s is never replaced
}


@pytest.fixture(scope="module")
def started_cluster(start_method: str) -> Iterator[Any]:
    """Client of a Dask cluster of two processes, with the required scheduler settings."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set(SET | {"distributed.worker.multiprocessing-method": start_method}),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1") as made,
        Client(made) as client,
    ):
        yield client


@pytest.fixture
def cluster(started_cluster: Any) -> Any:
    """The same client with both workers, whatever earlier tests killed."""
    started_cluster.cluster.scale(2)
    started_cluster.wait_for_workers(2, timeout=240)
    return started_cluster
