"""Undo plans: how far a file is restored, and why other changes stay."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from agentnb.rerun.undo.undo_plan import plan_file
from agentnb.store.before_images.records import ABSENT, FileChanged

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def change(number: int, before: str, after: str, image: bool = True, **more: Any) -> FileChanged:
    name = f"i{number}" if image and before != ABSENT else ""
    return FileChanged(
        run_id="r",
        number=number,
        at=NOW,
        call_id="c",
        work_dir="/w",
        path="/w/a",
        before=before,
        after=after,
        image=name,
        **more,
    )


def chain(*states: str) -> list[FileChanged]:
    """Return changes from each state to the next; only the first has an image, as in the store."""
    return [change(place, *pair, image=place == 0) for place, pair in enumerate(pairwise(states))]


KEY = change(0, "", "", image=False, not_kept="holds_key")
Case = tuple[list[FileChanged], str, str, str | None, int, str | None]
CASES: dict[str, Case] = {
    # changes, current file; action, image, number of undone changes, reasons for the others
    "one change": (chain("a", "b"), "b", "restore", "i0", 1, None),
    "a chain goes to its beginning": (chain("a", "b", "c", "d"), "d", "restore", "i0", 3, None),
    "a new file": (chain(ABSENT, "b", "c"), "c", "delete", None, 2, None),
    "killed before the change": (chain("a", "b"), "a", "none", None, 1, None),
    "killed before a new file": (chain(ABSENT, "b"), ABSENT, "none", None, 1, None),
    "killed before the last change": (chain("a", "b", "c"), "b", "restore", "i0", 2, None),
    "a call that failed and was made again": (
        [*chain("a", "b"), change(1, "a", "c", image=False)],
        "c",
        "restore",
        "i0",
        2,
        None,
    ),
    "a change that changed nothing": (chain("a", "a"), "a", "none", None, 1, None),
    "there and back": (chain("a", "b", "a"), "a", "none", None, 2, None),
    "changed since": (chain("a", "b", "c"), "x", "none", None, 0, "changed_since"),
    "deleted since": (chain("a", "b"), ABSENT, "none", None, 0, "changed_since"),
    "a new file that has changed since": (chain(ABSENT, "b"), "x", "none", None, 0, "changed_since"),
    "changed between": ([*chain("a", "b"), change(1, "x", "c")], "c", "restore", "i1", 1, "changed_between"),
    "deleted between": ([*chain("a", "b"), change(1, ABSENT, "c")], "c", "delete", None, 1, "changed_between"),
    "too large": ([change(0, "a", "b", image=False, not_kept="too_large")], "b", "none", None, 0, "too_large"),
    "too large for the run": ([change(0, "a", "b", image=False, not_kept="run_full")], "b", "none", None, 0, "run_full"),
    "a key": ([KEY], "b", "none", None, 0, "holds_key"),
    "a key at first": ([KEY, change(1, "b", "c")], "c", "restore", "i1", 1, "holds_key"),
    "a key at last": ([change(0, "a", "b"), KEY], "c", "none", None, 0, "holds_key"),
}


def test_file_is_restored_as_far_as_its_states_match(subtests: pytest.Subtests) -> None:
    for name, (changes, now, action, image, undone, why_not) in CASES.items():
        with subtests.test(name):
            plan = plan_file(changes, now)
            source = None if plan.source is None else plan.source.image
            assert (plan.action, source, len(plan.undone), plan.why_not) == (action, image, undone, why_not)
            assert plan.undone == tuple(changes[len(changes) - undone :])
