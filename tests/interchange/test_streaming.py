"""Files larger than memory are read run by run."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from property_settings import size

from agentnb import iter_traces
from agentnb.interchange import trace_file

COUNT = size(60, nightly=200)
TEXT = "x" * 100_000


def lines(path: Path) -> Path:
    """Write JSON Lines of 6 MB, at night of 20 MB, with a conversation per line."""
    with path.open("w") as file:
        for number in range(COUNT):
            messages = [{"role": "user", "content": f"{number} {TEXT}"}, {"role": "assistant", "content": "Yes."}]
            file.write(json.dumps({"messages": messages}) + "\n")
    return path


def zipped(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(lines(path.with_suffix(".jsonl")), "all.jsonl")
    return path


def compressed(path: Path) -> Path:
    path.write_bytes(gzip.compress(lines(path.with_suffix(".jsonl")).read_bytes()))
    return path


@pytest.mark.slow("tracing the memory of 18 MB of traces")
def test_large_file_is_streamed_in_bounded_memory(tmp_path: Path, subtests: pytest.Subtests) -> None:
    kinds: dict[str, Callable[[Path], Path]] = {"all.jsonl": lines, "all.zip": zipped, "all.jsonl.gz": compressed}
    for name, make in kinds.items():
        with subtests.test(name):
            path = make(tmp_path / name)
            count, prompt = 0, ""
            tracemalloc.start()
            try:
                for run in iter_traces(path):
                    count, prompt = count + 1, run.prompt
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert count == COUNT
            assert prompt == f"{COUNT - 1} {TEXT}"
            assert peak < 20 * len(TEXT)  # a third of the file, at night a tenth


HEADS = {
    "inspect": '{"version": 2, "status": "success", "eval": {"task": "t", "model": "m/x"}, "samples": [',
    "tau2_bench": '{"timestamp": "now", "info": {}, "tasks": [], "simulations": [',
    "tau_bench": "[",
    "sharegpt": "[",
}
"""Beginnings of documents that are read by record."""


def record(name: str, number: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"{number} {TEXT}"}, {"role": "assistant", "content": "Yes."}]
    return {
        "inspect": {"id": number, "epoch": 1, "messages": messages},
        "tau2_bench": {"id": str(number), "task_id": str(number), "messages": messages},
        "tau_bench": {"task_id": number, "trial": 0, "reward": 1.0, "info": {}, "traj": messages},
        "sharegpt": {"id": str(number), "conversations": [{"from": "human", "value": TEXT}, {"from": "gpt", "value": "Yes."}]},
    }[name]


@pytest.mark.nightly("by day a large file streams in bounded memory")
@pytest.mark.slow("tracing the memory of documents of 20 MB each")
def test_large_document_is_read_record_by_record(
    tmp_path: Path, subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_file, "LARGE_BYTES", 1_000_000)
    monkeypatch.setattr(trace_file, "MAX_RECORD_BYTES", 1_000_000)
    for name, head in HEADS.items():
        with subtests.test(name):
            path = tmp_path / f"{name}.json"
            records = ",".join(json.dumps(record(name, number)) for number in range(COUNT))
            path.write_text(head + records + ("]}" if head.startswith("{") else "]"))
            del records
            tracemalloc.start()
            try:
                origins = [run.origin for run in iter_traces(path) if run.origin]
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            assert {origin.format for origin in origins} == {name}
            assert [(origin.task, origin.position) for origin in origins] == [(str(at), str(at)) for at in range(COUNT)]
            assert peak < 60 * len(TEXT)  # a third of the file
