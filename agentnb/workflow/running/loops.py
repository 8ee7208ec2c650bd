"""How often a workflow goes back to an earlier step, and when that is too often."""

from __future__ import annotations

from agentnb.errors import WorkflowError


class LoopLimitReached(WorkflowError):
    """A step would run more often within one loop than it may."""


class LoopCounters:
    """Counts the loops of one run: each way back to an earlier step by itself.

    A step runs once more than its way back is taken. When an outer loop goes round again, the loops within it begin anew.
    """

    def __init__(self, limit: int) -> None:
        """``limit``: how often a step may run within one loop."""
        self._limit = limit
        self._taken: dict[tuple[int, int, str], int] = {}
        """By the places of the two steps in the list, and the id of the step that goes back."""

    def go_back(self, source: int, target: int, source_id: str, target_id: str) -> int:
        """Count a way back from one place in the list to an earlier one; return how often it was taken in this loop.

        Raises `LoopLimitReached` before a step runs too often.
        """
        within = [one for one in self._taken if target <= one[1] and one[0] <= source and one[:2] != (source, target)]
        for inner in within:
            del self._taken[inner]
        key = (source, target, source_id)
        count = self._taken.get(key, 0) + 1
        if count + 1 > self._limit:
            what = f"workflow: max loop iterations exceeded (step: {target_id}, limit: {self._limit})"
            raise LoopLimitReached(what, "If that is too few, set max_loop_iterations of the workflow")
        self._taken[key] = count
        return count
