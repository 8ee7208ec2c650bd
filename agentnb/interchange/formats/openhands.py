"""Trajectories of OpenHands: an ``output.jsonl``, or events exported from its web page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.detect.run import Run
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.formats.endings import recorded_settings
from agentnb.interchange.formats.message_content import as_list, str_at, value_at
from agentnb.interchange.formats.openhands_events import read_events
from agentnb.interchange.trace_file import TraceFile

NAME = "openhands"
TITLE = "trajectory of OpenHands"
RECORDS_END = "the state, `finish`, an error, the last `finish_reason`"
_RECORDED = (
    "error",
    "success",
    "comment_success",
    "result_explanation",
    "test_result",
    "git_patch",
    "base_commit",
    "issue_type",
)
_ASSESSED = ("success", "resolved")
"""Fields that record success, in the issue resolver and in evaluations."""
SNIFFED_EVENTS = 20
"""Number of initial events used to recognize a history."""
_KINDS = {"action", "observation"}


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    first = file.first
    events = first.get("history") if isinstance(first, dict) else first
    if isinstance(first, dict) and file.kind == "lines" and not events:
        return "" if isinstance(events, list) and "metrics" in first else "it has no history of events"
    if not isinstance(events, list) or not events:
        return "it has no history of events"
    matches = sum(map(_is_event, events[:SNIFFED_EVENTS]))  # single events may be damaged
    return "" if 2 * matches > len(events[:SNIFFED_EVENTS]) else "its history has no actions and observations"


def _is_event(value: Any) -> bool:
    """True if this is an event, or a pair of an action and an observation."""
    if isinstance(value, list) and len(value) == 2:
        return all(_is_event(part) for part in value)
    if not isinstance(value, dict) or "kind" in value:  # newer versions have a kind
        return False
    return bool(_KINDS & value.keys()) and (_is_flat(value) or _is_nested(value))


def _is_nested(event: dict[str, Any]) -> bool:
    return isinstance(event.get("args"), dict) or isinstance(event.get("extras"), dict) or "source" in event


def _is_flat(event: dict[str, Any]) -> bool:
    """True if this is an event from an early version, with its fields at the top level."""
    return bool(event.keys() & {"content", "command", "code", "thought", "outputs", "path", "url", "agent_state"})


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each record, followed by the runs of agents it delegated to."""
    if file.kind == "lines":
        for number, record in file.records(one_by_one=True):
            with file.guard(f"line {number}"):
                yield from _runs(file, f"line {number}", record)
    else:
        document = file.document
        with file.guard():
            yield from _runs(file, "", document if isinstance(document, dict) else {"history": document})


def _runs(file: TraceFile, position: str, record: dict[str, Any]) -> Iterator[Run]:
    metrics, metadata = record.get("metrics") or {}, record.get("metadata") or {}
    config = metadata.get("llm_config") or {}
    settings = recorded_settings(
        record,
        *_RECORDED,
        accumulated_cost=metrics.get("accumulated_cost"),
        max_iterations=metadata.get("max_iterations"),
        dataset=metadata.get("dataset"),
    )
    events = [event for item in record["history"] for event in as_list(item)]
    runs = read_events(
        file,
        events,
        {"format_name": NAME, "position": position, "task": _task(record), "settings": settings},
        prompt=record.get("instruction"),
        model=str_at(config, "model"),
        agent=str(metadata.get("agent_class") or "agent"),
        metrics=metrics,
        error=record.get("error"),
        assessed={name: value for name in _ASSESSED if isinstance(value := record.get(name), bool)} | _test_verdict(record),
    )
    yield from with_nested_usage(runs)


def _test_verdict(record: dict[str, Any]) -> dict[str, bool]:
    """Return the verdict of the benchmark's tests, if they were run."""
    for path in (("report",), ("test_result", "report")):
        if isinstance(resolved := value_at(record, *path, "resolved"), bool):
            return {"resolved": resolved}
    return {}


def _task(record: dict[str, Any]) -> str:
    """Return the task id, taken from the benchmark or the issue to resolve."""
    issue = record.get("issue")
    if isinstance(issue, dict):
        return f"{issue.get('owner', '')}/{issue.get('repo', '')}#{issue.get('number', '')}"
    return str_at(record, "instance_id")
