"""A store of very many runs: listed and tabulated from caches, which are rebuilt when broken."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from agentnb import Agent, Store
from agentnb.models import ScriptedModel

pytest.importorskip("resource", reason="memory is measured on Unix only")
AT_NIGHT = pytest.mark.nightly("by day test_known_summaries and test_table_cache try the same with a few runs")
RUNS = 100_000
MAX_MB = {"list": 150, "table": 250}
"""Allowed growth of memory for 100,000 runs."""
JOB = """
import json, os, resource, sys
from pathlib import Path
from agentnb import Store, tables

job, folder, end = sys.argv[1:]
if job == "table":
    import pandas, pyarrow.parquet
opened = []

def count(event, args):
    if event == "open" and str(args[0]).endswith(".jsonl"):
        opened.append(args[0])

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "linux" else 1024**2)

if end == "dies":  # with the new file whole, and the old one in its place
    Path.replace = lambda *_: os._exit(7)
sys.addaudithook(count)
before = peak()
ids = [one.id for one in Store(folder).summaries()] if job == "list" else [*tables.runs(folder).run_id]
print(json.dumps([len(ids), len({*ids}), len({*opened}), peak() - before]))
"""


class Found(NamedTuple):
    """The results of a process that reads a store."""

    runs: int
    ids: int
    opened: int
    megabytes: int


def begin(job: str, folder: Path, end: str = "lives") -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", JOB, job, str(folder), end], stdout=subprocess.PIPE, text=True)


def found_by(process: subprocess.Popen[str]) -> Found:
    out, _ = process.communicate()
    return Found(*json.loads(out))


def look(job: str, folder: Path) -> Found:
    """Return the results of another process."""
    return found_by(begin(job, folder))


def die(job: str, folder: Path) -> int:
    """Return the exit code of a process that dies before it replaces the cache."""
    process = begin(job, folder, "dies")
    process.communicate()
    return process.returncode


def add_runs(folder: Path, first: int, count: int) -> None:
    """Copy a recorded log under new ids."""
    Agent(ScriptedModel(["Done."])).run_sync("Say that you are done.", store=Store(folder.parent / "model"))
    (log,) = list((folder.parent / "model").glob("*.jsonl"))[:1]
    data, stem = log.read_bytes(), log.stem.encode()
    for number in range(first, first + count):
        run_id = f"{log.stem[:-11]}{number:011x}"
        (folder / f"{run_id}.jsonl").write_bytes(data.replace(stem, run_id.encode()))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    add_runs(folder, 0, RUNS)
    return folder


@AT_NIGHT
@pytest.mark.parametrize("job", ["list", "table"])
def test_only_new_logs_are_opened_whatever_happened_before(job: str, store: Path) -> None:
    assert die(job, store) == 7
    first = look(job, store)
    assert (first.runs, first.ids) == (RUNS, RUNS)
    assert first.opened == RUNS or job == "table", "workers open the other files of a table"
    again = look(job, store)
    assert (again.runs, again.ids, again.opened) == (RUNS, RUNS, 0)
    add_runs(store, RUNS, 60)
    assert die(job, store) == 7
    more = look(job, store)
    assert (more.runs, more.ids, more.opened) == (RUNS + 60, RUNS + 60, 60)
    assert look(job, store).opened == 0
    add_runs(store, RUNS + 60, 10)
    assert look(job, store).opened == 10
    assert max(first.megabytes, again.megabytes, more.megabytes) <= MAX_MB[job]


@AT_NIGHT
def test_concurrent_kernels_see_all_runs_and_keep_caches_intact(store: Path) -> None:
    for job in MAX_MB:
        for found in [*map(found_by, [begin(job, store), begin(job, store)])]:
            assert (found.runs, found.ids) == (RUNS, RUNS)
        assert look(job, store).opened == 0
