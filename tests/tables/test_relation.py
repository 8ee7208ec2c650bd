"""Tables as DuckDB relations: the rows of the data frames, and a plain error for unsupported operations."""

from __future__ import annotations

import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest
from generated_runs import BY_HAND, really_run
from run_builder import called

from agentnb import Agent, Store, tables
from agentnb.errors import NotAvailable, SettingsError, StoreError
from agentnb.models import ScriptedModel
from agentnb.store.folder_cache import HOME
from agentnb.tables.table_catalogue import OF_RUNS

module = sys.modules["agentnb.tables.relation"]  # the package exports the function under this name


def test_relation_has_the_rows_and_columns_of_its_table(tmp_path: Path, subtests: pytest.Subtests) -> None:
    store = Store(tmp_path / "runs")
    for plan in BY_HAND.values():
        really_run(plan, store)
    for name in OF_RUNS:
        with subtests.test(name):
            frame = getattr(tables, name)(store, cache=False)
            relation = tables.relation(name, store)
            assert relation.columns == [*frame.columns]
            plain = frame.astype(object).where(frame.notna(), None)
            found = [tuple(row.values()) for row in relation.to_arrow_table().to_pylist()]
            assert sorted(map(_plain, found)) == sorted(map(_plain, plain.itertuples(index=False, name=None)))


def _plain(row: tuple[object, ...]) -> list[str]:
    return [str(value.astimezone(UTC)) if isinstance(value, datetime) else str(value) for value in row]


def test_relations_are_joined_by_their_names_in_sql(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    for prompt in ("one", "two"):
        Agent(ScriptedModel(["Done."])).run_sync(prompt, store=store)
    runs, rounds = tables.relation("runs", store), tables.relation("rounds", store)
    found = duckdb.sql("select prompt, count(*) from runs join rounds using (run_id) group by prompt order by prompt")
    assert found.fetchall() == [("one", 1), ("two", 1)]
    assert (runs.shape[0], rounds.shape[0]) == (2, 2)


def test_relation_reflects_a_growing_log_and_survives_changes(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    Agent(ScriptedModel(["Done."])).run_sync("first", store=store)
    kept = []

    async def look() -> str:
        """Looks at the runs so far."""
        kept.append(tables.relation("runs", store))
        return "seen"

    Agent(ScriptedModel([called("look"), "Done."]), tools=[look]).run_sync("second", store=store)
    tables.relation("runs", store)
    assert kept[0].order("run_id").project("prompt, status").fetchall() == [("first", "completed"), ("second", "running")]
    assert tables.relation("runs", store).filter("status = 'completed'").shape[0] == 2


def test_empty_folder_has_a_relation_without_rows(tmp_path: Path) -> None:
    relation = tables.relation("tool_calls", tmp_path)
    assert relation.fetchall() == []
    assert relation.columns == [*tables.tool_calls(tmp_path, cache=False).columns]


def test_damaged_cache_part_is_rebuilt(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    Agent(ScriptedModel(["Done."])).run_sync("first", store=store)
    tables.relation("runs", store)
    (part,) = (store.folder / HOME).rglob("*.parquet")
    part.write_bytes(b"x" * part.stat().st_size)
    assert tables.relation("runs", store).shape[0] == 1


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "no_trace.json").write_text("{}")
    for _ in range(2):
        with pytest.warns(UserWarning, match=r"no_trace\.json is not in a format"):
            assert tables.relation("runs", tmp_path).fetchall() == []


def test_relation_error_names_the_alternative(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    Agent(ScriptedModel(["Done."])).run_sync("first", store=Store(tmp_path))
    (log,) = tmp_path.glob("*.jsonl")
    with subtests.test("no such table"), pytest.raises(SettingsError, match="messages"):
        tables.relation("message", tmp_path)
    with subtests.test("groups of runs"), pytest.raises(SettingsError, match="no table 'patterns' for a relation"):
        tables.relation("patterns", tmp_path)
    with subtests.test("a file"), pytest.raises(StoreError, match=r"is not a folder.*tables\.runs"):
        tables.relation("runs", log)
    with subtests.test("a folder that cannot be written"), pytest.raises(StoreError, match="Cannot write the cache"):
        (tmp_path / HOME).write_text("a file of somebody else")
        monkeypatch.setattr(module, "MAX_MISSING_BYTES", 10)
        tables.relation("runs", tmp_path)
    with subtests.test("no DuckDB"), pytest.raises(NotAvailable, match=r"duckdb.*agentnb\[scale\]"):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
        tables.relation("runs", tmp_path)


def test_few_logs_that_cannot_be_cached_are_read_into_memory(tmp_path: Path) -> None:
    Agent(ScriptedModel(["Done."])).run_sync("first", store=Store(tmp_path))
    (tmp_path / HOME).write_text("a file of somebody else")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tables.relation("runs", tmp_path).project("prompt").fetchall() == [("first",)]
