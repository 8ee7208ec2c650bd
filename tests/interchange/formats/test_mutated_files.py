"""Damaged files of every format: sound parts are read, others are problems, and no other error is raised."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb import load_traces
from agentnb.errors import TraceError

FILES = Path(__file__).parent / "files"
SAMPLES = sorted(path for path in FILES.rglob("*") if path.suffix in (".json", ".jsonl", ".traj"))
OTHERS: tuple[Any, ...] = (None, 7, -1.5, "", "x", True, [], {}, [7], {"type": 7}, ["x"], {"content": [None]})
"""Replacement values."""


def records_of(path: Path) -> list[Any]:
    """Return the records of JSON Lines, or the one document."""
    text = path.read_text(encoding="utf-8")
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value within this one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, one in inner for found in ((*above, key), *places(one, (*above, key)))]


RECORDS = {path: records_of(path) for path in SAMPLES}
PLACES = {path: places(records) for path, records in RECORDS.items()}


@examples(1000)
@given(data=st.data())
def test_mutated_file_yields_only_runs_or_trace_errors(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    source = data.draw(st.sampled_from(SAMPLES))
    records = copy.deepcopy(RECORDS[source])
    for *above, key in data.draw(st.lists(st.sampled_from(PLACES[source]), min_size=1, max_size=3)):
        value: Any = records
        for step in above:
            value = value[step] if isinstance(value, list | dict) and _has(value, step) else None
        if not isinstance(value, list | dict) or not _has(value, key):
            continue
        other = data.draw(st.sampled_from((*OTHERS, "remove")))
        if other == "remove":
            del value[key]
        else:
            value[key] = copy.deepcopy(other)  # a later change may be within it
    path = tmp_path_factory.mktemp("mutated") / f"file{source.suffix}"
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    for strict in (True, False):
        try:
            for run in load_traces(path, strict=strict):
                assert run.messages and run.status != "running"
        except TraceError as error:
            assert error.what


def _has(value: Any, key: Any) -> bool:
    return key in value if isinstance(value, dict) else isinstance(key, int) and key < len(value)
