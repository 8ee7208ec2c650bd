"""The contents of spans for model calls, tool calls and agents, whatever the convention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from agentnb.core.messages import AnyPart, Image, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.errors import TraceError
from agentnb.interchange.formats.message_content import texts_of
from agentnb.interchange.formats.span_records import Span

Kind: TypeAlias = Literal["agent", "model", "tool", ""]
_ROLES = {"model": "assistant", "ai": "assistant", "human": "user", "function": "tool"}
"""agentnb's role for each role name of other products."""


class SpanMessage(NamedTuple):
    """A message in a span. Each tool result is a separate message."""

    role: str
    parts: tuple[AnyPart, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    name: str = ""
    call_id: str = ""
    error_code: str = ""
    """Error code of the result, if the call failed."""

    @property
    def text(self) -> str:
        """The text, excluding thinking."""
        return self.whole_text.strip()

    @property
    def whole_text(self) -> str:
        """The text, including surrounding white space, as in a system prompt."""
        return texts_of(self.parts)

    @property
    def is_blank(self) -> bool:
        """True if it has neither content nor calls."""
        return not self.calls and not any(isinstance(part, Image | Thinking) or part.text.strip() for part in self.parts)  # type: ignore[union-attr]


@dataclass
class ModelCall:
    """The content of a model span."""

    span: Span
    inputs: list[SpanMessage] = field(default_factory=list)
    """The messages sent, starting with the system prompt, if any."""
    output: SpanMessage | None = None
    model: str = ""
    usage: Usage = UNKNOWN
    stop_reason: str = ""
    tools: tuple[ToolSpec, ...] = ()
    uses: list[ToolUse] = field(default_factory=list)
    """The tool calls in its reply that have their own spans."""

    @property
    def call_ids(self) -> set[str]:
        """The ids of the calls in its reply."""
        return {call.id for call in self.output.calls} - {""} if self.output is not None else set()


class ToolUse(NamedTuple):
    """The content of a tool span."""

    span: Span
    call: ToolCall
    parts: list[AnyPart]
    error_code: str | None = None
    """Error code, if the call failed."""


class AgentUse(NamedTuple):
    """The content of an agent span."""

    inputs: list[SpanMessage]
    output: SpanMessage | None = None
    name: str = ""
    model: str = ""
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()


class Convention(NamedTuple):
    """Functions that read the span attributes of a convention."""

    name: str
    kind: Callable[[Span], Kind]
    model_call: Callable[[Span], ModelCall]
    tool_use: Callable[[Span], ToolUse]
    agent_use: Callable[[Span], AgentUse]


def role_of(role: Any) -> str:
    """Return agentnb's name for the role of a message. Raises `TraceError` if the role is not text."""
    if not isinstance(role, str):
        raise TraceError(f"A message has the role {role!r}")
    return _ROLES.get(role.lower(), role.lower())


def count_of(value: Any) -> int | None:
    """Return a token count, or None for any other value."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
