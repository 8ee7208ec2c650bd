"""A round's request as HTML, with the origin of each piece.

All text is shown as sent, in ``<pre>``, except for control characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from agentnb.context.request_history import LeftOut, SentRequest
from agentnb.core.messages import AnyPart, Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import ToolSpec
from agentnb.display.defaults import MAX_OF_A_SENT_RESULT, MAX_OF_A_SENT_TEXT
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag, words
from agentnb.display.texts.labels import first_line, pluralize, thousands

MAX_OF_A_SCHEMA = 600
"""Maximum characters of a tool's schema in a saved notebook. The todo tool's schema alone has twelve thousand."""
MAX_INLINE_CHARACTERS = 100
"""Maximum characters of JSON shown on one line."""
MAX_NAMES = 200
"""Maximum characters of the line that lists the tools' names."""

STORED = "stored; some earlier messages of round {} are not sent"
NEWEST = 2
"""The number of messages that a round adds: a reply, and the message after it."""

WHY_LEFT_OUT = {
    "workflow_mode": "text that workflow mode continued from is not sent again",
    "failed_round": "every call of that round failed",
    "empty": "it is empty",
}


_MARKS = {"stored": "=", "new": "+", "summed": "Σ", "ephemeral": "◌", "left-out": "⊘"}
"""The mark of each origin of a message."""


class _Form(NamedTuple):
    """Maximum characters shown, or None for no limit."""

    result: int | None = None
    text: int | None = None


_WHOLE = _Form()
_CUT = _Form(MAX_OF_A_SENT_RESULT, MAX_OF_A_SENT_TEXT)


def request_view_html(seen: SentRequest, *, whole: bool, schemas: bool = False) -> Html:
    """Return the request of a round.

    ``whole``: show all of it; otherwise only the new parts, and a line about the rest, so that the requests of a long run take
    no more space than the run itself. ``schemas``: always include the tools' full schemas.
    """
    form = _WHOLE if whole else _CUT
    has_frame = whole or seen.index == 0
    frame = _frame(seen, whole or schemas) if has_frame else _line("same", "= System prompt and tools: same as in round 1")
    return tag("div", "sight", tag("div", "sight-summary", summary(seen)), frame, _messages(seen, form, whole))


def summary(seen: SentRequest) -> str:
    """Return a summary: ``7 messages, about 2.1k tokens, 5 as in the previous round (cached 1.8k tokens)``."""
    prefix = "about " if seen.tokens_estimated else ""
    parts = [pluralize(len(seen.request.messages), "message"), f"{prefix}{thousands(seen.tokens)} tokens"]
    if seen.unchanged:
        parts.append(f"{seen.unchanged} as in the previous round")
    if seen.kept > seen.unchanged:
        parts.append("1 more differs only in its reminder" if seen.unchanged else "1 differs only in its reminder")
    if seen.sent_before and not seen.kept:
        parts.append("none as in the previous round")
    if seen.compacted is not None and seen.compacted.text:
        parts.append(f"with a summary of {pluralize(seen.compacted.count, 'stored message')}")
    if not_sent := len(seen.left_out) + _dropped_count(seen) + seen.truncated:
        parts.append(f"{not_sent} left out")
    return f"{', '.join(parts)} ({_cache_words(seen.cached)})"


def _dropped_count(seen: SentRequest) -> int:
    """Return the number of messages that a compaction dropped without a summary."""
    return seen.compacted.count if seen.compacted is not None and not seen.compacted.text else 0


def _cache_words(tokens: int | None) -> str:
    if tokens is None:
        return "cached: unknown"
    return f"cached {thousands(tokens)} tokens" if tokens else "nothing cached"


def _line(kind: str, text: str) -> Html:
    return tag("div", f"sight-{kind}", text)


def _fold(title: str, *content: Html) -> Html:
    return fold_tag("sight-fold", "sight-title", title, *content)


def _pre(text: str, most: int | None = None, kind: str = "sight-text") -> Html:
    shown = words(text, most)
    return tag("pre", kind, Html(f"\n{shown}") if shown.startswith("\n") else shown)  # HTML drops a leading line break


def _json(value: Any, most: int | None = None) -> Html:
    data = msgspec.json.encode(value)
    on_one_line = msgspec.json.format(data, indent=0)
    shown = on_one_line if len(on_one_line) <= MAX_INLINE_CHARACTERS else msgspec.json.format(data, indent=2)
    return _pre(shown.decode(), most)


# System prompt, tools and settings


def _frame(seen: SentRequest, whole: bool) -> Html:
    request = seen.request
    system = _fold(f"System prompt, {pluralize(len(request.system), 'character')}", _pre(request.system))
    tool_names = first_line(", ".join(tool.name for tool in request.tools), MAX_NAMES)
    tools = _fold(f"{pluralize(len(request.tools), 'tool')}: {tool_names}", *[_tool(tool, whole) for tool in request.tools])
    return join_html(
        system if request.system else _line("same", "No system prompt"),
        tools if request.tools else _line("same", "No tools"),
        _fold("Settings", _json(request.settings)) if request.settings else NOTHING,
    )


def _tool(tool: ToolSpec, whole: bool) -> Html:
    description = _pre(tool.description) if tool.description else NOTHING
    schema = _fold("its arguments, as JSON Schema", _json(tool.input_schema, None if whole else MAX_OF_A_SCHEMA))
    return tag("div", "sight-tool", tag("div", "sight-head", tag("b", "", tool.name)), description, schema)


# The messages


def _messages(seen: SentRequest, form: _Form, whole: bool) -> Html:
    """Return all messages in order: those from the previous round on one line or folded, followed by the new ones."""
    repeated, origin = _repeated_messages(seen)
    split = seen.left_out_before if seen.sent_before else sum(one.place < repeated for one in seen.left_out)
    end = len(seen.request.messages)
    moved = range(max(1, repeated), end - NEWEST) if _was_rebuilt(seen) and not whole else range(0)
    later = (*_message_range(seen, repeated, end, seen.left_out[split:], form, moved), _ephemeral(seen))
    numbers = "Message 1" if repeated == 1 else f"Messages 1 to {repeated}"
    title = f"{numbers}: {origin}" if repeated else f"As in round {seen.index}"
    title += f"; {split} left out there too" if split else ""
    if repeated > 1 and (gap := _dropped_count(seen) + seen.truncated):
        title += f"; {pluralize(gap, 'message')} left out after the first"
    title += f"; they include the summary of {_summary_words(seen)}" if _place_of_summary(seen) in range(repeated) else ""
    if not repeated and not split:
        return join_html(*later)
    if whole:
        return join_html(_fold(f"= {title}", *_message_range(seen, 0, repeated, seen.left_out[:split], form)), *later)
    return join_html(_line("same", f"= {title}"), *later)


def _was_rebuilt(seen: SentRequest) -> bool:
    """True if messages from the middle of the previous request are no longer sent, with or without a summary."""
    return seen.kept < seen.sent_before - 1


def _repeated_messages(seen: SentRequest) -> tuple[int, str]:
    """Return the number of leading messages not to be shown again, and their origin."""
    if not seen.sent_before:
        return seen.inherited, "stored, from the continued run"
    but = "" if seen.unchanged == seen.kept else f"{'' if seen.kept == 1 else ', the last'} except for the reminder"
    return seen.kept, f"stored, as in round {seen.index}{but}"


def _message_range(
    seen: SentRequest, start: int, end: int, left_out: Iterable[LeftOut], form: _Form, moved: range = range(0)
) -> Iterator[Html]:
    """Yield these messages of the request, with omitted ones at their positions.

    Messages that have merely ``moved`` share one line, except for the summary.
    """
    waiting = list(left_out)
    summary = _place_of_summary(seen) if moved else None
    for index in range(start, end):
        if index == max(1, start) and start <= 1:
            yield _gap(seen)
        while waiting and waiting[0].place <= index:
            yield _omitted_html(waiting.pop(0), form)
        if index not in moved or index == summary:
            yield _message(seen, index, form)
        elif index == moved.start or index - 1 == summary:
            first = f"Message {index + 1}" if index == moved.stop - 1 else f"Messages {index + 1} to {moved.stop}"
            yield _line("same", f"= {first}: {STORED.format(seen.index)}")
    for message in waiting:
        yield _omitted_html(message, form)


def _gap(seen: SentRequest) -> Html:
    """Return lines about messages missing after the first one."""
    lines = []
    if count := _dropped_count(seen):
        lines.append(f"{pluralize(count, 'stored message')} left out: they could not be summarized")
    if seen.truncated:
        lines.append(f"{pluralize(seen.truncated, 'message')} left out: over the message limit")
    return join_html(*[tag("div", "sight-message sight-bar-left-out", tag("div", "sight-head", f"⊘ {line}")) for line in lines])


def _message(seen: SentRequest, index: int, form: _Form) -> Html:
    is_last = index == len(seen.request.messages) - 1
    message = seen.lasting if is_last else seen.request.messages[index]
    number = f"{index + 1} · {message.role}" + (f" · {first_line(message.author, MAX_NAMES)}" if message.author else "")
    if seen.compacted is not None and index == _place_of_summary(seen):
        label = f"Σ a summary of {_summary_words(seen)}"
        alone, content = _with_summary(seen.compacted.text, label, message, form)
        word = label[2:] if alone else "stored, joined with a summary"
        return _frame_message(number, "summed", word, content)
    return _frame_message(number, *_origin(seen, index), *[_part(part, form) for part in message.parts])


def _place_of_summary(seen: SentRequest) -> int | None:
    """Return the index of the message with the summary, if any. It is one of the first messages, and may contain other text."""
    if seen.compacted is None or not seen.compacted.text:
        return None
    first = enumerate(list(seen.request.messages[: seen.compacted.first + 2]))
    return next((index for index, message in first if seen.compacted.text in message.text), None)


def _with_summary(summary: str, label: str, message: Message, form: _Form) -> tuple[bool, Html]:
    """Return whether the message contains only the summary, and its HTML; any other text in it is from stored messages."""
    alone = len(message.parts) == 1 and message.text.strip() == summary.strip()
    pieces: list[Html] = []
    for part in message.parts:
        before, match, after = part.text.partition(summary) if isinstance(part, Text) else ("", "", "")
        head = NOTHING if alone else tag("div", "sight-part", tag("span", "sight-summed", label))
        around = [_pre(words.strip(), form.text) if words.strip() else NOTHING for words in (before, after)]
        pieces.append(join_html(around[0], head, _pre(match, form.text), around[1]) if match else _part(part, form))
    return alone, join_html(*pieces)


def _summary_words(seen: SentRequest) -> str:
    return pluralize(seen.compacted.count if seen.compacted is not None else 0, "stored message")


def _ephemeral(seen: SentRequest) -> Html:
    """Return the complete reminder at the end of the request."""
    if not seen.ephemeral:
        return NOTHING
    number = f"{len(seen.request.messages)} · {seen.request.messages[-1].role}, its end"
    return _frame_message(number, "ephemeral", "ephemeral, in this request only", _pre(seen.ephemeral))


def _omitted_html(omitted: LeftOut, form: _Form) -> Html:
    origin = f"left out: {WHY_LEFT_OUT[omitted.why]}"
    return _frame_message(omitted.message.role, "left-out", origin, *[_part(part, form) for part in omitted.message.parts])


def _origin(seen: SentRequest, index: int) -> tuple[str, str]:
    """Return the kind of a message's origin, and the origin in words."""
    if not seen.sent_before:
        return ("stored", "stored, from the previous run") if index < seen.inherited else ("new", "new, stored")
    if index < seen.unchanged:
        return "stored", f"stored, as in round {seen.index}"
    if index < seen.kept:
        return "stored", f"stored, as in round {seen.index} except for the reminder"
    if _was_rebuilt(seen):
        return "stored", STORED.format(seen.index)
    if index < seen.sent_before:
        return "new", f"stored; text was added since round {seen.index}"
    return "new", f"new since round {seen.index}, stored"


def _frame_message(number: str, kind: str, origin: str, *content: Html) -> Html:
    mark = tag("span", f"sight-{kind}", f"{_MARKS[kind]} {origin}")
    head = tag("div", "sight-head", tag("b", "", number), " · ", mark)
    return tag("div", f"sight-message sight-bar-{kind}", head, *content)


# The parts of a message


def _part(part: AnyPart, form: _Form) -> Html:
    return join_html(_content(part, form), _for_the_provider(part))


def _content(part: AnyPart, form: _Form) -> Html:
    match part:
        case Text():
            blank = pluralize(len(part.text), "blank character") if part.text else "empty"
            return _pre(part.text, form.text) if part.text.strip() else _line("part", f"text, {blank}")
        case Thinking():
            line = _line("part", "thinking" if part.text else "thinking, no text")
            return join_html(line, _pre(part.text, form.text)) if part.text else line
        case Image():
            return _line("part", f"picture, {size(len(part.data))}, {first_line(part.media_type, 60)}")
        case ToolCall():
            return join_html(_part_line("call of", part.name, part.id), _json(part.arguments, form.text))
        case ToolResult():
            failure = f"✗ error {part.error_code or ''}".rstrip() if part.is_error else ""
            inner = [_result_part(item, form) for item in part.parts] or [_line("part", "empty")]
            return join_html(_part_line("result of", part.name, part.call_id, failure), *inner)


def _result_part(part: Text | Image, form: _Form) -> Html:
    return _pre(part.text, form.result, "sight-text sight-result") if isinstance(part, Text) else _content(part, form)


def _part_line(kind: str, name: str, call_id: str, more: str = "") -> Html:
    identity = tag("span", "sight-id", call_id)
    return tag("div", "sight-part", f"{kind} ", tag("b", "", name), " · ", identity, f" · {more}" if more else "")


def _for_the_provider(part: AnyPart) -> Html:
    """Return a note if opaque data for the provider is sent with the part."""
    data = None if isinstance(part, Image | ToolResult) else part.provider_metadata
    if data is None:
        return NOTHING
    keys = first_line(", ".join(data), MAX_NAMES)
    return _line("part", f"with provider data, {size(len(msgspec.json.encode(data)))}: {keys}")


def size(count: int) -> str:
    """Format a number of bytes, such as ``312 B``, ``12 kB``, ``3.4 MB``."""
    if count < 1_000:
        return f"{count} B"
    return f"{count / 1_000:.0f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"
