"""A Dask cluster, used through a client: required scheduler settings, messages from workers, and the stopping of cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import uuid4

from agentnb.errors import SettingsError
from agentnb.experiments.running.cell_work import Job
from agentnb.experiments.running.pool_worker import problem_here, run_cell_on_dask

SCHEDULER = {"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}
"""Required scheduler settings. Without them, Dask silently reruns a dead worker's cells, or blames cells that were only
waiting.
"""

SCATTERS = 10
"""Maximum number of attempts to send the work if workers die. Dask itself waits half a minute for the first worker."""

GONE = (OSError, TimeoutError, KeyError)
"""Errors raised when the work is sent to a worker that is dying."""


class DaskCluster:
    """The user's Dask cluster."""

    def __init__(self, client: Any, hear: Callable[[Mapping[str, Any]], None]) -> None:
        """``hear``: called with each message from a worker, on a thread of the client."""
        self._client = client
        self._hear = hear
        self._topic = f"agentnb-{uuid4().hex}"
        self._data: Any = None
        self._workers = 1

    def begin(self, *arguments: Any) -> dict[str, str]:
        """Return the problems that keep workers from running cells, by worker. Raises `SettingsError` if the scheduler hides
        deaths.
        """
        settings = self._client.run_on_scheduler(partial(_settings_of_scheduler, [*SCHEDULER]))
        wrong = {name: value for name, value in SCHEDULER.items() if settings[name] != value}
        if wrong:
            have = ", ".join(f"{name} is {settings[name]}" for name in wrong)
            problem = f"The scheduler would silently rerun cells of a dead worker, or blame others: {have}"
            raise SettingsError(problem, f"Before the cluster starts: dask.config.set({wrong!r})")
        self._client.subscribe_topic(self._topic, lambda event: self._hear(event[1]))
        self.scatter(arguments[0])
        problems: dict[str, str] = self._client.run(problem_here, *arguments)
        self._workers = max(1, len(problems))
        return problems

    def scatter(self, data: bytes) -> None:
        """Send the work to all workers. Repeated after a death, since the workers that held it may be gone.

        Raises OSError, TimeoutError or KeyError after repeated failures, when no worker is left.
        """
        for tries_left in reversed(range(SCATTERS)):
            try:
                first = self._client.scatter(data, hash=False)
                break
            except GONE:  # a worker died meanwhile, or all are being replaced
                if not tries_left:
                    raise
        # Dask's broadcast hangs if a worker dies meanwhile: the scheduler keeps retrying it, and later broadcasts wait.
        holders = self._client.who_has([first]).get(first.key, ())
        for worker in {*self._client.nthreads()} - {*holders}:
            with suppress(*GONE):
                self._client.scatter({first.key: data}, workers=[worker], timeout=0)
        self._data = first

    def submit(self, job: Job, keeps_logs: bool) -> Any:
        """Submit an attempt at a cell under a key of its own. Dask repeats it only if its result is lost with the worker."""
        key = (self._topic, job.run_id)
        arguments = (self._data, job, keeps_logs, self._topic, self._workers)
        return self._client.submit(run_cell_on_dask, *arguments, key=key, pure=False, retries=0)

    def close(self, *, stop: bool) -> None:
        """Stop listening. ``stop``: whether to ask active cells to end."""
        from distributed import Event

        with suppress(Exception):  # the cluster may be gone
            if stop:
                Event(self._topic, client=self._client).set()  # type: ignore[no-untyped-call]  # it has no types
            self._client.unsubscribe_topic(self._topic)


def _settings_of_scheduler(names: list[str]) -> dict[str, Any]:
    import dask

    return {name: dask.config.get(name, None) for name in names}
