"""Tables of any size as DuckDB relations, queried in place with limited memory."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.advice import Install
from agentnb.errors import NotAvailable, SettingsError, StoreError, suggest_names
from agentnb.interchange.files import warn_of
from agentnb.store.store import Store
from agentnb.tables import arrow
from agentnb.tables.folders import cache_of, read_missing
from agentnb.tables.table_cache import CacheState, TableCache
from agentnb.tables.table_catalogue import OF_RUNS as TABLES
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import duckdb

MAX_MISSING_BYTES = 256_000_000
"""Maximum bytes of files whose rows are held in memory because the cache lacks them."""


def relation(name: str, source: Store | str | Path) -> duckdb.DuckDBPyRelation:
    """Return a table of a folder or a store as a DuckDB relation on the default connection, with its rows in no particular
    order.

    First creates or renews the cache beside the logs, in bounded memory, waiting for any other process that is doing the same.
    The relation's files are kept for an hour after the logs have changed. Raises `NotAvailable` unless both DuckDB and pyarrow
    are installed, `SettingsError` for an unknown table, `StoreError` if the source is not a folder or the cache is not
    writable.
    """
    if name not in TABLES:
        raise SettingsError(f"There is no table {name!r} for a relation", suggest_names(str(name), TABLES))
    if find_spec("duckdb") is None:
        raise NotAvailable("Relations need the duckdb package", Install("agentnb[scale]", lead="Install it"))
    table = TABLES[name]
    cache = cache_of(source, table, always=True)
    if cache is None:
        raise StoreError(f"{source} is not a folder", f"Tables of other sources: tables.{name}(...)")
    state = cache.current(wait=True)
    if not _is_sound(state, table):
        cache.discard()
        state = cache.current(wait=True)
    return _build_relation(cache, state, table)


def _is_sound(state: CacheState, table: Table[Any]) -> bool:
    schema = arrow.schema_of(table.columns)
    return all(arrow.is_sound(state.folder / part.name, schema, part.rows) for part in state.parts)


def _build_relation(cache: TableCache, state: CacheState, table: Table[Any]) -> duckdb.DuckDBPyRelation:
    import duckdb
    import pyarrow as pa

    schema = arrow.schema_of(table.columns)
    problems = [problem for part in state.parts for entry in part.entries for problem in entry.problems]
    pieces = [schema.empty_table()]
    size = sum(cache.files[name].path.stat().st_size for name in state.missing)
    if size > MAX_MISSING_BYTES:
        raise StoreError(
            f"Cannot write the cache for {len(state.missing):,} files to {state.folder}",
            "Copy the logs to a writable folder with enough disk space",
        )
    for name in state.missing:
        rows, new_problems = read_missing(cache.files[name], table, schema)
        pieces.append(rows)
        problems += new_problems
    warn_of(problems)
    in_memory = duckdb.from_arrow(pa.concat_tables(pieces))
    paths = [str(state.folder / part.name) for part in state.parts if part.rows]
    return duckdb.read_parquet(paths).union(in_memory) if paths else in_memory
