"""agentnb in the bench of its peers: every event in a log on disk before anybody is told."""

import importlib.util
import tempfile
from pathlib import Path

from agentnb.store.store import Store

_spec = importlib.util.spec_from_file_location("bench_agentnb_in_memory", Path(__file__).with_name("agentnb.py"))
_in_memory = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_in_memory)


class Adapter(_in_memory.Adapter):
    VENV, DISTS, MODULE = "agentnb", [], "agentnb"
    NOTES = _in_memory.Adapter.NOTES | {"J1": "agentnb_log: one JSON Lines file a run, one write an event"}

    def __init__(self):
        self._store = Store(tempfile.mkdtemp(prefix="agentnb-bench-"))

    def store(self):
        return self._store
