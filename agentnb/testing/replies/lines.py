"""The lines of the loopback server's script, and the replies made from them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from agentnb.core.messages import Text, Thinking, ToolCall
from agentnb.core.usage import Usage

T = TypeVar("T")


@dataclass(frozen=True)
class Opaque:
    """A content block of the Messages API, sent unchanged, such as ``redacted_thinking`` or ``server_tool_use``.

    The other APIs have no such blocks and omit it.
    """

    block: dict[str, Any]


AnswerPart: TypeAlias = "Text | Thinking | ToolCall | Opaque"


@dataclass(frozen=True)
class Answer:
    """A reply with a set stop reason or usage.

    A ``stop_reason`` of any API (``end_turn``, ``max_tokens``, ``tool_use``, ``refusal``, ``pause_turn``, ``content_filter``
    and so on) is translated to the API of the request; an unknown one is sent unchanged. ``usage`` replaces the estimate.
    """

    parts: str | Sequence[str | AnswerPart] = ()
    stop_reason: str | None = None
    usage: Usage | None = None

    def __post_init__(self) -> None:
        parts = [self.parts] if isinstance(self.parts, str) else self.parts
        object.__setattr__(self, "parts", tuple(_as_part(part) for part in parts))

    @property
    def pieces(self) -> list[AnswerPart]:
        """The parts, with texts as `Text`."""
        return [_as_part(part) for part in self.parts]

    def of(self, kind: type[T]) -> list[T]:
        """Return the parts that have this type."""
        return [part for part in self.parts if isinstance(part, kind)]

    @property
    def text(self) -> str:
        """All its text."""
        return "".join(part.text for part in self.of(Text))

    @property
    def reason(self) -> str:
        """The stop reason, in the terms of the Messages API if known there."""
        reason = _SAME_REASON.get(self.stop_reason or "", self.stop_reason)
        return reason or ("tool_use" if self.of(ToolCall) else "end_turn")


_SAME_REASON = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "max_output_tokens": "max_tokens"}


def as_answer(line: Any) -> Answer:
    """Return the reply for a text, a part or a list of parts; raises TypeError for anything else."""
    if isinstance(line, Answer):
        return line
    if isinstance(line, str | Text | Thinking | ToolCall | Opaque):
        return Answer([line])
    if isinstance(line, Sequence):
        return Answer(line)
    raise TypeError(
        f"A script line must be a string, a part of a reply, a list of these, a misbehaviour or a function, got {line!r}"
    )


def words(text: str) -> list[str]:
    """Split the text into words."""
    return re.findall(r"\S+\s*|\s+", text)


def arguments_text(call: ToolCall) -> str:
    """Return the arguments as JSON; a string is returned unchanged, as a careless model would send it."""
    return call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)


def fragments(text: str) -> list[str]:
    """Split the text into small pieces, as when tool arguments are streamed."""
    return [text[start : start + 6] for start in range(0, len(text), 6)]


def tokens(value: Any) -> int:
    """Estimate the tokens from the length, at four characters per token."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return -(-len(text) // 4)


def output_tokens(answer: Answer) -> tuple[int, int]:
    """Return the tokens of the complete reply and of its thinking."""
    thought = sum(tokens(part.text) for part in answer.of(Thinking))
    called = sum(tokens(call.name) + tokens(arguments_text(call)) for call in answer.of(ToolCall))
    return thought + tokens(answer.text) + called + 1, thought


def _as_part(part: Any) -> AnswerPart:
    if isinstance(part, str):
        return Text(part)
    if isinstance(part, Text | Thinking | ToolCall | Opaque):
        return part
    raise TypeError(f"A reply must consist of Text, Thinking, ToolCall and Opaque parts, got {part!r}")
