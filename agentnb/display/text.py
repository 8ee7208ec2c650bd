"""A run as plain text: for terminals, nbconvert and whoever reads the saved file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentnb.core.rounds import CallRecord, WorkflowRound
from agentnb.core.run import Run
from agentnb.display import wording
from agentnb.display.asides import asides

ROUNDS_WHILE_RUNNING = 12
"""Rounds that are shown of a run that is going on; the finished run shows all."""
LINE = 110
"""Characters of a line that shows a result."""
MOST_READ = 10_000
"""Characters of a text that its first words are looked for in."""


def run_text(run: Run, *, streaming: str = "", last_text: bool = True) -> str:
    """The whole run, a few lines a round. ``last_text=False`` leaves out the answer, for where it is shown beside."""
    lines = [f"{wording.chip(run)}: {', '.join(wording.meta(run))}"]
    first = max(0, len(run.rounds) - ROUNDS_WHILE_RUNNING) if run.should_continue else 0
    if first:
        lines.append(wording.counted(first, "earlier round"))
    rounds = wording.as_left(run)
    for one in rounds[first : len(rounds) if last_text else -1]:
        lines += round_lines(one, run.settings)
    if not last_text and rounds:
        lines += round_lines(rounds[-1], run.settings, with_text=bool(rounds[-1].records))
    if streaming:
        lines.append(f"     {wording.first_line(wording.clean(streaming[:MOST_READ]), LINE)}")
    lines += [f"  {line}" for line in wording.todo_lines(run)]
    lines += wording.question_lines(run)
    if run.waiting and run.should_continue:
        lines.append("Answer it: %agent answer TEXT")
    lines += [f"Note: {note}" for note in wording.notes(run)]
    if ending := wording.ending(run):
        lines.append(ending)
    return "\n".join(lines)


def round_lines(one: WorkflowRound, settings: Mapping[str, Any] | None = None, *, with_text: bool = True) -> Iterator[str]:
    """A round of a run with these settings: what the model said, and its calls."""
    number = f"{one.index + 1:>3}  "
    for line in asides(one, settings):
        if line.at_once:
            yield f"{number}[{line.text}]"
            number = "     "
    if with_text and one.text.strip():
        yield number + wording.first_line(wording.clean(one.text[:MOST_READ]), LINE)
        number = "     "
    for record in one.records:
        yield number + call_line(record)
        number = "     "


def call_line(record: CallRecord) -> str:
    """A call and how it ended, on one line."""
    shown = f"{wording.clean(record.call.name)}({wording.arguments(record, 60)})"
    result = wording.first_line(wording.clean(record.result.text[:MOST_READ]), LINE - 40) if record.result else ""
    took = f", {wording.duration(record.seconds)}" if record.seconds else ""
    return f"{shown}  {wording.outcome(record)}{took}" + (f"  → {result}" if result else "")
