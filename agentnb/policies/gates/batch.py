"""The batch guard: a reply that repeats the calls of the two replies before it is not run a third time."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.call_window import call_key
from agentnb.core.messages import ToolCall
from agentnb.core.run import Run
from agentnb.policies.gates.block import Block, blocked_as_duplicate


@dataclass(frozen=True, slots=True)
class BatchGuard:
    """Blocks the calls of a reply that repeats all calls of the replies before it, from the ``batches``-th time on.

    Replies with a single call are left to the `DuplicateGuard`.
    """

    batches: int = 3
    exempt: frozenset[str] = frozenset()

    def __call__(self, call: ToolCall, run: Run) -> Block | None:
        """Block the call if it belongs to such a reply."""
        current, last = run.open_round, run.last_finished_round
        if current is None or last is None or run.counters.same_batch < self.batches - 2 or call.name in self.exempt:
            return None
        keys = sorted(call_key(record.call) for record in current.records)
        if len(keys) < 2 or keys != sorted(call_key(record.call) for record in last.records):
            return None
        why = f"all calls of this reply are those of the {self.batches - 1} replies before it"
        return blocked_as_duplicate(call, "batch", why, run.calls.outputs.get(call_key(call)))
