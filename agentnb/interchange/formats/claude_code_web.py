"""Claude Code sessions on the web: a document with ``loglines``."""

from __future__ import annotations

from collections.abc import Iterator

from agentnb.detect.run import Run
from agentnb.interchange.formats import claude_code
from agentnb.interchange.trace_file import TraceFile

NAME = "claude_code_web"
TITLE = "session of Claude Code on the web"
RECORDS_END = "as in `claude_code`"


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    lack = file.lacks("loglines", kind="json")
    return lack or ("" if isinstance(file.document["loglines"], list) else "its loglines must be a list")


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the session, followed by those of its sub-agents."""
    yield from claude_code.runs_of(file, enumerate(file.document["loglines"], 1), NAME)
