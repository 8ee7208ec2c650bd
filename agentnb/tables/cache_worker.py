"""The main module of a process that reads a `Share` into parts, which it writes to its standard output as JSON."""

from __future__ import annotations

import pickle
import sys

import msgspec

from agentnb.tables.runs_table import WITH_HIDDEN
from agentnb.tables.table_cache import TableCache
from agentnb.tables.table_catalogue import OF_RUNS

if __name__ == "__main__":
    share = pickle.load(sys.stdin.buffer)
    table = {**OF_RUNS, WITH_HIDDEN.name: WITH_HIDDEN}[share.table]
    cache = TableCache(share.home, share.kind, table, share.files)
    if cache.made_by != share.made_by:
        sys.exit("This is another version of agentnb")
    sys.stdout.buffer.write(msgspec.json.encode(cache.write_parts()))
