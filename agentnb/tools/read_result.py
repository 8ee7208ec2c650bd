"""Built-in tool that reads more of a truncated result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import msgspec

from agentnb.core.messages import Text, ToolResult
from agentnb.core.request import ToolSpec
from agentnb.tools.defaults import READ_CHARACTERS
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

READ_TOOL = "read_tool_result"
ROOM_FOR_HEADING = 100
"""Characters reserved for the heading above the text."""

FindResult: TypeAlias = Callable[[str], "ToolResult | None"]
"""Returns the result of the call with this id, or None."""

SPEC = ToolSpec(
    READ_TOOL,
    "Read more of an earlier tool result that was too long to show in full.",
    {
        "type": "object",
        "properties": {
            "handle": {"type": "string", "description": "the handle given in the shortened result"},
            "offset": {"type": "integer", "description": "the first character to read, counted from 0", "default": 0},
            "length": {"type": "integer", "description": "how many characters to read", "default": READ_CHARACTERS},
        },
        "required": ["handle"],
        "additionalProperties": False,
    },
    ("read",),
)
"""Definition of the tool for the model, written out by hand because every run has it."""


class _Piece(msgspec.Struct):
    """Arguments of a call."""

    handle: str
    offset: Annotated[int, msgspec.Meta(ge=0)] = 0
    length: Annotated[int, msgspec.Meta(ge=0)] = READ_CHARACTERS


class ResultReader:
    """Reads the results that ``find`` returns, at most ``most`` characters per call."""

    spec = SPEC
    effects: frozenset[Effect] | None = frozenset({"read"})
    parallel_safe = True
    blocking = False
    timeout: float | None = None
    repeatable = True
    """A process that resumes a run may repeat the call, since reading again is harmless."""

    def __init__(self, find: FindResult, most: int) -> None:
        self._find = find
        self._most = most

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Return the requested piece below a heading with its position and the next offset."""
        try:
            asked = msgspec.convert(arguments, _Piece, strict=False)  # models also send "12" and 12.0
        except msgspec.ValidationError:
            return failure(
                "invalid_arguments", f"{READ_TOOL} takes handle (a string), offset and length (whole numbers from 0)."
            )
        result = self._find(asked.handle)
        if result is None:
            return failure("unknown_handle", f"There is no result {asked.handle!r}. Use the handle in the shortened result.")
        text = result.text
        start, end = asked.offset, min(len(text), asked.offset + max(1, min(asked.length, self._most)))
        if start >= len(text):
            return failure("past_the_end", f"The result has {len(text):,} characters; offset {start:,} is beyond its end.")
        continuation = f"; continue with offset={end}" if end < len(text) else ", the end"
        heading = f"[characters {start:,} to {end:,} of {len(text):,}{continuation}]"
        return ToolOutcome(True, (Text(f"{heading}\n{text[start:end]}"),))
