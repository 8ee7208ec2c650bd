"""The speed of experiments, as ratios within one run.

Usage: python benchmarks/experiments.py [--only NAME ...] [--cells 2000]
Each number is the median of several runs in one process, the two sides taking turns.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentnb import Agent, Experiment, RunOptions, Store
from agentnb.core.messages import Message
from agentnb.experiments.planning.schedule import Schedule
from agentnb.experiments.results.experiment_folder import ExperimentFolder
from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.dask_cluster import SCHEDULER
from agentnb.models.model import Reply
from agentnb.models.seeds import with_seed

PERSONA = "simulated:chatty?p=0.3&heed=0.5"
AT_A_TIME = 8
SATURATIONS = (SCHEDULER["distributed.scheduler.worker-saturation"], 1.1)
"""The saturation that agentnb requires, and Dask's default."""


def check_line(name: str) -> str:
    """Check a line."""
    return f"{name} ok"


async def check(name: str) -> str:
    """Check a line."""
    return f"{name} ok"


def tasks(count: int) -> list[dict[str, Any]]:
    prompt = "Do this.\n\n- Check `check('{n}')`\n- Check again `check('{n} b')`"
    return [{"id": f"t{n}", "prompt": prompt.format(n=n)} for n in range(count)]


def experiment(count: int, folder: Any, **settings: Any) -> Experiment:
    variants = {"off": "off", "matrix": "matrix"}
    given = {"models": [PERSONA], "agent": {"tools": [check], "max_rounds": 8}, "places": AT_A_TIME}
    return Experiment(tasks(count), variants, folder=folder, **{**given, **settings})


def seconds(work: Callable[[], Any]) -> float:
    gc.collect()
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def ratio(one: Callable[[], Any], other: Callable[[], Any], turns: int = 5) -> str:
    pairs = [(seconds(one), seconds(other)) for _ in range(turns)]
    ratios = sorted(a / b for a, b in pairs)
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})"


def over_a_gather(count: int) -> str:
    """An experiment over the same runs, with logs, in a bare bounded gather."""

    async def gathered(folder: str) -> None:
        store, places = Store(folder), asyncio.Semaphore(AT_A_TIME)
        made = experiment(count, folder)
        (schedule,) = made._schedules

        async def run(cell: Any) -> None:
            async with places:
                agent = schedule.variants[cell.variant].agent(PERSONA, cell.seed)
                await agent.run(schedule.tasks[cell.task].row["prompt"], RunOptions(store=store, show=False))

        await asyncio.gather(*[run(cell) for cell in schedule])

    def bare() -> None:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(gathered(folder))

    def whole() -> None:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(experiment(count, folder).run(show=False))

    return ratio(whole, bare)


def one_process_over_two(count: int) -> str:
    """Measure one worker process over two, on as many cores, with logs; the start of the processes counts."""

    def in_processes(number: int) -> Callable[[], None]:
        def run() -> None:
            with tempfile.TemporaryDirectory() as folder:
                experiment(count, folder, executor="processes", places=number).run_sync(show=False)

        return run

    return f"{ratio(in_processes(1), in_processes(2), 3)} on {os.cpu_count()} cores"


def resumed_over_read(count: int) -> str:
    """Going on with finished cells over reading the first and last line of each log."""
    with tempfile.TemporaryDirectory() as folder:
        done = experiment(count // 2, folder)
        asyncio.run(done.run(show=False))
        paths = [*Path(folder).glob("*.jsonl")]
        assert len(paths) == count

        def read() -> None:
            for path in paths:
                with path.open("rb") as file:
                    file.readline()
                    file.seek(max(0, path.stat().st_size - 4096))
                    file.read()

        return ratio(lambda: asyncio.run(experiment(count // 2, folder).run(show=False)), read)


def memory_of(count: int) -> str:
    """Memory that the results of finished cells keep, in bytes per cell. The peak would be a buffer for reading a file."""
    with tempfile.TemporaryDirectory() as folder:
        one = experiment(count // 2, folder)
        (schedule,) = one._schedules
        records = ExperimentFolder(Path(folder))
        one._begin()
        with records.hold_lock():
            for cell in schedule:
                records.add(_row(cell, schedule), None)
        tracemalloc.start()
        results = asyncio.run(experiment(count // 2, folder).run(show=False))
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert not results.missing
        return f"{kept / 1e6:.0f} MB for {count:,} cells, {kept / count:.0f} bytes a cell"


def _row(cell: Any, schedule: Schedule) -> Row:
    return Row(
        key=cell.key,
        task=schedule.tasks[cell.task].id,
        variant=schedule.variants[cell.variant].name,
        model=PERSONA,
        repeat=cell.repeat,
        seed=cell.seed,
        run_id=f"20261124-120000-{cell.seed:011d}",
        status="completed",
        primary="answered",
        values={"answered": True},
    )


def on_a_cluster(count: int) -> str:
    """Measure cells on two workers of a LocalCluster, in turns with the same cells in this process: with the saturation that
    agentnb requires, and with Dask's default. Only the scheduler gets the latter, since agentnb refuses it in the settings.
    """
    import dask
    import psutil
    from distributed import Client, LocalCluster

    turns: list[list[tuple[float, ...]]] = []
    with (
        dask.config.set(SCHEDULER),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as made,
        Client(made) as client,
    ):
        _ms_of_cells(20, client, client)  # the workers import
        resident = psutil.Process().memory_info().rss
        _ms_of_cells(count, client, client)
        grown = (psutil.Process().memory_info().rss - resident) / 1e6
        for _ in range(4):
            turns.append([_ms_of_cells(count // 4, "kernel", client)])
            for saturation in SATURATIONS:
                client.run_on_scheduler(_saturate, saturation)
                turns[-1].append(_ms_of_cells(count // 4, client, client))
    kernel, *others = [[statistics.median(values) for values in zip(*side, strict=True)] for side in zip(*turns, strict=True)]
    lines = [
        f"saturation {saturation}: {clock:.1f} ms a cell, {clock - kernel[0] / 2:.1f} beyond half of one in the kernel; "
        f"processor {everywhere - kernel[1]:.1f} more, {here:.1f} in the kernel and the scheduler"
        for saturation, (clock, everywhere, here) in zip(SATURATIONS, others, strict=True)
    ]
    return "\n  ".join(["", *lines, f"{grown:.0f} MB more in the kernel after {count:,} cells"])


def _ms_of_cells(cells: int, executor: Any, client: Any) -> tuple[float, ...]:
    """Return milliseconds per cell: by the clock, of the processors of this process and the workers, and of this process."""

    def now() -> tuple[float, ...]:
        here = time.process_time()
        return time.perf_counter(), here + sum(client.run(time.process_time).values()), here

    with tempfile.TemporaryDirectory() as folder:
        work = experiment(cells // 2, folder, executor=executor, places=None)
        before = now()
        asyncio.run(work.run(show=False))
        return tuple((end - start) * 1_000 / cells for start, end in zip(before, now(), strict=True))


def _saturate(saturation: float, dask_scheduler: Any = None) -> None:
    dask_scheduler.WORKER_SATURATION = saturation


class Scripted:
    """Replies as a recorded run did."""

    name = "scripted:same"

    def __init__(self, replies: list[Message]) -> None:
        self._replies, self._place = replies, 0

    async def stream(self, request: Any) -> Any:
        self._place += 1
        yield Reply(self._replies[(self._place - 1) % len(self._replies)])


def persona_over_script(count: int) -> str:
    """A round of a persona with todos over the same round with scripted replies."""
    prompt = "Do this.\n\n" + "\n".join(f"- Check line {n} `check('{n}')`" for n in range(8))
    persona = Agent(with_seed("simulated:disciplined", 0), tools=[check])
    first = asyncio.run(persona.run(prompt, show=False))
    replies = [message for message in first.messages if message.role == "assistant"]
    script = Agent(Scripted(replies), tools=[check])

    def run(agent: Agent) -> Callable[[], None]:
        async def several() -> None:
            for _ in range(count // 20):
                await agent.run(prompt, show=False)

        return lambda: asyncio.run(several())

    return ratio(run(persona), run(script), 9)


JOBS: dict[str, tuple[Callable[[int], str], int, str]] = {
    "gather": (over_a_gather, 200, "an experiment over its runs in a bare gather, at most 1.15"),
    "processes": (one_process_over_two, 1_000, "one process over two, at least 1.6"),
    "resume": (resumed_over_read, 10_000, "going on with finished cells over reading their first and last lines, at most 2"),
    "memory": (memory_of, 100_000, "memory of many cells"),
    "cluster": (on_a_cluster, 1_000, "cells on two workers of Dask, at most 5 ms more a cell and 150 MB"),
    "persona": (persona_over_script, 800, "a persona's round over a scripted one, at most 1.5"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", choices=[*JOBS], default=[*JOBS])
    parser.add_argument("--cells", type=int, default=None)
    given = parser.parse_args()
    for name in given.only:
        job, count, told = JOBS[name]
        print(f"{told}: {job(given.cells or count)}", flush=True)


if __name__ == "__main__":
    main()
