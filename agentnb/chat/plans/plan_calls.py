"""The limit of the tool calls of a plan, those of the agents that do its steps included."""

from __future__ import annotations

from agentnb.core.messages import ToolCall
from agentnb.core.run.rounds import MAX_TOOL_CALLS
from agentnb.detect.so_far import RunSoFar
from agentnb.policies.gates import Block
from agentnb.policies.gates.calls import too_many


class PlanCalls:
    """Blocks each call beyond so many in all runs of one execution together. A gate."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[str, int] = {}
        """The calls by run, the last one that passed included."""

    def __call__(self, call: ToolCall, run: RunSoFar) -> Block | None:
        """Block the call, or let it pass."""
        others = sum(made for run_id, made in self._made.items() if run_id != run.id)
        if others + run.calls_made >= self._most:
            return too_many(call, MAX_TOOL_CALLS, self._most)
        self._made[run.id] = run.calls_made + 1  # with this one, if it runs
        return None
