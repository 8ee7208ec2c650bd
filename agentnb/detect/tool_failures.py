"""Counts of failing tools, for guidance: which tools, how often, and in how many rounds in a row."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from agentnb.core.run.call_window import call_key
from agentnb.core.run.rounds import NOT_RUN, WITHOUT_RESULT, CallRecord, WorkflowRound
from agentnb.core.todos import Todo

LOOP_FROM = 3
"""Default number of consecutive rounds in which a tool must fail to form a failure loop."""
NO_FAILURE = (NOT_RUN - {"unknown_tool", "invalid_arguments"}) | {"declined"} | WITHOUT_RESULT
"""Error codes of calls that were blocked, cut off or declined, or have no recorded result: the tool did not fail."""
MAX_ERROR = 500
"""Maximum number of characters of an error that are searched for words quoted in an answer."""
_FAILURE = re.compile(
    r"\b(fail|error|exception|unable|unfortunately|blocked|missing|impossible|denied|invalid|refused|timed out|no such)"
    r"|\b(could|can) ?n[o'\u2019]t\b|\bcan['\u2019]t\b"
    r"|(\bnot|n['\u2019]t) (able|possible|found|work|exist|available|allowed|there)",
    re.IGNORECASE,
)
"""English words for a failure."""
_NO_TODOS: frozenset[int] = frozenset()
_QUOTED = re.compile(r"\w{4,}")


def is_failure(record: CallRecord) -> bool:
    """True if a tool was called and failed in any way."""
    result = record.result
    return result is not None and result.is_error and not record.rule and result.error_code not in NO_FAILURE


class ToolFailures(msgspec.Struct, gc=False):
    """Counts of failing tools, with bounded state: everything but `rounds` covers only the last few rounds."""

    rounds: int = 0
    """Rounds in which a tool failed, since the person last spoke."""
    tools: tuple[str, ...] = ()
    """The tools that failed in the last round, in the order of their calls."""
    in_a_row: dict[str, int] = {}
    """Number of consecutive rounds with failures, by tool; a round in which the tool also succeeded ends the streak."""
    calls: frozenset[tuple[str, bytes]] = frozenset()
    """The calls that failed in the last round."""
    errors: tuple[str, ...] = ()
    """Truncated results of those calls."""
    unfinished: frozenset[int] = _NO_TODOS
    """Ids of the todos in progress at the end of the last round, if all its work failed."""

    def looping(self, rounds: int = LOOP_FROM) -> tuple[str, ...]:
        """Return the tools that failed in the last round and in at least ``rounds`` rounds in a row."""
        return tuple([name for name in self.tools if self.in_a_row.get(name, 0) >= rounds])

    def count_round(self, one: WorkflowRound, todos: Iterable[Todo] = ()) -> None:
        """Count a finished round. ``todos``: the list at its end."""
        failed: list[CallRecord] = []
        for record in one.records:  # a plain loop: this runs in every round
            if record.result is not None and record.result.is_error and is_failure(record):
                failed.append(record)  # noqa: PERF401
        self.unfinished = _NO_TODOS
        if failed and not any(record.success and record.is_work for record in one.records):
            self.unfinished = frozenset([todo.id for todo in todos if todo.status == "in-progress"])
        if not failed and not self.tools and not self.in_a_row:
            return  # the usual case
        self.rounds += bool(failed)
        self.tools = tuple(dict.fromkeys([record.call.name for record in failed]))
        self.calls = frozenset([call_key(record.call) for record in failed])
        self.errors = tuple([record.result.text[:MAX_ERROR] for record in failed if record.result is not None])
        if one.reply is not None:
            self.in_a_row = self._rows(one)

    def _rows(self, run_round: WorkflowRound) -> dict[str, int]:
        """Return the streaks after this round. A blocked or interrupted call leaves its tool's streak as it is."""
        rows: dict[str, int] = {}
        for record in run_round.records:
            before = self.in_a_row.get(record.call.name, 0)
            if is_failure(record):
                rows[record.call.name] = before + 1
            elif before and not record.success:
                rows.setdefault(record.call.name, before)
        for record in run_round.records:
            if record.success:
                rows.pop(record.call.name, None)
        return rows

    def made_again(self, one: WorkflowRound) -> bool:
        """True if all work of this new round repeats, unchanged, failed calls of the last round."""
        return bool(self.calls and one.records) and all(call_key(record.call) in self.calls for record in _work_of(one))

    def mentions_failure(self, text: str) -> bool:
        """True if an answer mentions a failure in English words, or quotes half the words of an error."""
        words = {*_QUOTED.findall(text.lower())}
        errors = [{*_QUOTED.findall(error.lower())} for error in self.errors]
        return bool(_FAILURE.search(text)) or any(
            len(error_words) > 1 and 2 * len(error_words & words) >= len(error_words) for error_words in errors
        )

    def completed_unfinished(self, one: WorkflowRound) -> bool:
        """True if this new round, before any work, completed a todo whose work failed in the last round, and blocked none."""
        ended = self.unfinished.intersection(one.completed)
        return bool(ended) and self.unfinished.isdisjoint(one.blocked) and not one.records[0].is_work

    def failed_again(self, one: WorkflowRound, about: Collection[str] = ()) -> bool:
        """True if all work of this new round failed and used only tools in a failure loop, or in ``about``.

        Marking a todo as blocked deals with the failure.
        """
        tools = about or self.looping()
        is_again = tools and one.records and not one.blocked
        return bool(is_again) and not any(record.call.name not in tools or record.success for record in _work_of(one))

    def person_spoke(self) -> None:
        """Reset the counts: the person's message is new input."""
        self.rounds = 0
        self.in_a_row = {}


def _work_of(run_round: WorkflowRound) -> Sequence[CallRecord]:
    """Return a round's calls other than list updates, or all calls if it has no others."""
    return [record for record in run_round.records if record.is_work] or run_round.records
