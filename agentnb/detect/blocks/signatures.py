"""Signatures of calls and results, and the results that justify waiting or a retry."""

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
"""Words in the names of tools that are naturally called repeatedly."""
MAX_NOTE_CHARACTERS = 300
"""Maximum characters searched for words such as "pending" or "503"; longer results may contain them by chance."""
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
MAX_NOTHING_CHARACTERS = 120
"""Maximum characters of a result that means "nothing found"; longer ones have content."""
_NEGATIONS = ("no ", "not ", "0 ", "without ", "nothing ")
"""Each match of `_NOTHING` contains one of these; checking them first is twenty times as fast."""
_NOTHING = re.compile(
    r"\b(no|0|not produce any|without) (output|results?|match(es)?|data|content|rows?|files?|entries|items)\b"
    r"|\bnothing (was )?(found|returned)\b"
)
_EMPTY_VALUES = frozenset({"", "null", "none", "undefined", "[]", "{}", "()", '""', "''"})
_unsorted = msgspec.json.Encoder().encode


def key_of(call: ToolCall, run: RunFacts) -> Key:
    """Return the `call_key` of a call in the last round, reusing the run's key if it has one."""
    executed = run.calls.executed
    if executed and executed[-1].call_id == call.id:
        return executed[-1].key
    return call_key(call)


def key_as_written(call: ToolCall) -> Key:
    """Return the call's name and its arguments in the model's own order."""
    return call.name, _unsorted(call.arguments or {})


def words_of_name(call: ToolCall) -> list[str]:
    """Return the words in the name of a call's tool, in lower case."""
    return [word.lower() for word in _WORDS.findall(call.name)]


def outcome(result: ToolResult | None) -> int:
    """Return a hash of a result's content."""
    if result is None:
        return 0
    parts = result.parts
    if len(parts) == 1 and type(parts[0]) is Text:
        return hash((parts[0].text, result.is_error))
    return hash((tuple([part.text if type(part) is Text else part.data for part in parts]), result.is_error))  # type: ignore[union-attr]


def is_lost(record: CallRecord) -> bool:
    """True if the trace lacks the call's result."""
    return record.result is not None and record.result.error_code == LOST


def is_waiting(record: CallRecord) -> bool:
    """True if the call waits for something: by its tool's name, or because its result says that work is in progress."""
    if not WAITING_TOOLS.isdisjoint(words_of_name(record.call)):
        return True
    text = _note(record.result)
    return bool(text and not record.result.is_error and _PENDING.search(text))  # type: ignore[union-attr]


def is_transient_failure(record: CallRecord) -> bool:
    """True if the call failed for a transient reason: an overloaded server, a lost connection, a timeout."""
    result = record.result
    return result is not None and result.is_error and bool(_TRANSIENT.search(_note(result)))


def returned_nothing(result: ToolResult) -> bool:
    """True if a result is empty, or says in a few words that nothing was found."""
    parts = result.parts
    text = parts[0].text if len(parts) == 1 and type(parts[0]) is Text else "" if not parts else None
    if text is None or len(text) > MAX_NOTHING_CHARACTERS:
        return False
    text = text.strip().lower()
    return text in _EMPTY_VALUES or (any(negation in text for negation in _NEGATIONS) and _NOTHING.search(text) is not None)


def _note(result: ToolResult | None) -> str:
    text = result.text if result is not None else ""
    is_whole = len(text) <= MAX_NOTE_CHARACTERS or (result is not None and result.is_error)
    return text[:MAX_NOTE_CHARACTERS] if is_whole else ""


def call_evidence(call: ToolCall) -> dict[str, Any]:
    """Return a call as evidence."""
    return {"tool": call.name, "arguments": call.arguments}


def step_key(one: WorkflowRound) -> tuple[Any, ...]:
    """Return the key by which rounds are compared: their calls and results."""
    return tuple([(call_key(record.call), outcome(record.result)) for record in one.records])
