"""Cells on a Dask cluster: workers that die, logs that stream, one rate, and no key on the way."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Thread
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest
from property_settings import size
from small_experiments import TwoRounds, rows, small

from agentnb import Agent, Experiment, Workflow, settings, tables
from agentnb.core.messages import ToolCall
from agentnb.errors import SettingsError
from agentnb.experiments.results.experiment_folder import CUT
from agentnb.experiments.running.control import Progress
from agentnb.experiments.running.dask_cluster import SCHEDULER, DaskCluster
from agentnb.experiments.running.pool_worker import _limits
from agentnb.experiments.running.streamed_logs import MAX_PIECE_BYTES, LogTail, StreamedLogs
from agentnb.models import ScriptedModel
from agentnb.models.transport.connections import Endpoint
from agentnb.store.store import Store
from agentnb.testing import LoopbackServer

PRICED = {"models": ["simulated:disciplined?price=3000/3000"], "primary": "answered"}
KEY = "of-this-cluster-0123456789"
LONG = 60.0
"""Time limit in seconds of everything awaited."""


@pytest.mark.slow("kills and replaces a worker")
def test_killed_cluster_worker_loses_an_attempt_but_no_cell(tmp_path: Path, cluster: Any) -> None:
    killed = tmp_path / "killed"

    def check_line(name: str) -> str:
        """Check a line of the plant."""
        with suppress(FileExistsError):
            killed.mkdir()  # one worker can
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{name} ok"

    given = {**PRICED, "agent": {"tools": [check_line], "policy": TwoRounds()}}
    results = small(4, executor=cluster, folder=tmp_path / "exp", **given).run_sync(show=False)
    attempts = results.attempts
    lost = attempts[attempts["status"] == "lost"]
    assert (results.missing, len(results.rows), len(lost)) == (0, 8, 1)
    assert lost["cost"].iloc[0] > 0 and lost["run_id"].iloc[0] not in {row.run_id for row in results.rows}
    assert [row.redone for row in results.rows if row.task == lost["task"].iloc[0]].count("again") == 1


@pytest.mark.slow("a worker that polls every second for a stop")
def test_stop_ends_running_cluster_work_and_records_it_lost(tmp_path: Path, cluster: Any) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)  # opening for reading waits for the writer

    async def check_line(name: str) -> str:
        """Check a line of the plant."""
        with begun.open("r+b", buffering=0) as file:  # write-only mode would wait for the reader
            file.write(b"1")
            await asyncio.Event().wait()
        return ""

    given = {**PRICED, "agent": {"tools": [check_line]}, "folder": tmp_path / "exp"}
    experiment = small(2, executor=cluster, **given)
    live = experiment.start(show=False)
    with begun.open("rb", buffering=0) as file:
        file.read(1)
    live.stop()
    live.result()
    results = experiment.results(peek=True)
    assert not results.rows and set(results.attempts["status"]) == {"lost"}
    assert [cluster.submit(abs, -1, pure=False).result(timeout=60) for _ in range(2)] == [1, 1]  # its threads are free again


def test_scheduler_with_other_settings_is_refused(cluster: Any, subtests: pytest.Subtests) -> None:
    def put(name: str, value: float) -> None:
        import dask

        dask.config.set({name: value})

    for name, value in {"distributed.scheduler.allowed-failures": 3, "distributed.scheduler.worker-saturation": 1.1}.items():
        cluster.run_on_scheduler(put, name, value)
        try:
            with subtests.test(name), pytest.raises(SettingsError, match=f"{name} is {value}") as caught:
                small(1, executor=cluster).run_sync(show=False)
            assert f"dask.config.set({{{name!r}: {SCHEDULER[name]}}})" in str(caught.value)
        finally:
            cluster.run_on_scheduler(put, name, SCHEDULER[name])


def test_cluster_worker_without_the_key_is_named(cluster: Any) -> None:
    first, second = cluster.scheduler_info(n_workers=-1)["workers"]
    seen: list[Progress] = []
    settings.keep_key("PLANT_KEY", KEY)
    cluster.run(_set_key, "PLANT_KEY", KEY, workers=[first])
    try:
        model = "compatible:m?url=http://127.0.0.1:9/v1&key=PLANT_KEY&price=0"
        experiment = Experiment(rows(1), {"a": "off"}, model, executor=cluster, folder=False)
        with pytest.raises(SettingsError, match=rf"^{second} cannot run the experiment: .*PLANT_KEY is not set") as caught:
            experiment.run_sync(show=False, watch=seen.append)
        assert "\n" not in str(caught.value) and not any(progress.done for progress in seen)
    finally:
        cluster.run(_set_key, "PLANT_KEY", "", workers=[first])
        settings.forget_key("PLANT_KEY")


@pytest.mark.nightly("by day one death of a worker, and pieces of logs without a cluster")
@pytest.mark.slow("kills and replaces a worker")
def test_running_cell_streams_its_log_and_keeps_lost_attempts(tmp_path: Path, cluster: Any) -> None:
    folder, seen = tmp_path / "exp", tmp_path / "seen"

    def check_line(name: str) -> str:
        """Check a line of the plant."""
        if not seen.exists():
            end = monotonic() + LONG
            while monotonic() < end and not any(b"tool_started" in path.read_bytes() for path in folder.glob("*.jsonl")):
                sleep(0.01)
            seen.write_text(" ".join(run.status for run in Store(folder).summaries()))
            os.kill(os.getpid(), signal.SIGKILL)
        return f"{name} ok"

    given = {**PRICED, "agent": {"tools": [check_line], "policy": TwoRounds()}, "folder": folder}
    results = small(1, {"a": "off"}, executor=cluster, **given).run_sync(show=False)
    assert seen.read_text() == "running"
    (lost,) = [row for row in results.attempts.itertuples() if row.status == "lost"]
    run = results.run(lost.run_id)
    assert run.status == "interrupted" and lost.cost == run.cost > 0
    assert len(tables.rounds(run)) == 2
    assert {path.stem for path in folder.glob("*.jsonl")} == {row.run_id for row in results.rows}
    assert [path.name for path in (folder / CUT).iterdir()] == [f"{lost.run_id}.jsonl.cut"]


def test_streamed_log_pieces_arrive_in_order(tmp_path: Path) -> None:
    there, here = tmp_path / "there", Store(tmp_path / "here")
    there.mkdir()
    here.prepare()
    tail, streamed = LogTail(there), StreamedLogs(here)
    text = os.urandom(2 * MAX_PIECE_BYTES + 7)
    (there / "r1.jsonl").write_bytes(text[:5])
    first = [*tail.pieces()]
    with (there / "r1.jsonl").open("ab") as file:
        file.write(text[5:])
    (there / "r2.jsonl").write_bytes(b"nested")
    rest = [*tail.pieces()]
    assert [len(piece.data) for piece in rest] == [MAX_PIECE_BYTES, MAX_PIECE_BYTES, 2, 6] and not [*tail.pieces()]
    streamed.begin("r1")
    for piece in [*first, rest[1], *rest, *first]:  # one piece too early, and one repeated
        streamed.take("r1", piece)
        streamed.take("unknown", piece._replace(run_id="r3"))
    assert here.path("r1").read_bytes() == text and here.ids() == ["r1", "r2"]
    assert here.path("r1").stat().st_mode & 0o777 == 0o600
    with streamed.ending("r1") as run_ids:
        assert run_ids == {"r1", "r2"}
        streamed.take("r1", first[0]._replace(start=len(text)))
    assert here.path("r1").read_bytes() == text


@pytest.mark.nightly("by day one death of a worker, and a stop")
def test_randomly_killed_workers_lose_no_cell(tmp_path: Path, cluster: Any) -> None:
    begun, random = tmp_path / "begun", Random(54)
    count, kills = size(30, nightly=100), size(6, nightly=40)
    due = sorted(random.sample(range(2 * count - 4), kills))

    def check_line(name: str) -> str:
        """Check a line of the plant."""
        with begun.open("a") as file:
            file.write(f"{name}\n")
        return f"{name} ok"

    def kill(progress: Progress) -> None:
        while due and progress.done >= due[0]:
            due.pop(0)
            pids = [nanny.pid for nanny in cluster.cluster.workers.values() if nanny.pid]
            with suppress(ProcessLookupError):
                os.kill(random.choice(pids), signal.SIGKILL)

    given = {**PRICED, "agent": {"tools": [check_line], "policy": TwoRounds()}, "folder": tmp_path / "exp"}
    results = small(count, executor=cluster, **given).run_sync(show=False, watch=kill)
    assert not due and results.missing == 0
    assert sorted(Counter(row.key for row in results.rows).values()) == [1] * 2 * count
    attempts = Counter(results.attempts["task"])
    began = Counter(f"t{line}" for line in begun.read_text().split())
    assert all(began[task] <= attempts[task] for task in attempts) and len(began) == count
    assert sum(row.redone == "again" for row in results.rows) > 0
    assert {path.stem for path in (tmp_path / "exp").glob("*.jsonl")} == {row.run_id for row in results.rows if row.run_id}


@pytest.mark.parametrize(
    ("pool", "count"),
    [
        pytest.param("threads", size(200, nightly=500), marks=pytest.mark.slow("two hundred cells")),
        pytest.param("cluster", 10_000, marks=pytest.mark.nightly("by day 200 cells in a pool of threads")),
    ],
)
def test_thousands_of_cells_return_exactly_once_in_bounded_memory(
    tmp_path: Path, request: pytest.FixtureRequest, pool: str, count: int
) -> None:
    import psutil

    seen: list[int] = []
    with ThreadPoolExecutor(2) as threads:
        executor = threads if pool == "threads" else request.getfixturevalue("cluster")
        process = psutil.Process()
        before = process.memory_info().rss
        given = {"models": ["simulated:disciplined"], "primary": "answered", "agent": {"policy": TwoRounds()}}
        experiment = Experiment(
            rows(count // 2), {"a": "off", "b": "matrix"}, folder=tmp_path / "exp", executor=executor, **given
        )
        results = experiment.run_sync(show=False, watch=lambda progress: seen.append(progress.running))
    assert results.missing == 0 and len({row.key for row in results.rows}) == len(results.attempts) == count
    assert len([*(tmp_path / "exp").glob("*.jsonl")]) == count
    assert max(seen) <= 4  # a window, not all at once
    grown = (process.memory_info().rss - before) / 1e6
    print(f"{count} cells: {grown:.0f} MB more")
    assert grown <= 150


@pytest.mark.slow("workers that call a provider")
def test_rate_limit_on_one_worker_slows_the_others(cluster: Any) -> None:
    endpoint = Endpoint("openai", None, None, "OPENAI_API_KEY")

    def refuse(topic: str) -> int:
        from distributed import get_client

        limiter = _limits(get_client(), topic, 2).of(endpoint)
        limiter.was_refused(300.0, 600.0)
        return limiter.allowed  # type: ignore[attr-defined,no-any-return]

    def closed(topic: str) -> tuple[int, bool]:
        from distributed import get_client

        limiter: Any = _limits(get_client(), topic, 2).of(endpoint)
        get_client().submit(abs, -1, pure=False).result(LONG)  # sent after the subscription, on the same stream
        get_client().log_event(f"{topic}-listens", True)
        end = monotonic() + LONG
        while monotonic() < end and not limiter.closed_for:
            sleep(0.01)
        return limiter.allowed, limiter.closed_for > 500

    first, second = cluster.scheduler_info(n_workers=-1)["workers"]
    listens = cluster.submit(closed, "agentnb-test", workers=[second], pure=False)
    end = monotonic() + LONG
    while monotonic() < end and not cluster.get_events("agentnb-test-listens"):
        sleep(0.01)
    assert cluster.submit(refuse, "agentnb-test", workers=[first], pure=False).result(LONG) == 8
    assert listens.result(LONG) == (8, True)


@pytest.mark.slow("workers that call a provider")
def test_no_key_is_sent_to_or_from_a_cluster(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed.comm import tcp

    passed: list[bytes] = []

    def note(frames: Iterable[Any]) -> None:
        passed.extend(map(bytes, frames))

    to_frames, from_frames = tcp.to_frames, tcp.from_frames

    async def noted_to(*given: Any, **settings: Any) -> Any:
        frames = await to_frames(*given, **settings)
        note(frames)
        return frames

    async def noted_from(frames: Any, **settings: Any) -> Any:
        note(frames)
        return await from_frames(frames, **settings)

    def read_key() -> str:
        """Read the key."""
        return os.environ["PLANT_KEY"]

    for function in (_set_key, settings.keep_key):
        function("PLANT_KEY", KEY)
    cluster.run(_set_key, "PLANT_KEY", KEY)
    monkeypatch.setattr(tcp, "to_frames", noted_to)
    monkeypatch.setattr(tcp, "from_frames", noted_from)
    try:
        with LoopbackServer([ToolCall("read_key", {}), "Here."] * 2, minimal=True, key=KEY) as server:
            model = f"compatible:m?url={server.url}/v1&key=PLANT_KEY&price=1/1"
            given = {"models": [model], "agent": {"tools": [read_key], "todos": False}, "places": 1, "budget": 1.0}
            experiment = Experiment(rows(1), {"a": "off", "b": "matrix"}, executor=cluster, folder=tmp_path / "exp", **given)
            results = experiment.run_sync(show=False)
            assert not results.failures and [request.answered for request in server.requests] == [200] * 4
    finally:
        cluster.run(_set_key, "PLANT_KEY", "")
        settings.forget_key("PLANT_KEY")
        _set_key("PLANT_KEY", "")
    everything = b"".join(passed)
    assert b"run_cell_on_dask" in everything and b"PLANT_KEY" in everything and KEY.encode() not in everything
    assert not any(KEY.encode() in path.read_bytes() for path in (tmp_path / "exp").glob("*.*"))


def _set_key(name: str, text: str) -> None:
    if text:
        os.environ[name] = text
    else:
        os.environ.pop(name, None)


def test_notebook_workflows_and_functions_are_sent_to_a_cluster(cluster: Any) -> None:
    ok = "is running"

    def check_line(name: str) -> str:
        """Check a line of the plant."""
        return f"{name} {ok}"

    class Own(ScriptedModel):
        pass

    text = "workflow:\n  - type: agent\n    name: a\nagents:\n  a: {tools: [check_line]}\n"
    flow, agent = Workflow.from_yaml(text, tools=[check_line]), Agent("simulated:chatty", tools=[check_line])
    given: dict[str, Any] = {"models": ["simulated:disciplined"], "primary": "answered", "folder": False, "executor": cluster}
    results = Experiment(rows(2), {"flow": flow, "agent": agent}, **given).run_sync(show=False)
    assert not results.missing and not results.failures
    assert all(
        f"{row.task[1:]} {ok}" in str(results.run(row.run_id).messages) for row in results.rows if row.variant == "agent"
    )
    own = Agent(Own(["Here."]), tools=[check_line])
    with pytest.raises(SettingsError, match="is an object of yours, which may hold a key"):
        Experiment(rows(1), {"flow": flow, "own": own}, **{**given, "models": None, "aa": True}).run_sync(show=False)


@pytest.mark.nightly("by day one death of a worker")
@pytest.mark.slow("kills and replaces a worker")
def test_worker_killed_during_distribution_causes_no_delay(cluster: Any) -> None:
    killed: list[str] = []

    def scatter(data: Any, **settings: Any) -> Any:
        if len(settings.get("workers", ())) == 1 and not killed:
            killed.extend(settings["workers"])
            (pid,) = [nanny.pid for nanny in cluster.cluster.workers.values() if nanny.worker_address == killed[0]]
            os.kill(pid, signal.SIGKILL)
        return cluster.scatter(data, **settings)

    made = DaskCluster(SimpleNamespace(scatter=scatter, who_has=cluster.who_has, nthreads=cluster.nthreads), print)
    giving = Thread(target=made.scatter, args=(b"work",), daemon=True)
    giving.start()
    giving.join(LONG)
    assert killed and not giving.is_alive()
    assert cluster.submit(len, made._data, pure=False).result(LONG) == len(b"work")
    made.scatter(b"more")  # nor is anything later


def test_work_is_redistributed_when_workers_die() -> None:
    errors: list[Exception] = [OSError("closed"), TimeoutError("no worker")]
    given: list[bytes] = []

    def scatter(data: bytes, **settings: Any) -> Any:
        given.append(data)
        if errors:
            raise errors.pop()
        return SimpleNamespace(key="there")

    client = SimpleNamespace(scatter=scatter, who_has=lambda futures: {"there": ["first"]}, nthreads=lambda: {"first": 1})
    made = DaskCluster(client, print)
    made.scatter(b"work")
    assert given == [b"work"] * 3
    errors += [OSError("closed")] * 10
    with pytest.raises(OSError, match="closed"):
        made.scatter(b"work")
