"""Sample files of benchmarks and coding agents, and the facts they are compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentnb import Run, load_traces
from agentnb.core.messages import ToolCall
from agentnb.core.run.rounds import CallRecord
from agentnb.interchange.files import Runs

FILES = Path(__file__).parent / "files"


def loaded(name: str) -> Any:
    """Load the JSON of a sample file."""
    return json.loads((FILES / name).read_text("utf-8"))


def runs_of(path: Path, data: Any, *, strict: bool = True) -> Runs:
    """Read the runs of a file with this data; a tuple of records becomes JSON Lines."""
    text = "".join(json.dumps(one) + "\n" for one in data) if isinstance(data, tuple) else json.dumps(data)
    path.write_text(text, encoding="utf-8")
    return load_traces(path, strict=strict)


def records(run: Run) -> list[CallRecord]:
    """Return the calls of a run."""
    return [record for round_ in run.rounds for record in round_.records]


def calls(run: Run) -> list[ToolCall]:
    return [record.call for record in records(run)]


def results(run: Run) -> list[tuple[str, str | None]]:
    """Return the text and error code of each result."""
    return [(record.result.text, record.result.error_code) for record in records(run) if record.result is not None]


def recorded(run: Run) -> dict[str, Any]:
    """Return the metadata that the run keeps of its record."""
    found: dict[str, Any] = run.settings["recorded"]
    return found


def said(run: Run) -> list[tuple[str, str, str]]:
    """Return role, author and text of each message, without results."""
    return [(message.role, message.author, message.text) for message in run.messages if message.role != "tool"]
