"""The duplicate-call guard: the same call, with the same arguments, is not run again and again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from agentnb.core.call_window import LONGEST, CallWindow, Executed
from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.run import Run
from agentnb.core.todos import TODO_TOOL, headed_or_none
from agentnb.errors import SettingsError
from agentnb.policies.gates.block import Block, blocked_as_duplicate
from agentnb.tools.function import as_tool


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
        for name, least in (("consecutive", 2), ("window", 2), ("frequency", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= LONGEST:
                raise SettingsError(f"{name}={value!r} of a DuplicateGuard is no whole number from {least} to {LONGEST}")
        for name in ("same_result", "block_immediate_success_repeat"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(f"{name}={getattr(self, name)!r} of a DuplicateGuard is neither True nor False")
        object.__setattr__(self, "exempt", frozenset(_names(self.exempt)))

    def __call__(self, call: ToolCall, run: Run) -> Block | None:
        """Block the call, with what it returned before, or let it pass."""
        calls = run.calls
        if not calls.row or call.name in self.exempt:
            return None
        if call.name == TODO_TOOL:
            return self._of_the_list(call, run)
        found = self._rule(call, calls)
        return blocked_as_duplicate(call, *found, calls.outputs.get(calls.key_of(call))) if found else None

    def _of_the_list(self, call: ToolCall, run: Run) -> Block | None:
        """The todo tool: nothing is a repeat that comes after a change by others, and what is told is the list as it is now.

        Of calls that only read, the same answer counts and nothing else.
        """
        if run.has_unseen_todos:
            return None
        found = (replace(self, same_result=True) if _only_reads(call) else self)._rule(call, run.calls)
        now = ToolResult(call.id, call.name, (Text(headed_or_none(run.todos)),))
        return blocked_as_duplicate(call, *found, now) if found else None

    def _rule(self, call: ToolCall, calls: CallWindow) -> tuple[str, str] | None:
        """The rule that blocks the call, and why in words."""
        key = calls.key_of(call)
        if key not in calls.counts and key != calls.row_key:
            return None  # as nearly all calls are: asked in every round, this has to be quick
        recent = list(islice(reversed(calls.executed), self.window))  # newest first
        return self._in_a_row(key, calls) or self._often(key, recent, calls) or self._in_turn(key, recent, calls)

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


def _names(exempt: Iterable[Any]) -> Iterator[str]:
    """The names of the tools, which may be given as such too."""
    if isinstance(exempt, str) or not isinstance(exempt, Iterable):
        raise SettingsError(f"exempt={exempt!r} is no list of tools", 'Write exempt=["poll"]')
    for one in exempt:
        yield one if isinstance(one, str) else as_tool(one).spec.name


def _only_reads(call: ToolCall) -> bool:
    return isinstance(call.arguments, dict) and str(call.arguments.get("operation")).strip().lower() == "read"


def _told(one: Executed, calls: CallWindow) -> object:
    result = calls.results.get(one.call_id)
    return None if result is None else (result.parts, result.is_error)


def _failed(one: Executed, calls: CallWindow) -> bool:
    result = calls.results.get(one.call_id)
    return result is None or result.is_error
