"""The duplicate-call guard: the same call, with the same arguments, is not run again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from agentnb.agent.gates.block import Block, blocked_as_duplicate
from agentnb.core.call_window import LONGEST, CallWindow, Executed
from agentnb.core.messages import ToolCall
from agentnb.core.run import Run
from agentnb.core.todos import TODO_TOOL
from agentnb.errors import SettingsError


@dataclass(frozen=True, slots=True)
class DuplicateGuard:
    """Blocks a call that repeats itself: in a row, often among the last calls, or in turn with one other.

    ``consecutive``: so many times in a row, and the last of them is blocked. ``window``: executed calls that are looked at.
    ``frequency``: a call that is already that often among them is blocked. ``exempt``: tools that may repeat themselves, such
    as those that poll. ``same_result``: only repeats that returned the same count. ``block_immediate_success_repeat``: a call
    that has just succeeded is blocked at once. What the person says resets the count.
    """

    consecutive: int = 3
    window: int = 8
    frequency: int = 4
    exempt: frozenset[str] = frozenset()
    same_result: bool = False
    block_immediate_success_repeat: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.consecutive <= LONGEST or self.frequency < 1 or not 2 <= self.window <= LONGEST:
            raise SettingsError(
                f"A guard with consecutive={self.consecutive}, window={self.window}, frequency={self.frequency} cannot work",
                f"consecutive and window are from 2 to {LONGEST}, frequency is at least 1",
            )
        object.__setattr__(self, "exempt", frozenset(self.exempt))

    def __call__(self, call: ToolCall, run: Run) -> Block | None:
        """Block the call, with what it returned before, or let it pass."""
        calls = run.calls
        if not calls.row or call.name in self.exempt:
            return None
        if call.name == TODO_TOOL and _only_reads(call):
            # What it reads may have changed since: only the same answer counts, and none while others have changed the list.
            return None if run.has_unseen_todos else replace(self, same_result=True)._judged(call, calls)
        return self._judged(call, calls)

    def _judged(self, call: ToolCall, calls: CallWindow) -> Block | None:
        key = calls.key_of(call)
        recent = list(islice(reversed(calls.executed), self.window))  # newest first
        found = self._in_a_row(key, calls) or self._often(key, recent, calls) or self._in_turn(key, recent, calls)
        return blocked_as_duplicate(call, *found, calls.outputs.get(key)) if found else None

    def _in_a_row(self, key: tuple[str, bytes], calls: CallWindow) -> tuple[str, str] | None:
        if key != calls.row_key:
            return None
        row = list(islice(reversed(calls.executed), calls.row_executed))
        count = calls.row
        if self.same_result:  # those that were blocked returned nothing new either
            count = self._counted(row, calls) + calls.row - calls.row_executed
        if count >= self.consecutive - 1:
            return "consecutive", f"the same call was made {count} times in a row"
        if self.block_immediate_success_repeat and row and not _failed(row[0], calls):
            return "immediate_repeat", "the same call has just succeeded"
        return None

    def _often(self, key: tuple[str, bytes], recent: Sequence[Executed], calls: CallWindow) -> tuple[str, str] | None:
        alike = [one for one in recent if one.key == key]
        if len(alike) < self.frequency or (count := self._counted(alike, calls)) < self.frequency:
            return None
        return "frequency", f"the same call is {count} of the last {len(recent)}"

    def _in_turn(self, key: tuple[str, bytes], recent: Sequence[Executed], calls: CallWindow) -> tuple[str, str] | None:
        turns = recent[: self.window - 1]
        if len(turns) < max(self.window - 1, 2) or turns[0].key == key or turns[1].key != key:
            return None
        if any(one.key != turns[index % 2].key for index, one in enumerate(turns)):
            return None
        if self._counted(turns[::2], calls) + self._counted(turns[1::2], calls) < len(turns):
            return None
        return "alternation", "the same two calls have been made in turn again and again"

    def _counted(self, alike: Sequence[Executed], calls: CallWindow) -> int:
        """How many of these executions of one call count."""
        if not self.same_result or not alike:
            return len(alike)
        newest = _told(alike[0], calls)
        return sum(_told(one, calls) == newest for one in alike)


def _only_reads(call: ToolCall) -> bool:
    return isinstance(call.arguments, dict) and call.arguments.get("operation") == "read"


def _told(one: Executed, calls: CallWindow) -> object:
    result = calls.results.get(one.call_id)
    return None if result is None else (result.parts, result.is_error)


def _failed(one: Executed, calls: CallWindow) -> bool:
    result = calls.results.get(one.call_id)
    return result is None or result.is_error
