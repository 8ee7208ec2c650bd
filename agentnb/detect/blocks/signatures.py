"""What makes two calls and two results the same, and which results say that waiting or trying again is right."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.run.call_window import call_key
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import LOST, CallRecord, WorkflowRound

Key = tuple[str, bytes]

WAITING_TOOLS = frozenset({"poll", "polling", "wait", "sleep", "status", "watch", "monitor", "await", "heartbeat"})
"""Words in the name of a tool that is called again and again by nature."""
LONGEST_NOTE = 300
"""Characters of a result in which words such as "pending" or "503" are looked for: long ones hold them by chance."""
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_PENDING = re.compile(
    r"\b(pending|running|queued|in[ _-]?progress|processing|waiting|starting|"
    r"not (yet )?(ready|finished|done|complete)|\d{1,2} ?%)",
    re.IGNORECASE,
)
_TRANSIENT = re.compile(
    r"\b(408|429|50[0234]|52\d)\b|rate.?limit|too many requests|overloaded|temporar|timed? ?-?out|unavailable|try again|"
    r"connection (reset|refused|aborted|error)|bad gateway",
    re.IGNORECASE,
)
LONGEST_NOTHING = 120
"""Characters of a result that says that there is none: a longer one has something to say."""
_NEGATIONS = ("no ", "not ", "0 ", "without ", "nothing ")
"""One of these is in each text that `_NOTHING` finds: looking for them first is twenty times as fast."""
_NOTHING = re.compile(
    r"\b(no|0|not produce any|without) (output|results?|match(es)?|data|content|rows?|files?|entries|items)\b"
    r"|\bnothing (was )?(found|returned)\b"
)
_EMPTY_VALUES = frozenset({"", "null", "none", "undefined", "[]", "{}", "()", '""', "''"})
_unsorted = msgspec.json.Encoder().encode


def key_of(call: ToolCall, run: RunFacts) -> Key:
    """Return the `call_key` of a call of the last round, without encoding the arguments again if the run has it."""
    executed = run.calls.executed
    if executed and executed[-1].call_id == call.id:
        return executed[-1].key
    return call_key(call)


def key_as_written(call: ToolCall) -> Key:
    """Return the name and the arguments in the order in which the model wrote them."""
    return call.name, _unsorted(call.arguments or {})


def outcome(result: ToolResult | None) -> int:
    """Return a number that is the same for the same result, and another for another."""
    if result is None:
        return 0
    parts = result.parts
    if len(parts) == 1 and type(parts[0]) is Text:
        return hash((parts[0].text, result.is_error))
    return hash((tuple([part.text if type(part) is Text else part.data for part in parts]), result.is_error))  # type: ignore[union-attr]


def is_lost(record: CallRecord) -> bool:
    """Return whether no trace has the result of the call."""
    return record.result is not None and record.result.error_code == LOST


def is_waiting(record: CallRecord) -> bool:
    """Return whether the call waits for something: by the name of its tool, or as the result says that it is not done yet."""
    if not WAITING_TOOLS.isdisjoint([word.lower() for word in _WORDS.findall(record.call.name)]):
        return True
    text = _note(record.result)
    return bool(text and not record.result.is_error and _PENDING.search(text))  # type: ignore[union-attr]


def is_transient_failure(record: CallRecord) -> bool:
    """Return whether the call failed for a reason that may pass: an overloaded server, a lost connection, a time limit."""
    result = record.result
    return result is not None and result.is_error and bool(_TRANSIENT.search(_note(result)))


def returned_nothing(result: ToolResult) -> bool:
    """Return whether a result is empty, or says in a few words that there is none."""
    parts = result.parts
    text = parts[0].text if len(parts) == 1 and type(parts[0]) is Text else "" if not parts else None
    if text is None or len(text) > LONGEST_NOTHING:
        return False
    text = text.strip().lower()
    return text in _EMPTY_VALUES or (any(negation in text for negation in _NEGATIONS) and _NOTHING.search(text) is not None)


def _note(result: ToolResult | None) -> str:
    text = result.text if result is not None else ""
    return text if len(text) <= LONGEST_NOTE else text[:LONGEST_NOTE] if result is not None and result.is_error else ""


def shown(call: ToolCall) -> dict[str, Any]:
    """Return a call as evidence."""
    return {"tool": call.name, "arguments": call.arguments}


def step_key(one: WorkflowRound, *, with_results: bool) -> tuple[Any, ...]:
    """Return what makes two rounds the same: their calls, and their results if asked."""
    return tuple([(call_key(record.call), outcome(record.result) if with_results else 0) for record in one.records])
