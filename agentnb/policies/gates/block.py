"""Gates, and the blocks that they return."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.rounds import DUPLICATE
from agentnb.detect.so_far import RunSoFar

MAX_REPEATED = 8_192
"""Characters of an earlier result that a block repeats to the model."""


class Block(NamedTuple):
    """A call that must not run. The model gets ``result`` instead; ``rule`` names the reason."""

    rule: str
    result: ToolResult


Gate: TypeAlias = Callable[[ToolCall, RunSoFar], "Block | None"]


def admitted(gates: Iterable[Gate], call: ToolCall, run: RunSoFar) -> Block | None:
    """Return the first block, or None if every gate lets the call pass."""
    for gate in gates:
        block = gate(call, run)
        if block is not None:
            return block
    return None


def blocked_as_duplicate(call: ToolCall, rule: str, why: str, last: ToolResult | None) -> Block:
    """Return a block with the marker and the earlier result of the same call."""
    if last is None:
        told = "Wait for the result of the first one."
    elif last.is_error:
        told = "Change the arguments, or use another tool. It has only failed so far, the last time with:"
    else:
        told = "Use its result, or do something else. The result of that call was:"
    text = f"{DUPLICATE}: {call.name} was not run again, because {why}. {told}"
    before = last.parts if last is not None else ()
    # No pictures: the model has seen them, and the text beside them describes them.
    parts = (Text(text), *[_shortened(part) for part in before if isinstance(part, Text)])
    return Block(rule, ToolResult(call.id, call.name, parts, is_error=True, error_code=DUPLICATE))


def _shortened(part: Text) -> Text:
    """Shorten a long result: the model has all of it further up, and repeats must not fill the request."""
    if len(part.text) <= MAX_REPEATED:
        return part
    return Text(f"{part.text[:MAX_REPEATED]} … ({len(part.text) - MAX_REPEATED:,} more characters, as in that result)")
