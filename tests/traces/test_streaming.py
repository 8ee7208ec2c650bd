"""Files larger than memory are read one run after the other."""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from agentnb import iter_traces

COUNT = 200
TEXT = "x" * 100_000


def lines(path: Path) -> Path:
    """JSON Lines of 20 MB: a conversation a line."""
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


@pytest.mark.slow("tracing the memory of 60 MB of traces")
def test_a_large_file_streams_in_bounded_memory(tmp_path: Path, subtests: pytest.Subtests) -> None:
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
            assert peak < 20 * len(TEXT)  # a tenth of the file
