"""The one thing the loop knows of a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from agentnb.core.messages import Image, Text, ToolResult, encodable
from agentnb.core.tool_spec import ToolSpec

Effect: TypeAlias = Literal["read", "write", "execute", "network"]
"""What a tool does to the world."""

CallSync: TypeAlias = Callable[[Callable[[], Any], bool], Awaitable[Any]]
"""Runs a blocking function where it should run: on the person's own thread, or, if the second argument says that it is
safe beside others, in a thread of a pool."""


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where and for whom a tool runs. A function tool with a parameter of this type gets it."""

    run_id: str
    call_id: str
    work_dir: Path
    call_sync: CallSync


class ToolOutcome(msgspec.Struct, frozen=True):
    """What came of a call: either a value or, with ``ok=False``, an error the model can read.

    ``parts`` is the value (or error) as the model sees it; ``error_code`` names the kind of error.
    """

    ok: bool
    parts: tuple[Text | Image, ...]
    value: Any = None
    error_code: str | None = None

    @property
    def text(self) -> str:
        """Its words."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    def as_result(self, call_id: str, name: str) -> ToolResult:
        """As the answer to a call."""
        parts = tuple([Text(encodable(part.text)) if isinstance(part, Text) else part for part in self.parts])
        return ToolResult(call_id, name, parts, not self.ok, self.error_code)


def failure(error_code: str, text: str) -> ToolOutcome:
    """An outcome that tells the model what went wrong and what to try."""
    return ToolOutcome(False, (Text(text),), error_code=error_code)


class Tool(Protocol):
    """Something a model may ask for."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input schema."""

    @property
    def effects(self) -> frozenset[Effect] | None:
        """What it does to the world; None when nobody has said."""

    @property
    def parallel_safe(self) -> bool:
        """Whether it may run beside other calls."""

    @property
    def blocking(self) -> bool:
        """Whether it waits for the person: such calls come first, one by one."""

    @property
    def timeout(self) -> float | None:
        """Seconds after which a call is given up; None for never."""

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Do it. What it raises becomes an error result; it need not catch anything."""
