"""Results of tau-bench: a list of records with a task, a trial, a reward and chat messages. The user is simulated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.detect.run import Run
from agentnb.traces.formats import openai_chat
from agentnb.traces.trace_file import TraceFile

NAME = "tau_bench"
TITLE = "results of tau-bench"
_KEYS = {"task_id", "reward", "traj"}


def sniff(file: TraceFile) -> str:
    """Return what the file lacks."""
    if file.kind not in ("json", "lines"):
        return "it is not JSON"
    first = file.first[0] if isinstance(file.first, list) and file.first else file.first
    missing = _KEYS - first.keys() if isinstance(first, dict) else _KEYS
    return f"its records have no {', '.join(sorted(missing))}" if missing else ""


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each record."""

    def read_one(position: str, record: dict[str, Any]) -> Run:
        recorded = {name: record[name] for name in ("reward", "info") if name in record}
        task, trial = str(record["task_id"]), str(record.get("trial", ""))
        writer = file.writer(NAME, position, task=task, trial=trial, settings={"recorded": recorded})
        openai_chat.take(writer, record["traj"])
        return writer.finish_without_end()

    records = (
        file.records() if file.kind == "lines" else enumerate(file.document if isinstance(file.first, list) else [file.first])
    )
    yield from file.each(((str(index), record) for index, record in records), read_one)
