"""Cells in a user's pool: executors of all kinds, and incapable workers."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from importlib import import_module
from io import FileIO
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from msgspec.json import encode
from msgspec.structs import replace
from small_experiments import check_line, small

from agentnb import settings
from agentnb.errors import SettingsError, StoreError
from agentnb.examples import path as example
from agentnb.experiments.results.experiment_folder import ROWS, Memory
from agentnb.experiments.running.cell_work import Job
from agentnb.experiments.running.control import Progress
from agentnb.experiments.running.engine import InKernel
from agentnb.experiments.running.pool_worker import OWN_VERSIONS, CellResult, problem_here
from agentnb.experiments.running.pools import InPool
from agentnb.experiments.running.spending import CellSpending
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.mcp_server import MCPServer

PRICED = {"models": ["simulated:disciplined?price=3000/3000"], "primary": "answered"}
KEY = "of-this-kernel-0123456789"
OF_THIS_RUN = ["run_id", "seconds", "at", "redone"]


class Submitting:
    """A pool of the shape of submitit, which the tests do not install: jobs with `done` and `result` but no callbacks, run by
    polling as its `DebugExecutor` does.
    """

    def submit(self, function: Any, *given: Any) -> Any:
        results: list[Any] = []
        asked = iter([False])
        return SimpleNamespace(
            done=lambda: next(asked, True) and (results.append(function(*given)) or True), result=lambda: results[0]
        )


@pytest.fixture(scope="module")
def processes(start_method: str) -> Iterator[ProcessPoolExecutor]:
    """A pool of one process, which has none of the files, keys and modules of a test."""
    with ProcessPoolExecutor(1, mp_context=get_context(start_method)) as pool:
        pool.submit(abs, -1).result()
        yield pool


def sorted_table(results: Any) -> pd.DataFrame:
    table: pd.DataFrame = results.table()
    return table.drop(columns=OF_THIS_RUN).sort_values(["task", "variant"]).reset_index(drop=True)


@pytest.mark.nightly("by day notebook 09 compares processes and a cluster with the kernel")
@pytest.mark.slow("worker processes of two pools")
def test_pools_produce_the_same_table_and_logs_as_the_kernel(
    tmp_path: Path, cluster: Any, processes: Executor, subtests: Any
) -> None:
    table = sorted_table(small(4).run_sync(show=False))
    with ThreadPoolExecutor(2) as threads:
        pools: dict[str, Any] = {
            "processes": processes,
            "threads": threads,
            "jobs": Submitting(),
            "dask": cluster,
            "executor of dask": cluster.get_executor(),
        }
        for name, pool in pools.items():
            with subtests.test(name):
                results = small(4, executor=pool, places=2, folder=tmp_path / name).run_sync(show=False)
                pd.testing.assert_frame_equal(sorted_table(results), table)
                assert {path.stem for path in (tmp_path / name).glob("*.jsonl")} == {row.run_id for row in results.rows}
                assert (results.attempts["status"] == "completed").all() and len(results.attempts) == 8


@pytest.mark.nightly("by day pools of four other kinds")
@pytest.mark.slow("starts a worker process")
def test_loky_pool_reproduces_the_kernel_table_and_loses_no_cell() -> None:
    from loky import get_reusable_executor

    results = small(4, executor=get_reusable_executor(1)).run_sync(show=False)
    pd.testing.assert_frame_equal(sorted_table(results), sorted_table(small(4).run_sync(show=False)))


def test_server_named_only_in_the_kernel_is_refused_at_once() -> None:
    servers = Servers()
    servers.configuration.add(MCPServer("plant", "plant-server"))
    with use_host(Host(servers=servers)), ThreadPoolExecutor(1) as pool:
        given = {"executor": pool, "places": 1, "agent": {"tools": ["mcp:plant"]}, "primary": "answered"}
        with pytest.raises(SettingsError, match="worker 1 cannot run the experiment: There is no MCP server plant"):
            small(1, **given).run_sync(show=False)


def test_incapable_workers_are_named_before_the_first_cell(
    tmp_path: Path, processes: Executor, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plant_tools.py").write_text("def check_line(name: str) -> str:\n    'Check a line.'\n    return name\n")
    Path("record.jsonl").write_bytes(example("healthy").read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    settings.keep_key("PLANT_KEY", KEY)
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "key": ({"models": ["compatible:m?url=http://127.0.0.1:9/v1&key=PLANT_KEY&price=0"]}, ".*PLANT_KEY is not set"),
        "model": ({"models": ["recorded:record.jsonl"]}, ".*recorded:record.jsonl: there is no file"),
        "tool": (
            {"agent": {"tools": [import_module("plant_tools").check_line]}},
            "it cannot read the experiment: ModuleNotFoundError: No module named 'plant_tools'",
        ),
    }
    try:
        for name, (given, problem) in cases.items():
            seen: list[Progress] = []
            with subtests.test(name):
                experiment = small(1, executor=processes, primary="answered", **given)
                with pytest.raises(SettingsError, match=f"^worker 1 cannot run the experiment: {problem}") as caught:
                    experiment.run_sync(show=False, watch=seen.append)
                assert "\n" not in str(caught.value) and not any(progress.done for progress in seen)
    finally:
        settings.forget_key("PLANT_KEY")
    assert (
        problem_here(b"", "agentnb 0.0.1, Python 2.7", None)
        == f"it has {OWN_VERSIONS}, but the kernel has agentnb 0.0.1, Python 2.7"
    )
    assert problem_here(b"no work", OWN_VERSIONS, None).startswith("it cannot read the experiment: UnpicklingError")


@pytest.mark.slow("a process that dies")
def test_experiment_continues_in_another_pool_after_one_breaks(tmp_path: Path, processes: Executor) -> None:
    died = tmp_path / "died"

    def check_line(name: str) -> str:
        """Check a line of the plant."""
        if name == "2" and not died.exists():
            died.touch()
            os._exit(9)
        return f"{name} ok"

    given = {"folder": tmp_path / "exp", "agent": {"tools": [check_line]}, **PRICED}
    with pytest.raises(SettingsError, match=r"The pool is broken: .*Create a new pool"):
        small(4, executor=processes, **given).run_sync(show=False)
    results = small(4, executor="kernel", **given).run_sync(show=False)
    assert results.missing == 0 and (results.attempts["status"] == "lost").sum() >= 1


def test_runs_without_rows_continue_from_their_logs(tmp_path: Path) -> None:
    ran = {row.run_id for row in small(2, folder=tmp_path).run_sync(show=False).rows}
    kept = (tmp_path / ROWS).read_bytes().splitlines(keepends=True)
    (tmp_path / ROWS).write_bytes(b"".join(kept[:-2]))
    with ThreadPoolExecutor(2) as pool:
        results = small(2, folder=tmp_path, executor=pool).run_sync(show=False)
    assert {row.run_id for row in results.rows} == ran and len(results.attempts) == 4


def test_interrupted_run_in_a_pool_is_repeated(tmp_path: Path) -> None:
    for name, redone in {"kernel": "recovered", "pool": "again"}.items():
        folder = tmp_path / name
        with ThreadPoolExecutor(1) as pool:
            executor: Any = pool if name == "pool" else name
            (row,) = small(1, {"a": "off"}, folder=folder, executor=executor).run_sync(show=False).rows
            (folder / ROWS).unlink()
            log = folder / f"{row.run_id}.jsonl"
            events = log.read_bytes().splitlines(keepends=True)
            ends = [place for place, line in enumerate(events) if b'"round_finished"' in line]
            log.write_bytes(b"".join(events[: ends[0] + 1]))
            (again,) = small(1, {"a": "off"}, folder=folder, executor=executor).run_sync(show=False).rows
        assert (again.redone, again.digest) == (redone, row.digest)


class Closing:
    """A pool that loses a cell with a key in its error, and is closed then."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool

    def submit(self, function: Any, *given: Any) -> Any:
        """Run it, unless the pool is closed."""
        if function is problem_here:
            return self._pool.submit(function, *given)
        future = self._pool.submit(int, KEY)
        self._pool.shutdown()
        return future


def test_pool_closed_during_an_experiment_fails_no_cell(tmp_path: Path) -> None:
    settings.keep_key("PLANT_KEY", KEY)
    try:
        with ThreadPoolExecutor(1) as threads, pytest.raises(SettingsError, match="The pool is broken: RuntimeError"):
            small(2, executor=Closing(threads), places=1, folder=tmp_path).run_sync(show=False)
    finally:
        settings.forget_key("PLANT_KEY")
    results = small(2, folder=tmp_path).results(peek=True)
    assert not results.rows and set(results.attempts["status"]) == {"lost"}
    assert KEY.encode() not in (tmp_path / ROWS).read_bytes()


def test_log_from_a_pool_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        small(1, executor=pool, folder=tmp_path).run_sync(show=False)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.glob("*.jsonl")} == {0o600}


def test_log_whose_writing_fails_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, halfway = tmp_path / "exp", list[list[Path]]()

    class FullDisk(FileIO):
        def write(self, data: Any) -> int:
            super().write(data[: len(data) // 2])
            halfway.append([*folder.glob("*.jsonl")])  # what a kernel that dies now leaves
            raise OSError(errno.ENOSPC, "No space left on device")

    with ThreadPoolExecutor(2) as pool:
        with monkeypatch.context() as patched, pytest.raises(StoreError, match=r"jsonl cannot be written: No space left"):
            patched.setattr(os, "fdopen", FullDisk)
            small(2, executor=pool, folder=folder).run_sync(show=False)
        assert halfway and not any(halfway) and not [*folder.glob("*.jsonl")]
        results = small(2, executor=pool, folder=folder).run_sync(show=False)
    assert results.missing == 0 and all(results.run(row.run_id).status == "completed" for row in results.rows)


def test_lost_attempts_count_against_the_budget_of_later_processes(tmp_path: Path) -> None:
    given = {"budget": 0.5, "folder": tmp_path, **PRICED}
    experiment = small(2, **given)
    rows = experiment.run_sync(show=False).rows
    (tmp_path / ROWS).write_bytes(encode(replace(rows[0], status="lost", cost=1.0, run_id="")) + b"\n")
    for path in tmp_path.glob("*.jsonl"):
        path.unlink()
    assert small(2, **given).run_sync(show=False).missing == 4


def test_spending_in_a_pool_counts_against_the_budget(subtests: pytest.Subtests) -> None:
    for workers in (1, 2):
        with subtests.test(workers=workers), ThreadPoolExecutor(workers) as pool:
            given = {"budget": 0.0001, "agent": {"tools": [check_line]}, **PRICED}
            assert small(10, executor=pool, **given).run_sync(show=False).missing == 19


def test_object_without_submit_is_refused_as_executor() -> None:
    with pytest.raises(Exception, match="executor='threads': choose kernel, processes, or an object with submit"):
        small(1, executor="threads").design()


def test_cost_of_an_abandoned_attempt_counts_against_the_budget() -> None:
    spending, here = CellSpending(1.0), InKernel(small(1)._work, Memory(), CellSpending(None), 1)
    with ThreadPoolExecutor(1) as threads:
        pool = InPool(threads, here.work, here.records, spending, 1, here)
        pool._hear({"attempt": "given-up", "execution": "", "kind": "paid", "value": 0.25})
        pool._hear({"attempt": "given-up", "execution": "", "kind": "began", "value": None})
    assert spending.spent == 0.25 and not pool.waiting


def test_cell_repeated_by_dask_keeps_a_row_for_each_execution(monkeypatch: pytest.MonkeyPatch) -> None:
    run, begin, reserved = InPool._run, CellSpending.begin, list[str]()

    async def run_twice(pool: InPool, job: Job) -> CellResult:
        for execution, dollars in (("first", 0.25), ("second", 0.5)):
            for kind, value in (("began", None), ("paid", dollars)):
                pool._hear({"attempt": job.run_id, "execution": execution, "kind": kind, "value": value})
        return (await run(pool, job))._replace(execution="second")

    monkeypatch.setattr(InPool, "_run", run_twice)
    monkeypatch.setattr(CellSpending, "begin", lambda spending, key, group: reserved.append(key) or begin(spending, key, group))
    with ThreadPoolExecutor(1) as threads:
        results = small(1, executor=threads, budget=1_000, **PRICED).run_sync(show=False)
    attempts = results.attempts
    assert [*attempts["status"]].count("lost") == 2 and {*attempts[attempts["status"] == "lost"]["cost"]} == {0.25}
    assert [row.redone for row in results.rows] == ["again"] * 2
    assert {reserved.count(row.key) for row in results.rows} == {2}, "each execution may spend as much"
