"""Guards against repeated calls and repeated batches of calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.run.call_window import LONGEST, CallWindow, Executed, call_key
from agentnb.core.todos import TODO_TOOL, format_or_none
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.policies.gates.gate_verdicts import Block, blocked_as_duplicate
from agentnb.tools.function import as_tool
from agentnb.tools.mcp.wire_names import tool_of_word


@dataclass(frozen=True, slots=True)
class DuplicateGuard:
    """Blocks a repeated call: in a row, frequently among the last calls, or alternating with another one.

    ``consecutive``: number of identical calls in a row at which the last is blocked. ``window``: executed calls that are
    examined. ``frequency``: number of occurrences among them at which a call is blocked. ``exempt``: tools that may repeat,
    such as those that poll. ``same_result``: count only repeats with the same result. ``block_immediate_success_repeat``: block
    a call that has just succeeded. A message from the person resets the count.
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
                raise SettingsError(f"DuplicateGuard's {name}={value!r} must be a whole number from {least} to {LONGEST}")
        for name in ("same_result", "block_immediate_success_repeat"):
            if not isinstance(getattr(self, name), bool):
                raise SettingsError(f"DuplicateGuard's {name}={getattr(self, name)!r} must be True or False")
        object.__setattr__(self, "exempt", frozenset(_names(self.exempt)))

    def __call__(self, call: ToolCall, run: Run) -> Block | None:
        """Block the call, with its earlier result, or return None."""
        if call.name == TODO_TOOL and run.calls.row and call.name not in self.exempt:
            return self._check_todo_call(call, run)
        return self.repeats(call, run.calls)

    def repeats(self, call: ToolCall, calls: CallWindow) -> Block | None:
        """Block a call that repeats these calls, with its earlier result, or return None."""
        if not calls.row or call.name in self.exempt:
            return None
        match = self._rule(call, calls)
        return blocked_as_duplicate(call, *match, calls.outputs.get(calls.key_of(call))) if match else None

    def _check_todo_call(self, call: ToolCall, run: Run) -> Block | None:
        """Check a call to the todo tool: after changes by others, no call counts as a repeat, and a block shows the current
        list.

        Read-only calls are repeats only if the result is the same.
        """
        if run.has_unseen_todos:
            return None
        match = (replace(self, same_result=True) if _only_reads(call) else self)._rule(call, run.calls)
        current = ToolResult(call.id, call.name, (Text(format_or_none(run.todos)),))
        return blocked_as_duplicate(call, *match, current) if match else None

    def _rule(self, call: ToolCall, calls: CallWindow) -> tuple[str, str] | None:
        """Return the rule that blocks the call, and the reason as text."""
        key = calls.key_of(call)
        if key not in calls.counts and key != calls.row_key:
            return None  # the usual case, which must be quick: this runs in every round
        recent = list(islice(reversed(calls.executed), self.window))  # newest first
        return (
            self._check_row(key, calls)
            or self._check_frequency(key, recent, calls)
            or self._check_alternation(key, recent, calls)
        )

    def _check_row(self, key: tuple[str, bytes], calls: CallWindow) -> tuple[str, str] | None:
        if key != calls.row_key:
            return None
        row = list(islice(reversed(calls.executed), calls.row_executed))
        count = calls.row
        if self.same_result:  # blocked calls returned nothing new, either
            count = self._count_repeats(row, calls) + calls.row - calls.row_executed
        if count >= self.consecutive - 1:
            return "consecutive", f"the same call was made {count} times in a row"
        if self.block_immediate_success_repeat and row and not _has_failed(row[0], calls):
            return "immediate_repeat", "the same call has just succeeded"
        return None

    def _check_frequency(self, key: tuple[str, bytes], recent: Sequence[Executed], calls: CallWindow) -> tuple[str, str] | None:
        alike = [call for call in recent if call.key == key]
        if len(alike) < self.frequency or (count := self._count_repeats(alike, calls)) < self.frequency:
            return None
        return "frequency", f"{count} of the last {len(recent)} calls are this call"

    def _check_alternation(
        self, key: tuple[str, bytes], recent: Sequence[Executed], calls: CallWindow
    ) -> tuple[str, str] | None:
        turns = recent[: self.window - 1]
        if len(turns) < max(self.window - 1, 2) or turns[0].key == key or turns[1].key != key:
            return None
        if any(call.key != turns[index % 2].key for index, call in enumerate(turns)):
            return None
        if self._count_repeats(turns[::2], calls) + self._count_repeats(turns[1::2], calls) < len(turns):
            return None
        return "alternation", "the same two calls keep alternating"

    def _count_repeats(self, alike: Sequence[Executed], calls: CallWindow) -> int:
        """Return the number of these executions that count as repeats."""
        if not self.same_result or not alike:
            return len(alike)
        newest = _result_key(alike[0], calls)
        return sum(_result_key(call, calls) == newest for call in alike)


def _names(exempt: Iterable[Any]) -> Iterator[str]:
    """Yield the names of these tools, each of which may be given as a name or as a tool."""
    if isinstance(exempt, str) or not isinstance(exempt, Iterable):
        raise SettingsError(f"exempt={exempt!r} is not a list of tools", 'Write exempt=["poll"]')
    for item in exempt:
        yield tool_of_word(item) if isinstance(item, str) else as_tool(item).spec.name


def _only_reads(call: ToolCall) -> bool:
    return isinstance(call.arguments, dict) and str(call.arguments.get("operation")).strip().lower() == "read"


def _result_key(one: Executed, calls: CallWindow) -> object:
    result = calls.results.get(one.call_id)
    return None if result is None else (result.parts, result.is_error)


def _has_failed(one: Executed, calls: CallWindow) -> bool:
    result = calls.results.get(one.call_id)
    return result is None or result.is_error


@dataclass(frozen=True, slots=True)
class BatchGuard:
    """Blocks the calls of a reply that repeats all calls of the preceding replies, from the ``batches``-th time onwards.

    Replies with a single call are left to the `DuplicateGuard`.
    """

    batches: int = 3
    exempt: frozenset[str] = frozenset()

    def __call__(self, call: ToolCall, run: Run) -> Block | None:
        """Block the call if it belongs to such a reply."""
        if run.judged.same_batch < self.batches - 2 or call.name in self.exempt:
            return None
        current, last = run.open_round, run.last_finished_round
        if current is None or last is None:
            return None
        keys = sorted(call_key(record.call) for record in current.records)
        if len(keys) < 2 or keys != sorted(call_key(record.call) for record in last.records):
            return None
        why = f"this reply repeats all calls of the {self.batches - 1} replies before it"
        return blocked_as_duplicate(call, "batch", why, run.calls.outputs.get(call_key(call)))
