"""What a gate says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.rounds import DUPLICATE
from agentnb.core.run import Run

MAX_REPEATED = 8_192
"""Characters of an earlier result that are repeated to the model."""


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
    before = last.parts if last is not None else ()
    # No pictures: the model has seen them, and words that tell of them stand beside.
    parts = (Text(text), *[_shortened(part) for part in before if isinstance(part, Text)])
    return Block(rule, ToolResult(call.id, call.name, parts, is_error=True, error_code=DUPLICATE))


def _shortened(part: Text) -> Text:
    """The model has the whole result already, further up: many repeats of a long one must not fill the request."""
    if len(part.text) <= MAX_REPEATED:
        return part
    return Text(f"{part.text[:MAX_REPEATED]} … ({len(part.text) - MAX_REPEATED:,} more characters, as in that result)")
