"""Counts of failing tools for guidance: which tools, how often, and how many rounds in a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from agentnb.core.run.call_window import call_key
from agentnb.core.run.rounds import NOT_RUN, WITHOUT_RESULT, CallRecord, WorkflowRound
from agentnb.core.todos import Todo

LOOP_FROM = 3
"""Usual number of rounds in a row in which one tool fails that make a failure loop."""
NO_FAILURE = (NOT_RUN - {"unknown_tool", "invalid_arguments"}) | {"declined"} | WITHOUT_RESULT
"""Error codes that are not failures of the tool: it was blocked, cut off or declined, or its result is not recorded."""


def is_failure(record: CallRecord) -> bool:
    """Return whether a tool was called and failed, in whatever way."""
    result = record.result
    return result is not None and result.is_error and not record.rule and result.error_code not in NO_FAILURE


@dataclasses.dataclass(slots=True)
class ToolFailures:
    """Counts of failing tools. Nothing here grows with the run: all but `rounds` is about the last rounds only."""

    rounds: int = 0
    """Rounds in which a tool failed, since the person last spoke."""
    tools: tuple[str, ...] = ()
    """The tools that failed in the last round, in the order of their calls."""
    in_a_row: dict[str, int] = dataclasses.field(default_factory=dict)
    """For each failing tool, the number of rounds in a row; a round in which it also succeeded ends its row."""
    calls: frozenset[tuple[str, bytes]] = frozenset()
    """The calls that failed in the last round."""
    unfinished: frozenset[int] = frozenset()
    """Ids of the todos in progress when the last round ended, if all work of that round failed."""

    def looping(self, rounds: int = LOOP_FROM) -> tuple[str, ...]:
        """Return the tools that failed in the last round, and in so many rounds in a row."""
        return tuple([name for name in self.tools if self.in_a_row.get(name, 0) >= rounds])

    def ended(self, one: WorkflowRound, todos: Iterable[Todo] = ()) -> None:
        """Count a round that has ended. ``todos``: the list as it was then."""
        failed = [
            record for record in one.records if record.result is not None and record.result.is_error and is_failure(record)
        ]
        self.unfinished = frozenset()
        if failed and not any(record.success and record.is_work for record in one.records):
            self.unfinished = frozenset([todo.id for todo in todos if todo.status == "in-progress"])
        if not failed and not self.tools and not self.in_a_row:
            return  # the usual case
        self.rounds += bool(failed)
        self.tools = tuple(dict.fromkeys([record.call.name for record in failed]))
        self.calls = frozenset([call_key(record.call) for record in failed])
        if one.reply is not None:
            self.in_a_row = self._rows(one)

    def _rows(self, one: WorkflowRound) -> dict[str, int]:
        """Return the rows after this round. A call that was blocked or cut off leaves the row of its tool as it is."""
        rows: dict[str, int] = {}
        for record in one.records:
            before = self.in_a_row.get(record.call.name, 0)
            if is_failure(record):
                rows[record.call.name] = before + 1
            elif before and not record.success:
                rows.setdefault(record.call.name, before)
        for record in one.records:
            if record.success:
                rows.pop(record.call.name, None)
        return rows

    def made_again(self, one: WorkflowRound) -> bool:
        """Return whether every call of this new round repeats, unchanged, a call that failed in the last round."""
        return bool(self.calls and one.records) and all(call_key(record.call) in self.calls for record in one.records)

    def completed_unfinished(self, one: WorkflowRound) -> bool:
        """Return whether this new round, before any work, completed a todo whose work failed in the last round."""
        return not self.unfinished.isdisjoint(one.completed) and not one.records[0].is_work

    def failed_again(self, one: WorkflowRound) -> bool:
        """Return whether every call of this new round is of a tool in a failure loop, and none succeeded."""
        looping = self.looping()
        return bool(looping and one.records) and all(
            record.call.name in looping and not record.success for record in one.records
        )

    def person_spoke(self) -> None:
        """Reset the counts: the person has said something new."""
        self.rounds = 0
        self.in_a_row = {}
