"""Plan of an undo: the state to restore a file to, given the run's recorded changes and the current file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agentnb.store.before_images.records import ABSENT, FileChanged

Action: TypeAlias = Literal["restore", "delete", "none"]
WhyNot: TypeAlias = Literal["changed_since", "changed_between", "too_large", "run_full", "holds_key", "no_call"]
"""Reasons for keeping changes: the file changed after or between them, its earlier content was not stored, or none of the run's
calls made them.
"""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The plan for one file."""

    action: Action
    """``none``: the file is not touched."""
    source: FileChanged | None = None
    """The change whose stored image is restored."""
    undone: tuple[FileChanged, ...] = ()
    """Changes that this undoes or that never took place, oldest first."""
    why_not: WhyNot | None = None
    """Reason for keeping the remaining changes, or None if none remain."""


def plan_file(changes: Sequence[FileChanged], now: str) -> FilePlan:
    """Return the plan for a file whose digest is ``now``. ``changes``: the run's changes to it that are not undone yet, oldest
    first.

    Undoes one change after the other, newest first, as long as the state is the one before or after the change.
    """
    state, plan = now, FilePlan("none")
    for index in range(len(changes) - 1, -1, -1):
        change, undone = changes[index], tuple(changes[index:])
        if not change.has_digests:
            return replace(plan, why_not="no_call" if change.not_kept == "no_call" else "holds_key")
        if state not in (change.after, change.before):
            return replace(plan, why_not="changed_since" if index == len(changes) - 1 else "changed_between")
        state = change.before
        if state == now:  # it never took place, or something has undone it
            plan = FilePlan("none", None, undone)
        elif state == ABSENT:
            plan = FilePlan("delete", None, undone)
        elif change.image:
            plan = FilePlan("restore", change, undone)
    if len(plan.undone) < len(changes):
        return replace(plan, why_not="run_full" if changes[0].not_kept == "run_full" else "too_large")
    return plan
