"""The gate that limits the number of tool calls."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.run.rounds import MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN
from agentnb.detect.run import Run
from agentnb.policies.gates.gate_verdicts import Block


@dataclass(frozen=True, slots=True)
class CallCount:
    """Blocks calls beyond ``in_run`` in the entire run, or beyond ``in_turn`` since the person last spoke."""

    in_run: int | None = None
    in_turn: int | None = None

    def __call__(self, call: ToolCall, run: Run) -> Block | None:
        """Block the call, or return None."""
        if self.in_run is not None and run.calls_made >= self.in_run:
            return too_many(call, MAX_TOOL_CALLS, self.in_run)
        if self.in_turn is not None and run.calls_this_turn >= self.in_turn:
            return too_many(call, MAX_TOOL_CALLS_PER_TURN, self.in_turn)
        return None


def too_many(call: ToolCall, rule: str, most: int) -> Block:
    """Return the block for a call beyond ``most`` calls. ``rule``: the exceeded limit."""
    allowed = "1 tool call is" if most == 1 else f"{most} tool calls are"
    reason = f"only {allowed} allowed"
    text = f"{rule}: {call.name} was not run: {reason}. Answer with what you have."
    return Block(rule, ToolResult(call.id, call.name, (Text(text),), is_error=True, error_code=rule), reason)
