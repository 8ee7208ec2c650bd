"""The result of an undo, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from agentnb.core.messages import ToolCall
from agentnb.display.texts.labels import clean, first_line, pluralize
from agentnb.rerun.undo.undoing import CHANGED, UndoneFile, UndoReport, Why

MAX_CALLS, MAX_CALL = 10, 100
"""Maximum calls listed, and maximum characters of each."""
DONE = {"restore": "Restored", "delete": "Deleted (created by the run)", "none": "Already as before the run"}
WHY: dict[Why, str] = {
    "changed_since": "it has changed since",
    "changed_between": "something else changed it between the run's changes",
    "too_large": "it was too large to copy",
    "run_full": "the copies of this run had reached their size limit",
    "holds_key": "it contained a known key, and agentnb does not copy keys",
    "no_call": "no tool call changed it: not undone",
    "not_allowed": "agentnb does not write there",
    "denied": "a rule of the run denies it",
    "failed": "it could not be written",
}
"""Reasons why changes to a file were not undone."""


def undo_text(report: UndoReport) -> str:
    """Return the files restored and deleted, those left alone and why, and other effects that remain."""
    return "\n".join(clean(line) for line in _lines(report))


def _lines(report: UndoReport) -> Iterator[str]:
    if not report.files:
        nothing = (
            "Nothing is left to undo in run"
            if report.has_changed_files
            else "No file was changed by write_file or edit_file in run"
        )
        yield f"{nothing} {report.run_id}"
    else:
        yield f"Run {report.run_id}:"
        yield from map(_file, report.files)
    if report.foreign:
        yield f"Left out: {pluralize(report.foreign, 'change')} not recorded by your agentnb"
    if report.calls and (report.files or not report.has_changed_files):
        yield from _calls(report.calls)


def _file(file: UndoneFile) -> str:
    name = first_line(file.path, MAX_CALL)
    if file.why_not is None:
        return f"  {DONE[file.action]}: {name}"
    joint = "; its copy from before the run: " if file.why_not in CHANGED else ": "
    why = WHY[file.why_not] + (f"{joint}{file.detail}" if file.detail else "")
    if file.action == "none":
        return f"  Not touched: {name} ({why})"
    return f"  {DONE[file.action]}: {name}, but not its first changes ({why})"


def _calls(calls: tuple[ToolCall, ...]) -> Iterator[str]:
    names = Counter(call.name for call in calls)
    tools = ", ".join(f"{name} ({count})" if len(names) > 1 else name for name, count in names.items())
    yield f"What {tools} did is not undone: {pluralize(len(calls), 'call')}"
    for call in calls[:MAX_CALLS]:
        arguments = msgspec.json.encode(call.arguments).decode() if call.arguments else ""
        yield f"  {first_line(f'{call.name} {arguments}', MAX_CALL)}"
    if len(calls) > MAX_CALLS:
        yield f"  and {len(calls) - MAX_CALLS:,} more"
