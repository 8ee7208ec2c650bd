"""What the spans of model calls, tool calls and agents tell, in whichever convention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from agentnb.core.messages import AnyPart, Image, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.errors import TraceError
from agentnb.interchange.formats.content import texts_of
from agentnb.interchange.formats.spans import Span

Kind: TypeAlias = Literal["agent", "model", "tool", ""]
_ROLES = {"model": "assistant", "ai": "assistant", "human": "user", "function": "tool"}
"""Our words for the roles of other products."""


class SpanMessage(NamedTuple):
    """A message of a conversation, as a span tells it. Each result of a tool is one."""

    role: str
    parts: tuple[AnyPart, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    name: str = ""
    call_id: str = ""
    error_code: str = ""
    """If it is the result of a call that failed."""

    @property
    def text(self) -> str:
        """Its text, without thinking."""
        return self.whole_text.strip()

    @property
    def whole_text(self) -> str:
        """Its text with the white space around it, as of a system prompt."""
        return texts_of(self.parts)

    @property
    def is_blank(self) -> bool:
        """Whether it says nothing and calls nothing."""
        return not self.calls and not any(isinstance(part, Image | Thinking) or part.text.strip() for part in self.parts)  # type: ignore[union-attr]


@dataclass
class ModelCall:
    """What a model's span tells."""

    span: Span
    inputs: list[SpanMessage] = field(default_factory=list)
    """The messages that were sent, with the system prompt as the first if there was one."""
    output: SpanMessage | None = None
    model: str = ""
    usage: Usage = UNKNOWN
    stop_reason: str = ""
    tools: tuple[ToolSpec, ...] = ()
    uses: list[ToolUse] = field(default_factory=list)
    """The tool calls that it asked for, as far as they have spans."""

    @property
    def call_ids(self) -> set[str]:
        """The ids of the calls that it made."""
        return {call.id for call in self.output.calls} - {""} if self.output is not None else set()


class ToolUse(NamedTuple):
    """What a tool's span tells."""

    span: Span
    call: ToolCall
    parts: list[AnyPart]
    error_code: str | None = None
    """If the call failed."""


class AgentUse(NamedTuple):
    """What an agent's span tells."""

    inputs: list[SpanMessage]
    output: SpanMessage | None = None
    name: str = ""
    model: str = ""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()


class Convention(NamedTuple):
    """How the attributes of spans are read."""

    name: str
    kind: Callable[[Span], Kind]
    model_call: Callable[[Span], ModelCall]
    tool_use: Callable[[Span], ToolUse]
    agent_use: Callable[[Span], AgentUse]


def role_of(role: Any) -> str:
    """Return the role of a message in our words. Raises `TraceError` if it is not a text."""
    if not isinstance(role, str):
        raise TraceError(f"A message has the role {role!r}")
    return _ROLES.get(role.lower(), role.lower())


def count_of(value: Any) -> int | None:
    """Return a count of tokens; None for what is none."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
