"""The table of patterns: statistics of runs, grouped by how they end and what they contain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb.core.log.outcome import Assessment, deciding_assessment
from agentnb.core.run.inner_calls import all_calls
from agentnb.core.schema.json_schema import json_of
from agentnb.core.todos import open_todos
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource, labels_beside
from agentnb.tables.columns import Column, columns_of, success_of, table
from agentnb.tables.folders import frame_of
from agentnb.tables.loops_table import find_loops
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd

ALL, TOOL, GUIDANCE = "all", "tool", "guidance"
BY = (
    ALL,
    "status",
    "stop_reason",
    "outcome",
    "finding",
    "breach",
    TOOL,
    GUIDANCE,
    "policy",
    "model",
    "agent",
    "origin_format",
)
"""Groupings of runs, in the order of rows."""


class Counts(NamedTuple):
    """Numbers of true, false and unknown values."""

    true: int = 0
    false: int = 0
    unknown: int = 0


CountsByName: TypeAlias = dict[str, tuple[int, int, int]]
"""`Counts` by name, as plain tuples, which are faster to create and add."""


class Facts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Facts of one run to be counted, as plain data for the cache."""

    run_id: str
    status: str
    outcome: str
    has_ended: bool
    is_foreign: bool
    todos: int
    todos_done: int
    calls: CountsByName
    """Counts of success among calls, by tool."""
    guidance: CountsByName
    """Counts of whether guidance was followed, by guidance set."""
    groups: dict[str, tuple[str, ...]]
    """The run's values for each grouping."""


@dataclass
class Group:
    """The runs that share one value of a grouping."""

    by: str
    value: str
    members: list[Facts]

    @cached_property
    def ended(self) -> list[Facts]:
        """Runs that have ended, with a known status."""
        return [member for member in self.members if member.has_ended and member.status != "unknown"]

    @property
    def unknown(self) -> int:
        """Number of runs whose traces do not record the end."""
        return sum(member.status == "unknown" for member in self.members)

    @cached_property
    def not_completed(self) -> list[Facts]:
        """Runs that have ended without completing."""
        return [member for member in self.ended if member.status != "completed"]

    @property
    def passed(self) -> int:
        """Number of runs that passed."""
        return sum(member.outcome == "passed" for member in self.members)

    @property
    def not_passed(self) -> int:
        """Number of runs that failed their assessment."""
        return sum(member.outcome == "failed" for member in self.members)

    @property
    def completed(self) -> int:
        """Number of runs that completed."""
        return len(self.ended) - len(self.not_completed)

    @property
    def todos(self) -> tuple[int, int]:
        """Numbers of completed todos, and of all todos, across the runs."""
        return sum(member.todos_done for member in self.members), sum(member.todos for member in self.members)

    @cached_property
    def successes(self) -> Counts:
        """Counts of success among calls; in a tool's group, only calls of that tool."""
        return self._sum((member.calls for member in self.members), TOOL)

    @cached_property
    def verdicts(self) -> Counts:
        """Counts of whether guidance was followed; in a guidance set's group, only guidance of that set."""
        return self._sum((member.guidance for member in self.members), GUIDANCE)

    def _sum(self, counted: Iterable[CountsByName], kind: str) -> Counts:
        """Sum over all names, or take only this group's own name if the group is of this kind."""
        all_counts = [counts for judged in counted for name, counts in judged.items() if self.by != kind or name == self.value]
        return Counts(*map(sum, zip(*all_counts, strict=True)))

    @property
    def is_guided(self) -> bool:
        """True if guidance is known; in other products' traces, it is not."""
        return sum(self.verdicts) > 0 or any(not member.is_foreign for member in self.members)

    @property
    def order(self) -> tuple[int, int, int, int, str]:
        """Sort key: most failures first; tools by number of errors."""
        failures = len(self.not_completed), self.successes.false
        first, second = failures[::-1] if self.by == TOOL else failures
        return BY.index(self.by), -first, -second, -len(self.members), self.value

    @property
    def example(self) -> str:
        """Id of an example run."""
        failing = [member for member in self.members if member.calls[self.value][1]] if self.by == TOOL else self.not_completed
        return (failing or self.members)[-1].run_id


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


COLUMNS: list[Column[Group]] = columns_of(
    "patterns",
    {
        "runs": lambda row: len(row.members),
        "completion_rate": lambda row: _share(row.completed, len(row.ended)),
        "not_completed": lambda row: len(row.not_completed),
        "failed": lambda row: sum(member.status == "failed" for member in row.members),
        "outcome_unknown": lambda row: len(row.members) - row.passed - row.not_passed,
        "passing_rate": lambda row: _share(row.passed, row.passed + row.not_passed),
        "todo_completion_rate": lambda row: _share(*row.todos),
        "guidance_given": lambda row: sum(row.verdicts) if row.is_guided else None,
        "guidance_followed": lambda row: row.verdicts.true if row.is_guided else None,
        "followed_rate": lambda row: _share(row.verdicts.true, row.verdicts.true + row.verdicts.false),
        "tool_calls": lambda row: sum(row.successes),
        "error_rate": lambda row: _share(row.successes.false, row.successes.true + row.successes.false),
    },
)


def _groups(known: list[Facts]) -> Iterator[Group]:
    for by in BY:
        members: dict[str, list[Facts]] = {}
        for facts in known:
            for value in facts.groups.get(by, ()):
                members.setdefault(value, []).append(facts)
        for value, mine in members.items():
            yield Group(by, value, mine)


def _group_names(value: Any) -> list[str]:
    """Return a logged name as a list of group names; empty for a missing or damaged value."""
    return [value] if isinstance(value, str) and value else []


def _facts(run: Run) -> Iterator[Facts]:
    calls = [(record.call.name, success_of(record)) for record in all_calls(run)]
    verdicts = [
        (guidance.set, current.followed[index].followed if index < len(current.followed) else None)
        for current in run.rounds
        for index, guidance in enumerate(current.guidance)
    ]
    alone = {
        ALL: ALL,
        "status": run.status,
        "outcome": run.outcome,
        "stop_reason": run.stop_reason,
        "policy": run.settings.get("policy", {}).get("name"),
        "model": run.model,
        "agent": run.agent,
        "origin_format": run.origin.format if run.origin else None,
    }
    groups: dict[str, Iterable[str]] = {by: _group_names(value) for by, value in alone.items()}
    groups["finding"] = {row.rule for row in find_loops(run)}
    groups["breach"] = {violation.rule for current in run.rounds for violation in current.todo_violations}
    groups[TOOL] = {name for name, _ in calls}
    groups[GUIDANCE] = {name for name, _ in verdicts}.union(_group_names(run.settings.get("guidance", {}).get("set")))
    done = len(run.todos) - len(open_todos(run.todos))
    counts = not run.should_continue, run.origin is not None, len(run.todos), done
    yield Facts(
        run.id,
        run.status,
        run.outcome,
        *counts,
        _count(calls),
        _count(verdicts),
        {by: (*sorted(values),) for by, values in groups.items() if values},
    )


def _with_label(one: Facts, given: Sequence[Assessment]) -> Facts:
    """Return the facts with the outcome according to the current labels, which may differ from the cached one."""
    decided = deciding_assessment(given)
    outcome = "unknown" if decided is None else decided.outcome
    return replace(one, outcome=outcome, groups=one.groups | {"outcome": (outcome,)})


def _count(judged: list[tuple[str, bool | None]]) -> CountsByName:
    """Return the number of verdicts of each kind, by name."""
    ways = Counter(judged)
    return {name: (ways[name, True], ways[name, False], ways[name, None]) for name, _ in judged}


FACTS = Table("patterns", [Column("counts", "str", json_of, "", "")], _facts)
"""The facts to cache for each run; the rows of the table itself are groups of runs."""


def patterns(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per group of runs: how often they complete, follow guidance and fail.

    Groups are sorted by kind, then by number of failures, highest first.
    """
    decode = msgspec.json.Decoder(Facts).decode
    kept = [decode(text) for text in frame_of(source, FACTS, cache)["counts"]]
    labels = labels_beside(source)
    labelled = [_with_label(facts, labels[facts.run_id]) if facts.run_id in labels else facts for facts in kept]
    return table(sorted(_groups(labelled), key=lambda group: group.order), COLUMNS)
