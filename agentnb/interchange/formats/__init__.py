"""Trace formats, one module each, with `NAME`, `TITLE`, `sniff` and `read`. A file is read by the first format that fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.formats import (
    agentnb_log,
    anthropic_messages,
    api_cassettes,
    atif,
    claude_code,
    claude_code_web,
    claude_stream,
    codex,
    copilot_cli,
    docker_agent,
    gemini_cli,
    inspect_log,
    kimi_cli,
    kimi_code,
    kimi_wire,
    langgraph,
    langsmith,
    mad,
    magentic,
    mini_swe_agent,
    openai_agents,
    openai_chat,
    openai_responses,
    openhands,
    openhands_v1,
    openinference,
    otel_genai,
    parquet,
    sam,
    saved_page,
    sharegpt,
    swe_agent,
    tau2_bench,
    tau_bench,
)
from agentnb.interchange.trace_file import KIND_WORDS, MALFORMED, Kind, TraceFile
from agentnb.store.bounds import BoundExceeded


class Format(Protocol):
    """A module that reads one format."""

    NAME: str
    """The format's name in `Origin` and in tables."""
    TITLE: str
    """The format's name in messages."""
    RECORDS_END: str
    """The part of its files that records the end of a run, or `nothing`."""

    def sniff(self, file: TraceFile) -> str:
        """Return an empty string if the file has this format, otherwise what is missing, as the end of a sentence."""

    def read(self, file: TraceFile) -> Iterator[Run]:
        """Yield the runs in the file, in file order. Malformed records become problems of the file."""


FORMATS: tuple[Format, ...] = (
    agentnb_log,
    saved_page,
    parquet,
    openinference,
    otel_genai,
    claude_code,
    claude_code_web,
    claude_stream,
    codex,
    copilot_cli,
    gemini_cli,
    kimi_cli,
    kimi_code,
    kimi_wire,
    docker_agent,
    sam,
    sharegpt,
    mad,
    magentic,
    inspect_log,
    atif,
    langgraph,
    openhands,
    openhands_v1,
    mini_swe_agent,
    swe_agent,
    tau2_bench,
    tau_bench,
    langsmith,
    openai_agents,
    api_cassettes,
    openai_responses,
    anthropic_messages,
    openai_chat,
)
"""All formats, more specific ones first."""
_JSON: frozenset[Kind] = frozenset({"json", "lines"})
_KINDS: dict[str, frozenset[Kind]] = {
    saved_page.NAME: frozenset({"html"}),
    parquet.NAME: frozenset({"parquet"}),
    docker_agent.NAME: _JSON | {"sqlite"},
    inspect_log.NAME: _JSON | {"zip"},
    openhands_v1.NAME: _JSON | {"zip"},
    api_cassettes.NAME: _JSON | {"text"},
}
"""The file kinds of each format; JSON for all others."""


def is_superseded(file: TraceFile) -> bool:
    """True if another file in the folder holds the same runs in more detail, so that reading the folder skips this one."""
    return kimi_wire.is_superseded(file)


class UnknownFormat(TraceError):
    """Raised if a file has no known format."""


def format_of(file: TraceFile) -> Format:
    """Return the format of a file. Raises `UnknownFormat`, saying what was missing for each format."""
    missed = []
    for candidate in FORMATS:
        try:
            fits = file.kind in _KINDS.get(candidate.NAME, _JSON)
            lack = candidate.sniff(file) if fits else f"it is {KIND_WORDS[file.kind]}"
        except BoundExceeded:
            raise
        except MALFORMED as error:  # fields may have values of any type
            lack = f"its first records are malformed ({type(error).__name__}: {error})"
        if not lack:
            return candidate
        missed.append(f"{candidate.NAME}: {lack}")
    raise UnknownFormat(f"{file.name} is not in a format that agentnb reads", "Tried " + "; ".join(missed))
