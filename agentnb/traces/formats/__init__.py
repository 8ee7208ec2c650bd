"""Trace formats: one module for each, with a `NAME`, a `TITLE`, `sniff` and `read`. The first that fits a file reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.traces.formats import (
    agentnb_log,
    atif,
    inspect_log,
    langgraph,
    mini_swe_agent,
    openai_chat,
    openhands,
    page,
    sam,
    swe_agent,
    tau2_bench,
    tau_bench,
)
from agentnb.traces.trace_file import TraceFile


class Format(Protocol):
    """A module that reads one format."""

    NAME: str
    """The format of `Origin`, as in tables."""
    TITLE: str
    """What it is called in sentences."""

    def sniff(self, file: TraceFile) -> str:
        """Return an empty text if the file is of this format, else what it lacks, as the end of a sentence."""

    def read(self, file: TraceFile) -> Iterator[Run]:
        """Yield the runs of the file, in its order. What is malformed is a `problem` of the file."""


FORMATS: tuple[Format, ...] = (
    agentnb_log,
    page,
    sam,
    inspect_log,
    atif,
    langgraph,
    openhands,
    mini_swe_agent,
    swe_agent,
    tau2_bench,
    tau_bench,
    openai_chat,
)
"""All formats. The more particular a format is, the earlier it stands."""


class UnknownFormat(TraceError):
    """A file is of no known format."""


def format_of(file: TraceFile) -> Format:
    """Return the format of a file; raises `UnknownFormat`, which says what it lacked for each that was tried."""
    missed = []
    for one in FORMATS:
        lack = one.sniff(file)
        if not lack:
            return one
        missed.append(f"{one.NAME}: {lack}")
    raise UnknownFormat(f"{file.name} is of no format that agentnb reads", "Tried " + "; ".join(missed))
