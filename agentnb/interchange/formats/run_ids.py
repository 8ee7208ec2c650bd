"""Ids of runs and their nested runs, which refer to their parent by id."""

from __future__ import annotations

import hashlib
import re

from agentnb.core.messages import encodable
from agentnb.interchange.trace_file import TraceFile

_SOUND = re.compile(r"[A-Za-z0-9_-]{1,60}\Z")


def stable_id(file: TraceFile, *parts: object) -> str:
    """Return an id that is the same every time the file is read. ``parts``: values that distinguish the run within the file."""
    name = file.name.replace("\\", "/").rpartition("/")[2]
    identity = "\0".join(encodable(str(part)) for part in (name, *parts))
    return f"trace-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def nested_id(parent: str, recorded: object, number: int) -> str:
    """Return the id of a nested run: the parent's id followed by the recorded id or, if that is invalid, by the number."""
    name = str(recorded or "")
    return f"{parent[:60]}-{name if _SOUND.match(name) else number}"
