"""What a gate says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.rounds import DUPLICATE
from agentnb.core.run import Run


class Block(NamedTuple):
    """The call does not run. ``result`` is what the model is told instead, ``rule`` names why."""

    rule: str
    result: ToolResult


Gate: TypeAlias = Callable[[ToolCall, Run], "Block | None"]


def admitted(gates: Iterable[Gate], call: ToolCall, run: Run) -> Block | None:
    """None if every gate lets the call pass."""
    for gate in gates:
        block = gate(call, run)
        if block is not None:
            return block
    return None


def blocked_as_duplicate(call: ToolCall, rule: str, why: str, last: ToolResult | None) -> Block:
    """A block with the marker and what the same call returned before."""
    if last is None:
        told = "Wait for the result of the first one."
    elif last.is_error:
        told = "Change the arguments, or use another tool. It has only failed so far, the last time with:"
    else:
        told = "Use its result, or do something else. The result of that call was:"
    text = f"{DUPLICATE}: {call.name} was not run again, because {why}. {told}"
    parts = (Text(text), *(last.parts if last is not None else ()))
    return Block(rule, ToolResult(call.id, call.name, parts, is_error=True, error_code=DUPLICATE))
