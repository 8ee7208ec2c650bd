"""Gaps in foreign traces, how often each occurs, and the sentences that report how they were filled."""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias

Gap: TypeAlias = Literal[
    "model",
    "prompt",
    "reply",
    "blank message",
    "system message",
    "missing id",
    "repeated id",
    "name",
    "arguments",
    "no result",
    "second result",
    "no call",
    "tools",
    "zone",
    "time",
]
NO_PROMPT = "(The trace has no prompt.)"
NO_RESULT = "The trace has no result of this call. Whether it took effect is not known."
FILLED = "Filled in what the trace lacks."
"""Start of the warning that lists the filled gaps."""
_ONCE: dict[str, str] = {
    "model": "The model has no name and is called unknown.",
    "prompt": "The prompt is missing: a placeholder was added.",
    "reply": "The trace has no model reply.",
    "tools": "The trace does not describe its tools: the called tools are listed by name.",
}
_COUNTED: dict[str, tuple[str, str]] = {
    "blank message": ("1 blank message was left out.", "{} blank messages were left out."),
    "system message": (
        "1 later system message became a message from system.",
        "{} later system messages became messages from system.",
    ),
    "missing id": ("1 call had no id and got one.", "{} calls had no id and got one."),
    "repeated id": (
        "1 call repeated the id of an earlier call and got a new one.",
        "{} calls repeated the ids of earlier calls and got new ones.",
    ),
    "name": ("1 call had no tool name: the tool is called unknown.", "{} calls had no tool name: the tool is called unknown."),
    "arguments": ("1 call had arguments that are not a JSON object.", "{} calls had arguments that are not a JSON object."),
    "no result": (
        "1 call has no result: a placeholder was added.",
        "{} calls have no result: placeholders were added.",
    ),
    "second result": ("1 result was duplicated.", "{} results were duplicated."),
    "no call": (
        "1 result had no call: a call without arguments was added.",
        "{} results had no calls: calls without arguments were added.",
    ),
    "zone": ("1 time had no time zone and is treated as UTC.", "{} times had no time zone and are treated as UTC."),
    "time": ("1 time was invalid and was left out.", "{} times were invalid and were left out."),
}


def describe_gaps(gaps: Counter[Gap]) -> list[str]:
    """Return a sentence for each kind of gap, in the order listed above."""
    once = [sentence for gap, sentence in _ONCE.items() if gap in gaps]
    counts = {gap: count for gap, count in gaps.items() if count}
    counted = [
        singular if counts[gap] == 1 else plural.format(f"{counts[gap]:,}")
        for gap, (singular, plural) in _COUNTED.items()
        if gap in counts
    ]
    return once + counted
