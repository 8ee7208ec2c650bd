"""The speed of tables and the list of runs, as ratios within one run, beside the rows of job J7 of the peers' bench.

Usage: python benchmarks/tables.py [--runs 2000] [--rounds 20] [--list 10000] [--repeats 7] [--data FOLDER]

Agents write the logs. The input of J7 has the same messages: a JSON Lines file a run with its columns, and a Parquet file.
Each number comes from a fresh process, the rows take turns, and each is the fastest of its turns: what else the machine does
only adds time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from tqdm import tqdm

WORDS = ["".join(random.Random(number).choices("abcdefghijklmnopqrstuvwxyz", k=2 + number % 8)) for number in range(5_000)]


def write_logs(folder: Path, runs: int, rounds: int, words: int = 50) -> None:
    """Have an agent write logs: in each round it calls a tool, whose result is so many random words."""
    from agentnb import Agent, Store, ToolCall
    from agentnb.core.messages import Message, Text
    from agentnb.models.model import Reply

    rng = random.Random(7)

    async def add(a: int, b: int) -> str:
        """Add two integers."""
        return " ".join(rng.choices(WORDS, k=words))

    class Adding:
        name = "scripted:bench"

        async def stream(self, request: Any) -> Any:
            index = (len(request.messages) - 1) // 2
            if index < rounds:
                call = ToolCall("add", {"a": index, "b": 1}, f"call_{index}")
                yield Reply(Message("assistant", (Text("I add the next two. "), call)), stop_reason="tool_use")
            else:
                yield Reply(Message("assistant", (Text("done"),)), stop_reason="end_turn")

    agent, store = Agent(Adding(), tools=[add], max_rounds=rounds + 1), Store(folder)

    async def all_of_them() -> None:
        for _ in tqdm(range(runs), desc="Writing logs", unit="run", mininterval=5):
            await agent.run("What is the sum of these numbers? " * 5, store=store)

    asyncio.run(all_of_them())


def write_rows(logs: Path, folder: Path) -> None:
    """Write what J7 reads: its columns, with the messages of these logs."""
    import pandas as pd

    from agentnb import iter_traces
    from agentnb.core.messages import ToolResult

    (folder / "jsonl").mkdir()
    everything = []
    for number, run in enumerate(iter_traces(logs)):
        rows = []
        for place, message in enumerate(run.messages):
            result = next((part for part in message.parts if isinstance(part, ToolResult)), None)
            rows.append(
                {
                    "run": number,
                    "sample": run.id,
                    "i": place,
                    "role": message.role,
                    "content": message.text if result is None else result.text,
                    "id": f"m{number * 1000 + place:021d}",
                    "tool_call_id": result and result.call_id,
                    "function": result and result.name,
                    "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.calls],
                }
            )
        (folder / "jsonl" / f"{number:05d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        everything += [{**row, "tool_calls": json.dumps(row["tool_calls"])} for row in rows]
    pd.DataFrame(everything).to_parquet(folder / "messages.parquet", compression="zstd")


# What is measured, each in a process of its own


def msgspec_files(data: Path) -> int:
    """J7's row ``msgspec_2000_files``, with its own code."""
    import pandas as pd

    class Row(msgspec.Struct):
        run: int
        sample: str
        i: int
        role: str
        content: str
        id: str | None
        tool_call_id: str | None
        function: str | None
        tool_calls: msgspec.Raw

    decoder, rows = msgspec.json.Decoder(Row), []
    for path in sorted((data / "jsonl").glob("*.jsonl")):
        with path.open("rb") as file:
            rows += decoder.decode_lines(file.read())
    return len(pd.DataFrame({name: [getattr(row, name) for row in rows] for name in Row.__struct_fields__}))


def parquet_pyarrow(data: Path) -> int:
    """J7's row of this name, with its own code."""
    import pyarrow.parquet as pq

    return len(pq.read_table(data / "messages.parquet").to_pandas())


def table(name: str, cache: bool) -> Callable[[Path], int]:
    def make(data: Path) -> int:
        from agentnb import tables

        return len(getattr(tables, name)(data / "logs", cache=cache))

    return make


def own_parquet(name: str) -> Callable[[Path], int]:
    def read(data: Path) -> int:
        """Read the Parquet files of a table's own cache, which may be much larger than those of the messages."""
        import pandas as pd
        import pyarrow.parquet as pq

        parts = (data / "logs" / ".tables").glob(f"{name}-*/*.parquet")
        return len(pd.concat([pq.read_table(part).to_pandas() for part in parts]))

    return read


def ends(data: Path) -> int:
    """Read the first and the last line of each log, the least that a list of runs needs."""
    found = 0
    for path in sorted((data / "list").glob("*.jsonl")):
        with path.open("rb") as file:
            first = msgspec.json.decode(file.readline())
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 2_000))
            last = msgspec.json.decode(file.read().splitlines()[-1])
        found += bool(first["run_id"] and last["status"])
    return found


def summaries(data: Path) -> int:
    from agentnb import Store

    return len(Store(data / "list").summaries())


NAMES = ("messages", "runs", "rounds", "tool_calls", "guidance", "todos", "loops", "usage", "questions", "events", "patterns")
OWN = ("messages", "events")
JOBS: dict[str, Callable[[Path], int]] = {
    "msgspec_files": msgspec_files,
    "parquet_pyarrow": parquet_pyarrow,
    "logs": table("messages", False),
    **{f"kept {name}": table(name, True) for name in NAMES},
    **{f"own {name}": own_parquet(name) for name in OWN},
    "ends": ends,
    "list": summaries,
}


def measure(job: str, data: Path) -> None:
    import pandas  # noqa: F401  # as J7 does: loading libraries is not measured
    import pyarrow.parquet  # noqa: F401

    from agentnb import Store, tables  # noqa: F401

    started = time.perf_counter()
    rows = JOBS[job](data)
    print(json.dumps({"rows": rows, "seconds": time.perf_counter() - started}))


def seconds_of(job: str, data: Path) -> float:
    command = [sys.executable, __file__, "--job", job, "--data", str(data)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(json.loads(out.splitlines()[-1])["seconds"])


def prepare(data: Path, runs: int, rounds: int, listed: int) -> dict[str, float]:
    """Write what is missing, and return the seconds of what is only slow the first time."""
    if not (data / "logs").exists():
        write_logs(data / "logs", runs, rounds)
        write_rows(data / "logs", data)
    if not (data / "list").exists():
        write_logs(data / "list", listed, rounds)
    for folder in ("logs", "list"):
        shutil.rmtree(data / folder / ".tables", ignore_errors=True)
    first = {job: seconds_of(job, data) for job in JOBS if job.startswith("kept")}
    return first | {"list": seconds_of("list", data)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--list", type=int, default=10_000, help="logs in the list of runs")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--data", type=Path, help="a folder that keeps what was written")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        measure(given.job, given.data)
        return
    with tempfile.TemporaryDirectory(prefix="agentnb-bench-") as folder:
        data = given.data or Path(folder)
        data.mkdir(exist_ok=True)
        first = prepare(data, given.runs, given.rounds, given.list)
        taken: dict[str, list[float]] = {job: [] for job in JOBS}
        for _ in tqdm(range(given.repeats), desc="Measuring", unit="turn"):
            for job, seconds in taken.items():
                seconds.append(seconds_of(job, data))
    best = {job: min(seconds) for job, seconds in taken.items()}
    rows = [("messages from logs: speed, over that of msgspec_2000_files", best["msgspec_files"] / best["logs"])]
    rows += [
        (f"{job[5:]} from the cache: time, over parquet_pyarrow", best[job] / best["parquet_pyarrow"])
        for job in first
        if job != "list"
    ]
    rows += [
        (
            f"{name} from the cache: time, over pyarrow reading the same Parquet",
            best[f"kept {name}"] / best[f"own {name}"],
        )
        for name in OWN
    ]
    rows.append(("making the cache of messages: time, over reading the logs", first["kept messages"] / best["logs"]))
    rows.append(("the list of runs: time, over reading first and last lines", best["list"] / best["ends"]))
    rows.append(("the same for the first time", first["list"] / best["ends"]))
    print("\n| what | ratio |\n|---|---:|")
    for what, ratio in rows:
        print(f"| {what} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
