"""The words a run is told in, for text and HTML alike."""

from __future__ import annotations

import re

import msgspec

from agentnb.core.rounds import CallRecord
from agentnb.core.run import Run
from agentnb.core.usage import Usage

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Terminal escapes and marks that turn the direction of text: nothing a model or tool says may steer a display."""

CHIPS = {
    "running": "Running",
    "waiting_on_user": "Paused",
    "completed": "Done",
    "limited": "Limit reached",
    "stopped": "Stopped",
    "cancelled": "Cancelled",
    "interrupted": "Interrupted",
    "failed": "Failed",
}
MARKS = {"running": "…", "ok": "✓", "failed": "✗", "stopped": "■"}


def clean(text: str) -> str:
    """The text without control characters; lines and tabs stay."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def cut(text: str, most: int) -> str:
    """At most so many characters, with the number of those left out."""
    return text if len(text) <= most else f"{text[:most].rstrip()} … ({len(text) - most:,} more characters)"


def first_line(text: str, most: int) -> str:
    """Its first words, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def chip(run: Run) -> str:
    """The state in a word or two; while a tool runs, its name."""
    if run.status == "running" and run.open_round is not None:
        open_calls = [record.call.name for record in run.open_round.records if record.result is None]
        return f"Executing {', '.join(dict.fromkeys(open_calls))}" if open_calls else "Thinking"
    return CHIPS[run.status] if run.rounds or run.status != "running" else "Starting"


def meta(run: Run) -> list[str]:
    """What it took, a few words each."""
    calls = sum(len(one.records) for one in run.rounds)
    parts = [counted(count, noun) for count, noun in ((len(run.rounds), "round"), (calls, "tool call")) if count]
    if failed := failures(run):
        parts.append(f"{failed:,} failed")
    if run.ended_at is not None:
        parts.append(duration(run.seconds))
    return [*parts, *tokens_and_cost(run.usage), clean(run.model)]


def failures(run: Run) -> int:
    """How many calls failed; those that the person's stop ended did not."""
    return sum(state(record) == "failed" for one in run.rounds for record in one.records)


def tokens_and_cost(usage: Usage) -> list[str]:
    """Tokens and money, as far as they are known."""
    parts = []
    if count := (usage.input or 0) + (usage.output or 0):
        parts.append(f"{'about ' if usage.estimated else ''}{thousands(count)} tokens")
    if usage.cost:
        parts.append(f"${usage.cost:.4f}")
    return parts


def counted(count: int, noun: str) -> str:
    """``3 rounds``, ``1 round``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def thousands(count: int) -> str:
    """``812``, ``8.4k``, ``1.2M``."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def duration(seconds: float) -> str:
    """``38 ms``, ``2.4 s``, ``3:07``."""
    if seconds < 0.0005:
        return "under 1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1_000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f}:{seconds % 60:02.0f}"


def arguments(record: CallRecord, most: int) -> str:
    """The arguments of a call on one line: ``name=JSON``."""
    given = record.call.arguments if isinstance(record.call.arguments, dict) else {"arguments": record.call.arguments}
    pairs = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in given.items())
    return first_line(clean(", ".join(pairs)), most)


def state(record: CallRecord) -> str:
    """running, ok, failed or stopped."""
    if record.result is None:
        return "running"
    if record.result.error_code == "cancelled":
        return "stopped"
    return "failed" if record.result.is_error else "ok"


def outcome(record: CallRecord) -> str:
    """How a call ended: its mark, and how long it took."""
    kind = state(record)
    code = f" {record.result.error_code}" if record.result is not None and kind == "failed" else ""
    return f"{MARKS[kind]} {kind}{clean(code)}" + (f", {duration(record.seconds)}" if record.seconds else "")


def ending(run: Run) -> str:
    """What the person should know about how it ended, and what to type next; empty when it simply was done."""
    if run.status == "limited" and run.limit is not None:
        return f"Stopped at {run.limit.limit} = {run.limit.value:g}. Go on with %%agent --continue"
    if run.status == "failed":
        return clean(str(run.error)) if run.error else "Failed"
    if run.status == "cancelled":
        return "Stopped by you. Everything it had is kept; go on with %%agent --continue"
    if run.status == "interrupted":
        return "Its process ended before the run did. What was logged is here"
    if run.status == "stopped":
        return f"Stopped: {run.stop_reason}"
    return ""
