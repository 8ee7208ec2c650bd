"""Compaction of a long conversation: chooses the messages to replace, and builds the text that replaces them. Pure
functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from agentnb.context.history_settings import History
from agentnb.context.truncation import include_calls
from agentnb.core.compaction_records import WhyCompacted
from agentnb.core.messages import AnyPart, Image, Message, Thinking, ToolCall, ToolResult, encodable, user
from agentnb.core.request import Request
from agentnb.core.todos import Todo, format_with_heading, has_open
from agentnb.guidance.prompts import prompt
from agentnb.models.estimate import tokens_of_message

RESULT, WORDS = 500, 4_000
"""Maximum characters of a tool result, and of other text, in the record for the summary model."""
MAX_RECORD = 400_000
"""Maximum characters of the complete record; if it is longer, the middle is left out."""
WORTH_SHARE = 0.25
"""Minimum share of a request, including prompt and tools, that must be replaceable to justify another summary so soon."""
RECENT_SHARE = 0.5
"""Maximum share of a long conversation for messages kept verbatim."""


def why_due(history: History, messages: int, tokens: int | None, window: int | None) -> WhyCompacted | None:
    """Return the reason for compacting before a request with this many messages and about this many tokens, or None.

    The number of tokens may be unknown.
    """
    if history.compact_above is not None and messages > history.compact_above:
        return "messages"
    if history.share is not None and window is not None and tokens is not None and tokens > history.share * window:
        return "share"
    return None


def start_of_recent(messages: Sequence[Message], keep: int, most_tokens: float | None) -> int | None:
    """Return the index of the first message to keep, or None if nothing would be replaced.

    Keeps the last ``keep`` messages, or fewer if these exceed ``most_tokens``, and the calls that their results
    belong to.
    """
    start = max(2, len(messages) - keep)
    if most_tokens is not None:
        start = max(start, _start_within(messages, most_tokens))
    start = include_calls(messages, min(start, len(messages) - 1))
    return start if start >= 2 else None


def recent_tokens(messages: Sequence[Message]) -> float:
    """Return the maximum number of tokens to keep when a conversation is too long (rather than having too many messages).

    This is a share of the conversation, not of the window: the prompt may fill most of the window, or the window's size may be
    unknown.
    """
    return RECENT_SHARE * sum(map(tokens_of_message, messages[1:]))


def is_worth_it(messages: Sequence[Message], start: int, tokens: int) -> bool:
    """True if replacing the messages from 1 up to ``start`` would save enough of a request with this many ``tokens``."""
    return sum(map(tokens_of_message, messages[1:start])) >= WORTH_SHARE * tokens


def _start_within(messages: Sequence[Message], most_tokens: float) -> int:
    remaining, start = most_tokens, len(messages)
    while start > 1 and (remaining := remaining - tokens_of_message(messages[start - 1])) >= 0:
        start -= 1
    return start


def summary_request(messages: Sequence[Message], earlier: str = "") -> Request:
    """Return the request for a summary of these messages: without tools, all messages in one text.

    ``earlier``: the summary among them, which is not truncated. The reply has no length limit, since thinking would
    count towards it, and a truncated summary loses facts.
    """
    return Request(prompt("compaction"), (user(record_of(messages, earlier)),))


def record_of(messages: Iterable[Message], earlier: str = "") -> str:
    """Return the messages as text, with long results and long text truncated, except for the ``earlier`` summary among them."""
    text = "\n\n".join(line for message in messages for line in _lines(message, earlier))
    if len(text) > MAX_RECORD:
        half = MAX_RECORD // 2
        text = f"{text[:half]}\n\n[… {len(text) - MAX_RECORD:,} characters left out …]\n\n{text[-half:]}"
    return f"<record>\n{text}\n</record>"


def _lines(message: Message, earlier: str) -> Iterable[str]:
    who = {"user": "Person", "tool": "Person"}.get(message.role, "Agent")
    for part in message.parts:
        line = _line(part, who, earlier)
        if line:
            yield line


def _line(part: AnyPart, who: str, earlier: str) -> str:
    if isinstance(part, ToolCall):
        return f"Agent calls {part.name}: {_cut(msgspec.json.encode(part.arguments).decode(), RESULT)}"
    if isinstance(part, ToolResult):
        error = " (an error)" if part.is_error else ""
        handle = f" (handle {part.call_id})" if len(part.text) > RESULT else ""
        return f"Result of {part.name}{error}: {_cut(part.text or '(a picture)', RESULT)}{handle}"
    if isinstance(part, Image):
        return f"{who}: (a picture)"
    if isinstance(part, Thinking):
        return ""
    return f"{who}: {part.text if earlier and earlier in part.text else _cut(part.text, WORDS)}"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [… {len(text) - most:,} more characters]"


def summary_text(summary: str, count: int, todos: tuple[Todo, ...]) -> str:
    """Return the summary to send: a heading, the model's text and the todos, or only the todos if the text is empty."""
    if not summary.strip():
        return f"As of this point:\n\n{format_with_heading(todos)}" if has_open(todos) else ""
    noun = "message" if count == 1 else "messages"
    parts = [f"[Conversation Summary - {count} {noun} compacted]", encodable(summary).strip()]
    if has_open(todos):
        parts.append(f"As of this point:\n\n{format_with_heading(todos)}")
    return "\n\n".join(parts)


def plain_summary(messages: Sequence[Message], task: str) -> str:
    """Build a summary without a model, under the same headings; for models that are not language models."""
    calls = [call for message in messages for call in message.calls]
    results = [part for message in messages for part in message.parts if isinstance(part, ToolResult)]
    words = [message.text for message in messages if message.role == "assistant" and message.text.strip()]
    changed = dict.fromkeys(path for call in calls for path in _paths(call))
    points = {
        "Original task": [_cut(task, WORDS)],
        "Key decisions": [_cut(text, 200) for text in words[:-1][-5:]],
        "Files modified": list(changed),
        "Current state": [_cut(text, RESULT) for text in words[-1:]],
        "Pending work": [],
        "Important context": [f"{result.name} gave: {_cut(result.text, 200)}" for result in results[-5:]],
    }
    return "\n\n".join(f"## {heading}\n{_points(lines)}" for heading, lines in points.items())


def _points(lines: list[str]) -> str:
    return "\n".join(f"- {' '.join(line.split())}" for line in lines) or "None"


def _paths(call: ToolCall) -> Iterable[str]:
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    return (str(value) for name, value in arguments.items() if name in ("path", "file", "filename") and isinstance(value, str))
