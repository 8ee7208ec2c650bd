"""The MAD and MASFT data sets: traces of agent teams, annotated with failure modes.

A MAD record has the trace as text (either JSON or a log) and annotations as a Python literal. A MASFT record has the trajectory
and a note. Failure modes are kept by name, since their codes differ between annotation rounds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import msgspec

from agentnb.detect.run import Run
from agentnb.interchange.formats.team_logs import take_conversations, take_log, take_turns
from agentnb.interchange.trace_file import TraceFile

NAME = "mad"
TITLE = "record of MAD or MASFT"
RECORDS_END = "nothing"
_MAD, _MASFT = ("mas_name", "trace"), ("problem_statement", "trajectory")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    first = file.first_record
    if isinstance(first, dict) and any(first.keys() >= {*keys} for keys in (_MAD, _MASFT)):
        return ""
    return f"its records have neither {' and '.join(_MAD)}, nor {' and '.join(_MASFT)}"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each record."""

    def read_one(position: str, record: dict[str, Any]) -> Run:
        trace = _decode_trace(record["trace"]) if "trace" in record else record
        task = record.get("trace_id", record.get("instance_id", ""))
        recorded = {name: value for name, value in record.items() if name not in ("trace", "trajectory", "annotations")}
        if isinstance(trace, dict) and trace is not record:
            recorded["trace"] = {name: value for name, value in trace.items() if name not in ("trajectory", "content")}
        if "annotations" in record:
            recorded["annotations"] = _literal(record["annotations"])
        writer = file.writer(
            NAME,
            position,
            task=str(task),
            benchmark=record.get("benchmark_name"),
            agent=str(record.get("mas_name") or "team"),
            settings={"recorded": recorded},
        )
        if isinstance(trace, str):
            take_log(writer, trace, "")
            return writer.finish_without_end()
        trajectory = trace["trajectory"] if "trajectory" in trace else trace["content"]
        prompt = _join_lines(trace.get("problem_statement", trace.get("prompt") or ""))
        if isinstance(trajectory, dict):
            take_conversations(writer, trajectory, prompt)
        elif isinstance(trajectory, list) and all(isinstance(turn, dict) for turn in trajectory):
            take_turns(writer, trajectory, prompt)
        else:
            take_log(writer, _join_lines(trajectory), prompt)
        return writer.finish_without_end()

    yield from file.each(file.positioned_records(), read_one)


def _join_lines(text: Any) -> str:
    """Return a text, joining it if it is a list of lines."""
    return "\n".join(text) if isinstance(text, list) else str(text)


def _decode_trace(trace: Any) -> Any:
    """Return the JSON object in a text or, if there is none, the text itself."""
    try:
        decoded = msgspec.json.decode(trace)
    except (msgspec.DecodeError, UnicodeError, TypeError):
        return trace
    return decoded if isinstance(decoded, dict) else trace


def _literal(text: Any) -> Any:
    """Parse a Python literal without evaluating code; return other text unchanged."""
    if not isinstance(text, str):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
