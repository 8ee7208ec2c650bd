"""The plan of an undo: the state that a file goes back to, from the changes that a run has listed and the file as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentnb.store.before_images.records import ABSENT, FileChanged

Action: TypeAlias = Literal["restore", "delete", "none"]
WhyNot: TypeAlias = Literal["changed_since", "changed_between", "too_large", "run_full", "holds_key", "no_call"]
"""Why changes stay: something else changed the file after them or between them, its content before was not kept, or no call of
the run made them."""


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The plan for one file."""

    action: Action
    """``none``: the file is not touched."""
    source: FileChanged | None = None
    """The change whose image is put back."""
    undone: tuple[FileChanged, ...] = ()
    """The changes that are undone then, or that were never made, oldest first."""
    why_not: WhyNot | None = None
    """Why the other changes stay; None if there are none."""


def plan_file(changes: Sequence[FileChanged], now: str) -> FilePlan:
    """Return the plan for a file with the digest ``now``. ``changes``: those of the run to it, not undone yet, oldest first.

    It goes back change by change, the newest first, as far as each state is the one that the change left or began with.
    """
    state, plan = now, FilePlan("none")
    for index in range(len(changes) - 1, -1, -1):
        change, undone = changes[index], tuple(changes[index:])
        if not change.has_digests:
            return _ended(plan, "no_call" if change.not_kept == "no_call" else "holds_key")
        if state not in (change.after, change.before):
            return _ended(plan, "changed_since" if index == len(changes) - 1 else "changed_between")
        state = change.before
        if state == now:  # it was never made, or something has undone it
            plan = FilePlan("none", None, undone)
        elif state == ABSENT:
            plan = FilePlan("delete", None, undone)
        elif change.image:
            plan = FilePlan("restore", change, undone)
    if len(plan.undone) < len(changes):
        return _ended(plan, "run_full" if changes[0].not_kept == "run_full" else "too_large")
    return plan


def _ended(plan: FilePlan, why_not: WhyNot) -> FilePlan:
    return FilePlan(plan.action, plan.source, plan.undone, why_not)
