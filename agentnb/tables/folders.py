"""Tables of complete folders: from the cache beside the logs for large folders, otherwise from the logs themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.advice import Install
from agentnb.errors import NotAvailable
from agentnb.interchange.files import RunSource, SourceFile, files_of, folder_of, warn_of
from agentnb.interchange.trace_file import Problem
from agentnb.store.folder_cache import stamp_of
from agentnb.store.store import Store
from agentnb.tables import arrow
from agentnb.tables.cache_parts import Part
from agentnb.tables.table_cache import CacheState, TableCache
from agentnb.tables.table_values import Table, Values, read_frame

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MANY_FILES, MANY_BYTES = 200, 50_000_000
"""Minimum number of files, or of their total bytes, for a folder to be cached by default: reading less takes under a second."""


def frame_of(source: RunSource, table: Table[Any], cache: bool | None = None) -> pd.DataFrame:
    """Return the table of a source.

    ``cache``: True caches the table of a folder or a store beside its logs, False reads the logs; by default, large
    folders are cached if pyarrow is installed. Raises `NotAvailable` for ``cache=True`` if pyarrow is missing.
    """
    kept = None if cache is False else cache_of(source, table, always=bool(cache))
    for _ in range(2):  # once more after discarding a damaged cache
        if kept is None:
            break
        state = kept.current()
        if not state.parts or len(state.missing) > len(kept.files) // 2:  # such as while another process builds it
            break
        try:
            return _frame(kept, state, table)
        except arrow.Damaged:
            kept.discard()
    return read_frame(source, table)


def cache_of(source: RunSource, table: Table[Any], *, always: bool) -> TableCache | None:
    """Return the cache of a folder or a store. Returns None for other sources and, unless ``always``, for small folders."""
    if find_spec("pyarrow") is None:
        if always:
            raise NotAvailable("The table cache needs the pyarrow package", Install("agentnb[scale]", lead="Install it"))
        return None
    if not isinstance(source, Store | str | Path) or (folder := folder_of(source)) is None:
        return None
    files = [*files_of(source)]
    if not always and len(files) < MANY_FILES and not _are_large(file.name for file in files):
        return None
    return TableCache(folder, "store" if isinstance(source, Store) else "folder", table, files)


def _are_large(names: Iterable[str]) -> bool:
    stamps = map(stamp_of, names)
    return sum(stamp.size for stamp in stamps if stamp is not None) >= MANY_BYTES


def _frame(cache: TableCache, state: CacheState, table: Table[Any]) -> pd.DataFrame:
    """Return the table with its rows in the order of the files. Raises `Damaged` if a part is damaged."""
    import pyarrow as pa

    schema = arrow.schema_of(table.columns)
    places = {name: position for position, name in enumerate(cache.files)}
    pieces: list[tuple[int, pa.Table]] = []
    problems: list[tuple[int, Problem]] = []
    for part in state.parts:
        rows = arrow.read(state.folder / part.name, schema, part.rows)
        pieces += [(position, rows.slice(first, count)) for position, first, count in _stretches(part, places)]
        problems += [(places[entry.name], problem) for entry in part.entries for problem in entry.problems]
    for name in state.missing:
        rows, new_problems = read_missing(cache.files[name], table, schema)
        pieces.append((places[name], rows))
        problems += [(places[name], problem) for problem in new_problems]
    warn_of([problem for _, problem in sorted(problems, key=itemgetter(0))])
    return arrow.to_frame(pa.concat_tables([rows for _, rows in sorted(pieces, key=itemgetter(0))]), table.columns)


def read_missing(file: SourceFile, table: Table[Any], schema: pa.Schema) -> tuple[pa.Table, list[Problem]]:
    """Return the rows of a file that the cache lacks, and its problems."""
    problems: list[Problem] = []
    values = Values(table.columns)
    for run in file.runs(problems, table.fold):
        values.add(table.rows(run))
    return arrow.take_rows(values, table.columns, schema), problems


def _stretches(part: Part, places: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges of a part's files that are consecutive in the folder: the first file's position, the first row and the
    number of rows.
    """
    begin = first = end = 0
    following: int | None = None
    for entry in part.entries:
        position = places[entry.name]
        if position != following:
            if following is not None:
                yield begin, first, end - first
            begin, first = position, end
        end += entry.rows
        following = position + 1
    if following is not None:
        yield begin, first, end - first
