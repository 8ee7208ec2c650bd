"""Numbers in a log that no column can hold: the log is read or refused, and every table is made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from property_settings import AT_NIGHT

from agentnb import load_trace, tables
from agentnb.errors import TraceError
from agentnb.store.summaries import summary
from agentnb.tables.columns import table_of

HUGE = (10**30, -(10**30))
LOGS = Path(__file__).parents[1] / "store" / "older_logs"


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the paths of all numbers."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(inner, (*path, key))
    elif type(value) in (int, float):
        yield path


def put(into: Any, path: tuple[Any, ...], value: Any) -> str:
    place = made = json.loads(json.dumps(into))
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return json.dumps(made, separators=(",", ":"))


def changed(log: str) -> Iterator[tuple[str, bytes]]:
    """Yield the log with one huge number: one per field of each kind of event, by day every second."""
    lines = (LOGS / log).read_text("utf-8").splitlines()
    seen = set()
    for index, line in enumerate(lines):
        data = json.loads(line)
        for path in numbers(data):
            name = f"{data['kind']} {'.'.join(str(step) for step in path if not isinstance(step, int))}"
            if name not in seen:
                seen.add(name)
                for huge in HUGE if AT_NIGHT else HUGE[len(seen) // 2 % 2 :][: len(seen) % 2]:
                    yield f"{name} {huge}", "\n".join([*lines[:index], put(data, path, huge), *lines[index + 1 :], ""]).encode()


NIGHTLY = pytest.mark.nightly("by day another log has these numbers")
OTHERS = [pytest.param(log, marks=NIGHTLY) for log in ("schema-3-limits.jsonl", "schema-1-guidance.jsonl")]


@pytest.mark.slow("logs with each of their numbers too large")
@pytest.mark.parametrize("log", ["schema-4-all.jsonl", *OTHERS])
def test_numbers_too_large_for_a_column_break_no_table(log: str, subtests: pytest.Subtests, tmp_path: Path) -> None:
    path, runs = tmp_path / "run.jsonl", []
    known = load_trace(LOGS / log).id
    for number, (name, data) in enumerate(changed(log)):
        with subtests.test(name):
            data = data.replace(known.encode(), f"{known[:-4]}{number:04}".encode())
            path.write_bytes(data)
            try:
                run = load_trace(path)
            except TraceError:
                continue
            runs.append(run)
            assert summary(data.splitlines(keepends=True), "interrupted").id == run.id
    for table in tables.NAMES:
        with subtests.test(table):
            getattr(tables, table)(runs)


def test_declared_columns_omit_numbers_that_are_too_large() -> None:
    assert table_of([1, *HUGE], {"n": ("Int64", int)})["n"].isna().tolist() == [False, True, True]


def test_guidance_with_an_impossible_level_is_refused(tmp_path: Path) -> None:
    path, text = tmp_path / "run.jsonl", (LOGS / "schema-1-guidance.jsonl").read_text("utf-8")
    assert '"guidance":{' in text
    path.write_text(text.replace('"guidance":{', f'"guidance":{{"level":{10**30},'), "utf-8")
    with pytest.raises(TraceError, match=r"guidance\.level"):
        load_trace(path)


def test_table_omits_metadata_numbers_that_are_too_large(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (LOGS / "schema-4-all.jsonl").read_text("utf-8").splitlines()]
    for event in lines:
        if event["kind"] == "model_replied":
            event["metadata"] = {"context_tokens": 10**30}
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in lines), "utf-8")
    run = load_trace(path)
    replies = [round_ for round_ in run.rounds if round_.metadata]
    assert replies and all(reply.metadata["context_tokens"] == 10**30 for reply in replies)
    assert tables.rounds(run)["context_tokens"].isna().all()
