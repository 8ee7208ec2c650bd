"""Bounds of memory: tables and detectors over a million rounds, a JSON Lines file of a gigabyte, 100,000 runs.

Usage: python benchmarks/scale.py [--rounds 1000000] [--runs 100000] [--gigabytes 1] [--data FOLDER] [--only many] [--repeats 3]

Each row is a process of its own that says its peak of resident memory (of the largest of its worker processes, if it has
some), next to that of a process that only loads the same libraries. The detectors take turns in one process and in two; the
fastest turn of each counts, as whatever else the machine does only adds time. A round of the logs takes 2 kB on the disk, a
log of three rounds 17.
Needs pyarrow and duckdb.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tables import write_logs
from tqdm import tqdm

ROUNDS = 100
"""Rounds of a run."""
WRITTEN = 200
"""Runs that an agent makes; further ones are copies."""
DETECTORS = ("default", "smolagents")
"""`default` finds nothing in these runs; the other finds something in each that is longer than its limit of 20 steps."""
LINE = 100_000
"""Bytes of a line of the large file: one conversation."""


def write_many(folder: Path, runs: int, rounds: int = ROUNDS) -> None:
    """Have an agent write some logs, and copy them, each copy with a run id of its own."""
    write_logs(folder, min(runs, WRITTEN), rounds - 1, words=5)
    logs = sorted(folder.glob("*.jsonl"))
    for number in tqdm(range(len(logs), runs), desc="Copying logs", unit="run", mininterval=5):
        log = logs[number % len(logs)]
        run_id = f"{log.stem[:-6]}{number:06d}"
        (folder / f"{run_id}.jsonl").write_bytes(log.read_bytes().replace(log.stem.encode(), run_id.encode()))


def write_lines(path: Path, size: int) -> None:
    messages = [{"role": "user", "content": "x" * LINE}, {"role": "assistant", "content": "Yes."}]
    line = json.dumps({"messages": messages}).encode() + b"\n"
    with path.open("wb") as file:
        for _ in tqdm(range(size // len(line)), desc="Writing lines", unit="run", mininterval=5):
            file.write(line)


# What is measured, each in a process of its own


def nothing(data: Path) -> Any:
    import duckdb  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    from agentnb import iter_traces, tables  # noqa: F401


def query(data: Path) -> Any:
    from agentnb import tables

    rounds = tables.relation("rounds", data / "rounds")
    found = rounds.aggregate("count(*), count(distinct run_id), sum(cast(tools_called as int)), max(round)").fetchall()
    return found[0]


def frame(data: Path) -> Any:
    from agentnb import tables

    return len(tables.rounds(data / "rounds"))


def lines(data: Path) -> Any:
    from agentnb import iter_traces

    return sum(1 for _ in iter_traces(data / "large.jsonl"))


def detected(data: Path, processes: int = 1) -> Any:
    from agentnb import tables

    return len(tables.detections(data / "rounds", DETECTORS, processes=processes))


def listed(data: Path) -> Any:
    from agentnb import Store

    return len(Store(data / "many").summaries())


def runs(data: Path) -> Any:
    from agentnb import Store, tables

    return len(tables.runs(Store(data / "many")))


JOBS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "nothing": ("loading the libraries", nothing),
    "made": ("making the cache of rounds, and a query of all of them", query),
    "query": ("the same query again", query),
    "frame": ("all rounds as a data frame", frame),
    "lines": ("iter_traces over the large file", lines),
    "many_listed": ("listing many runs the first time", listed),
    "many_listed2": ("again", listed),
    "many_runs": ("the table of many runs, the first time", runs),
    "many_runs2": ("again", runs),
    "detected": ("detectors over all rounds, in one process", detected),
    "detected2": ("the same in two worker processes", lambda data: detected(data, 2)),
}
IN_TURNS = ("detected", "detected2")


def peak_of(job: str, data: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--job", job, "--data", str(data)]
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=100_000, help="short runs of the list and its table")
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--data", type=Path, help="a folder that keeps what was written")
    parser.add_argument("--only", default="", help="jobs whose name begins so")
    parser.add_argument("--repeats", type=int, default=3, help="turns of the detectors")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        started = time.perf_counter(), time.process_time()
        found = JOBS[given.job][1](given.data)
        seconds, processor = time.perf_counter() - started[0], time.process_time() - started[1]
        peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) // 1024
        print(json.dumps({"found": found, "seconds": seconds, "processor": processor, "peak": peak}))
        return
    with tempfile.TemporaryDirectory(prefix="agentnb-bench-") as folder:
        data = given.data or Path(folder)
        data.mkdir(exist_ok=True)
        if "many".startswith(given.only[:4]):
            if not (data / "many").exists():
                write_many(data / "many", given.runs, 3)
            shutil.rmtree(data / "many" / ".tables", ignore_errors=True)
        if not (data / "rounds").exists() and not given.only.startswith("many"):
            write_many(data / "rounds", given.rounds // ROUNDS)
        if not (data / "large.jsonl").exists() and "lines".startswith(given.only):
            write_lines(data / "large.jsonl", int(given.gigabytes * 1e9))
        sizes = [sum(path.stat().st_size for path in data.glob(pattern)) for pattern in ("[mr]*/*.jsonl", "large.jsonl")]
        print(f"logs {sizes[0] / 1e6:,.0f} MB, large file {sizes[1] / 1e6:,.0f} MB")
        print("\n| what | found | seconds | of the processor | peak MB |\n|---|---|---:|---:|---:|")
        jobs = [job for job in JOBS if job.startswith(given.only)]
        for job in [job for job in jobs if job not in IN_TURNS]:
            print_row(job, peak_of(job, data))
        turns = [{job: peak_of(job, data) for job in jobs if job in IN_TURNS} for _ in range(given.repeats)]
        best = {job: min((turn[job] for turn in turns), key=lambda row: row["seconds"]) for job in jobs if job in IN_TURNS}
        for job, row in best.items():
            print_row(job, row)
        if len(best) == len(IN_TURNS):
            one, two = (best[job]["seconds"] for job in IN_TURNS)
            print(f"\nTwo processes are {one / two:.2f} times as fast as one.")


def print_row(job: str, row: dict[str, Any]) -> None:
    print(f"| {JOBS[job][0]} | {row['found']} | {row['seconds']:.1f} | {row['processor']:.1f} | {row['peak']:,} |", flush=True)


if __name__ == "__main__":
    main()
