"""Damaged files of every format: whatever is missing or of another kind, only a TraceError or runs come out."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from trace_documents import FILES

from agentnb import load_traces
from agentnb.errors import TraceError
from agentnb.traces.yaml_text import load_yaml

MAX_BYTES = 60_000
"""Larger samples are not mutated: many small ones are worth more than a few large ones."""


def _documents() -> dict[str, Any]:
    """Return the samples as plain data: JSON, JSON Lines as a list under ``lines``, and YAML, which is written as JSON."""
    found: dict[str, Any] = {}
    for path in sorted(FILES.rglob("*")):
        if path.is_file() and path.stat().st_size <= MAX_BYTES and path.parent != FILES:
            name, data = path.relative_to(FILES).as_posix(), path.read_bytes()
            if path.suffix == ".jsonl":
                found[name] = [json.loads(line) for line in data.splitlines()]
            elif path.suffix in (".json", ".traj"):
                found[name] = json.loads(data)
            elif path.suffix in (".yaml", ".yml"):
                found[name] = load_yaml(data, name)
    return found


DOCUMENTS = _documents()
ODD = st.sampled_from([None, 7, -1, 1.5, True, "", "text", [], {}, [7], {"type": "text"}, [[]], {"role": 7}, "\ud800", 10**30])


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return every place in the data: a list or an object, and an index or a key of it."""
    if not isinstance(value, dict | list):
        return []
    keys = list(value) if isinstance(value, dict) else range(len(value))
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


@examples(2000)
@given(data=st.data())
def test_only_trace_errors_and_runs_come_out_of_damaged_files(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name = data.draw(st.sampled_from(sorted(DOCUMENTS)))
    document = copy.deepcopy(DOCUMENTS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        places = _places(document)
        if not places:
            break
        inside, key = data.draw(st.sampled_from(places))
        if data.draw(st.booleans()):
            del inside[key]
        else:
            inside[key] = copy.deepcopy(data.draw(ODD))
    path = tmp_path_factory.getbasetemp() / f"mutated{Path(name).suffix.replace('.yaml', '.json')}"
    is_lines = name.endswith(".jsonl") and isinstance(document, list)
    text = "".join(json.dumps(one) + "\n" for one in document) if is_lines else json.dumps(document, default=str)
    path.write_text(text, encoding="utf-8")
    try:
        strict = [*load_traces(path)]
    except TraceError:
        strict = None
    try:
        lenient = load_traces(path, strict=False)
    except TraceError:  # of no format any more
        assert strict is None
        return
    assert strict is None or [run.id for run in strict] == [run.id for run in lenient]
    assert strict is not None or lenient.problems
