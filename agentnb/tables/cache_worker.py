"""Entry point of a worker process, which reads a `Share` into parts and prints these as JSON."""

from __future__ import annotations

import pickle
import sys

import msgspec

from agentnb.settings import KERNEL, Key
from agentnb.tables.cache_shares import Share
from agentnb.tables.runs_table import WITH_HIDDEN
from agentnb.tables.table_cache import TableCache
from agentnb.tables.table_catalogue import OF_RUNS

TABLES = {**OF_RUNS, WITH_HIDDEN.name: WITH_HIDDEN}


def answer(question: bytes) -> None:
    """Read the share in ``question``, which is pickled. Exits with an error if it is from another version of agentnb."""
    share: Share = pickle.loads(question)
    for text in share.secrets:
        Key("", text, KERNEL)
    cache = TableCache(share.home, share.kind, TABLES[share.table], share.files)
    if cache.made_by != share.made_by:
        sys.exit(1)
    sys.stdout.buffer.write(msgspec.json.encode(cache.write_parts()))
