"""Nearly identical calls without a useful result: all fail in the same way or return nothing."""

from __future__ import annotations

import re
from collections import deque
from typing import Any, NamedTuple

import msgspec

from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.detect.answer_similarity import both_ends
from agentnb.detect.blocks.detector_bases import Ladder, RoundDetector, ladder_of, severity_at
from agentnb.detect.blocks.signatures import call_evidence, is_transient_failure, is_waiting, returned_nothing
from agentnb.detect.detector import Finding
from agentnb.detect.tool_failures import is_failure

COMMANDS = frozenset({"command", "cmd", "code", "script"})
"""Arguments that hold the command or code to run."""
ASIDES = frozenset({"description", "explanation", "thought", "timeout", "security_risk"})
"""Arguments that do not change a command's effect; they are not compared."""
MAX_COMPARED = 1_000
"""Maximum number of characters of a call's arguments to compare, half of them at the end."""
MAX_ERROR = 500
"""Maximum number of characters of an error to compare."""
MAX_REMEMBERED_ROWS = 16
"""Maximum number of streaks to remember."""
_WORDS = re.compile(r"\w+")
_LETTERS = re.compile(r"[^\W\d_]+")


class _Words(NamedTuple):
    """The sets of words by which two calls and their results are compared."""

    call: frozenset[str]
    letters: frozenset[str]
    """Words of the call that an error may quote, without digits and underscores."""
    error: frozenset[str] | None
    """Words of the error, without numbers, or None for a call that returned nothing."""


class _Row:
    """Nearly identical calls to a tool: the first and the last one, with their rounds."""

    __slots__ = ("count", "first", "first_words", "last", "last_words", "tool")

    def __init__(self, tool: str, words: _Words, index: int) -> None:
        self.tool, self.count, self.first, self.last = tool, 1, index, index
        self.first_words = self.last_words = words


class NearRepeat(RoundDetector):
    """Nearly the same call ``times`` times, each of which failed in the same way or returned nothing.

    Two calls to a tool are nearly the same if the words of one are a subset of the other's and at least ``alike`` per cent of
    them; punctuation and descriptions of a command do not count. Each call is compared with the first and the last of its
    streak. Two failures are the same if their words are, ignoring numbers and words quoted from the calls. Any other result
    ends all streaks. A new call that returned nothing ends only streaks of failures: it may have fixed the failure. Waiting
    calls and transient failures are skipped.
    """

    rule = "near_repeat"

    def __init__(self, times: int | Ladder = 3, *, alike: float = 50.0) -> None:
        self.times, self.alike = ladder_of(times, "nudge"), alike
        self._rows: deque[_Row] = deque(maxlen=MAX_REMEMBERED_ROWS)

    def spoke(self, message: Message) -> None:
        """End all streaks."""
        self._rows.clear()

    def check_round(self, one: WorkflowRound, run: RunFacts) -> tuple[Finding, ...]:
        """Process the calls of a round. Near-identical calls within one reply count once."""
        findings: tuple[Finding, ...] = ()
        for record in one.records:
            result = record.result
            if record.role != "work" or result is None:
                continue
            if result.is_error or returned_nothing(result):
                findings = self._take(record, result, one.index) or findings
            elif self._rows:
                self._rows.clear()
        return findings

    def _take(self, record: CallRecord, result: ToolResult, index: int) -> tuple[Finding, ...]:
        failed = result.is_error
        if failed and not is_failure(record):
            return ()  # blocked, cut off or not recorded
        if is_waiting(record) or is_transient_failure(record):
            return ()
        words = _words_of(record.call, result.text[:MAX_ERROR] if failed else None)
        row = self._row_of(record.call.name, words)
        if row is None:
            if not failed:
                self._rows = deque([row for row in self._rows if row.first_words.error is None], MAX_REMEMBERED_ROWS)
            self._rows.append(_Row(record.call.name, words, index))
            return ()
        row.count, row.last, row.last_words = row.count + (row.last != index), index, words
        if (severity := severity_at(self.times, row.count)) is None:
            return ()
        outcome_words = "failed in the same way" if failed else "returned nothing"
        sentence = f"Nearly the same call to {row.tool} was made {row.count} times, and {outcome_words} each time"
        return self.finding(row.first, index, severity, sentence, call_evidence(record.call))

    def _row_of(self, tool: str, words: _Words) -> _Row | None:
        """Return the newest streak that the call extends."""
        for row in reversed(self._rows):
            if row.tool == tool and self._is_near(row.last_words, words) and self._is_near(row.first_words, words):
                return row
        return None

    def _is_near(self, earlier: _Words, later: _Words) -> bool:
        fewer, more = sorted((earlier.call, later.call), key=len)
        if 100 * len(fewer) < self.alike * len(more) or not fewer <= more:
            return False
        if earlier.error is None or later.error is None:
            return earlier.error is later.error
        quoted = earlier.letters | later.letters
        return earlier.error - quoted == later.error - quoted


def _words_of(call: ToolCall, error: str | None) -> _Words:
    text = _comparison_text(call.arguments).lower()
    errors = None if error is None else frozenset(_LETTERS.findall(error.lower()))
    return _Words(frozenset(_WORDS.findall(text)), frozenset(_LETTERS.findall(text)), errors)


def _comparison_text(arguments: Any) -> str:
    """Return the significant argument values as text."""
    if isinstance(arguments, dict):
        ignored = ASIDES if not COMMANDS.isdisjoint(arguments) else frozenset()
        text = "\n".join([_text(value) for name, value in arguments.items() if name not in ignored])
    else:
        text = _text(arguments)
    return both_ends(text, MAX_COMPARED, between="\n")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
