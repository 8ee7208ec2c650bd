"""Parquet files of run logs: queried by other tools, and read again."""

from __future__ import annotations

import gzip
import sys
import zipfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from run_builder import RunBuilder

from agentnb import Run, load_trace, load_traces, save_trace
from agentnb.core.log import events as e
from agentnb.errors import StoreError, TraceError
from agentnb.interchange.exports import parquet_export


def a_run(number: int, rounds: int = 3) -> Run:
    builder = RunBuilder("Zähl. 🐦", run_id=f"run-{number}")
    for n in range(rounds):
        builder.round(f"{n}")
    return builder.add(e.RunFinished, status="completed", stop_reason="natural").run


@pytest.mark.req("R0.83")
def test_other_tools_can_query_the_events(tmp_path: Path) -> None:
    path = save_trace([a_run(1), a_run(2)], tmp_path / "runs.parquet")
    text = "json_extract_string(event, '$.message.parts[0].text')"
    query = (
        f"select run_id, count(*), count(\"at\"), min({text}) from '{path}' where kind = 'model_replied' group by 1 order by 1"
    )
    found = duckdb.sql(query).fetchall()
    assert [(run_id, count, least) for run_id, count, times, least in found if times == count] == [
        ("run-1", 3, "0"),
        ("run-2", 3, "0"),
    ]
    assert pq.read_schema(path).names == ["run_id", "parent_id", "seq", "at", "kind", "event"]


def test_row_groups_are_small_and_duplicate_ids_stay_separate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_export, "MAX_GROUP_ROWS", 4)
    runs = [a_run(1), a_run(1), a_run(2)]
    path = save_trace(iter(runs), tmp_path / "runs.parquet")
    whole = pq.ParquetFile(path)
    assert max(whole.metadata.row_group(n).num_rows for n in range(whole.num_row_groups)) == 4
    assert load_traces(path) == runs


def test_compressed_and_archived_tables_are_read(tmp_path: Path) -> None:
    path = save_trace(a_run(1), tmp_path / "run.parquet")
    (tmp_path / "run.parquet.gz").write_bytes(gzip.compress(path.read_bytes()))
    with zipfile.ZipFile(tmp_path / "runs.zip", "w") as archive:
        archive.write(path, "run.parquet")
    assert load_trace(tmp_path / "run.parquet.gz") == load_traces(tmp_path / "runs.zip")[0] == a_run(1)


def test_foreign_table_is_refused_and_damaged_run_reported(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(TraceError, match="it has no column run_id, event"):
        load_traces(tmp_path / "other.parquet")
    path = save_trace([a_run(1), a_run(2)], tmp_path / "runs.parquet")
    table = pq.read_table(path)
    events = table.column("event").to_pylist()
    broken = table.set_column(5, "event", [[*events[:2], "{}", *events[3:]]])
    pq.write_table(broken, path)
    runs = load_traces(path, strict=False)
    assert [run.id for run in runs] == ["run-2"] and [problem.position for problem in runs.problems] == ["run run-1"]
    (tmp_path / "cut.parquet").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceError, match="parquet: it cannot be read"):
        load_traces(tmp_path / "cut.parquet")


def test_error_without_pyarrow_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_trace(a_run(1), tmp_path / "run.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(StoreError, match=r"pip install 'agentnb\[scale\]'"):
        save_trace(a_run(1), tmp_path / "again.parquet")
    assert not (tmp_path / "again.parquet").exists()
    with pytest.raises(TraceError, match=r"parquet: reading Parquet needs the pyarrow package: pip install 'agentnb\[scale\]'"):
        load_traces(path)
