"""The conversation contained in the spans of a run, without repetitions."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from agentnb.core.log import events as e
from agentnb.core.log.event import ENDS, Noted
from agentnb.core.messages import Image, Message, Text, ToolCall, ToolResult
from agentnb.core.todos import Todo
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats.message_content import str_at
from agentnb.interchange.formats.span_calls import ModelCall, SpanMessage, ToolUse
from agentnb.interchange.formats.span_records import Span, SpanNote, json_value

RESTORED = {str(kind.__struct_config__.tag): kind for kind in e.KINDS if issubclass(kind, Noted)}
"""agentnb's events that are restored from events in its own spans."""
_OF_A_CALL = frozenset({"agentnb.guidance_given", "agentnb.retry_scheduled"})
"""Events that belong to the reply that follows them."""
_PREFIX_CHARACTERS = 60
"""Length of the prefix by which a truncated or reformatted copy is recognized."""


class SpanConversation:
    """Adds the messages in the spans of a run to its writer."""

    def __init__(self, span: Span | None, inputs: list[SpanMessage]) -> None:
        self._span, self._inputs = span, inputs
        self._own = dict(span.attributes) if span is not None and "agentnb.run.id" in span.attributes else {}
        self._added: list[SpanMessage] = []
        self._history = int(self._own.get("agentnb.run.history") or 0)
        self._writer: RunWriter

    # Start

    def about(self, name: str) -> dict[str, Any]:
        """Return the fields of `RunStarted` that the run's own span records."""
        fields: dict[str, Any] = {"agent": name} if name else {}
        if not self._own:
            return fields
        own = {key.removeprefix("agentnb.run."): json_value(value) for key, value in self._own.items()}
        fields |= {"settings": own["settings"]} if isinstance(own.get("settings"), dict) else {}
        fields |= {"run_kind": str(own["kind"])} if own.get("kind") else {}
        fields |= {"tags": tuple(map(str, own["tags"]))} if isinstance(own.get("tags"), list) else {}
        fields |= {"continued_from": str(own["continued_from"])} if own.get("continued_from") else {}
        with suppress(msgspec.ValidationError, TypeError):
            fields |= {"todos": msgspec.convert(own.get("todos") or [], tuple[Todo, ...])}
            fields |= {"forked_from": msgspec.convert(own.get("forked_from"), e.ForkedFrom | None)}
        if self._history:
            fields["history"] = _messages(self._inputs[: self._history_length()])
        return fields

    def _history_length(self) -> int:
        """Return the number of input messages that are history, counting consecutive results as one message."""
        remaining = self._history
        for index, message in enumerate(self._inputs):
            follows = index > 0 and message.role == "tool" == self._inputs[index - 1].role
            if remaining == 0 and not follows:
                return index
            remaining -= not follows
        return len(self._inputs)

    def begin(self, writer: RunWriter, system: str) -> None:
        """Add the prompt and the system prompt from the agent's own span, if any."""
        self._writer = writer
        if system:
            self._add_message(SpanMessage("system", (Text(system),)))
        if self._history:
            self._added += self._inputs[: self._history_length()]
        if self._own:
            origin = json_value(self._own.get("agentnb.run.origin"))
            if isinstance(origin, dict) and isinstance(origin.get("usage"), dict):
                writer.total(msgspec.convert(origin["usage"], Usage))
            for message in self._inputs[self._history_length() if self._history else 0 :]:
                self._add_message(message, self._known_start())

    def _known_start(self) -> datetime | None:
        unknown = self._span is None or self._times(self._span) in ("unknown", "only the end", "only the duration")
        return None if unknown or self._span is None else self._span.started

    # Model calls

    def add_calls(self, models: list[ModelCall]) -> None:
        """Add all model calls with their tool calls, and the agentnb events between them."""
        if not self._own and models and not any(message.role == "user" for message in models[0].inputs):
            for message in self._inputs:
                self._add_message(message, self._known_start())
        items: list[tuple[float, int, Any]] = [(_order(model.span), position, model) for position, model in enumerate(models)]
        replied = [model for model in models if model.output is not None]
        notes = [note for model in replied for note in model.span.events]
        if self._span is not None:  # includes events before a missing reply
            notes += [note for note in self._span.events if note.name not in _OF_A_CALL]
        own = [note for note in notes if note.name.startswith("agentnb.")]
        items += [
            (_number(note.attributes.get("agentnb.seq")), len(models) + position, note) for position, note in enumerate(own)
        ]
        for _, _, item in sorted(items, key=lambda one: one[:2]):
            if isinstance(item, SpanNote):
                self._restore(item)
            else:
                self._call(item)

    def _call(self, model: ModelCall) -> None:
        """Add a model call: its new inputs, its reply, and its calls' results."""
        if model.span.get("agentnb.operation"):
            self._restore(SpanNote("agentnb.model_called", model.span.attributes, self._end(model.span)))
            return
        self._read_inputs(model)
        message = model.output or SpanMessage("assistant")
        has_no_reply = model.span.failed or (model.output is None and model.span.end is None)
        if message.is_blank and has_no_reply and not model.uses:
            return
        uses = _with_ids(model.uses, message.calls)
        call_ids = {call.id for call in message.calls} - {""}
        names = [call.name for call in message.calls]
        extra = [use.call for use in uses if use.call.id not in call_ids and use.call.name not in names]
        self._reply(message, (*message.calls, *extra), model)
        for use in sorted(uses, key=lambda one: (one.span.end or 0, _order(one.span))):
            self._result(use)

    def _reply(self, message: SpanMessage, calls: Iterable[ToolCall], model: ModelCall) -> None:
        metadata = json_value(model.span.get("agentnb.metadata"))
        response = {name: model.span.get(f"gen_ai.response.{name}") for name in ("id", "model")}
        self._writer.reply(
            message.parts,
            calls,
            author=message.name,
            at=self._end(model.span),
            usage=model.usage,
            seconds=self._seconds(model.span),
            stop_reason=model.stop_reason,
            metadata=metadata
            if isinstance(metadata, dict)
            else {name: value for name, value in response.items() if isinstance(value, str)},
            signals=signals if isinstance(signals := model.span.get("agentnb.signals"), list) else (),
        )
        self._added.append(message._replace(calls=tuple(calls)))

    def _result(self, use: ToolUse) -> None:
        self._writer.result(
            use.call.id,
            use.parts,
            name=use.call.name,
            error_code=use.error_code,
            at=self._end(use.span),
            seconds=self._seconds(use.span),
        )
        self._added.append(SpanMessage("tool", tuple(use.parts), name=use.call.name, call_id=use.call.id))

    # Repeated messages

    def _read_inputs(self, model: ModelCall) -> None:
        """Add the input messages that have not been added yet."""
        position = floor = self._last_reply() if model.span.get("agentnb.input.offset") else 0
        used: set[int] = set()
        for message in model.inputs:
            start = floor if message.role == "tool" else position
            index = next(
                (k for k in range(start, len(self._added)) if k not in used and _is_same(self._added[k], message)), None
            )
            if index is None:
                has_prompt = any(earlier.role == "user" for earlier in self._added)
                self._add_message(message, None if has_prompt else (self._span or model.span).started)
                used.add(len(self._added) - 1)
                continue
            used.add(index)
            if message.role != "tool":
                position = floor = index + 1

    def _last_reply(self) -> int:
        """Return the position of the last reply, at which inputs that hold only new messages start."""
        return next((k for k in range(len(self._added) - 1, -1, -1) if self._added[k].role == "assistant"), 0)

    def _add_message(self, message: SpanMessage, at: datetime | None = None) -> None:
        """Add a message that does not have its own span."""
        if message.role == "assistant":
            self._writer.reply(message.parts, message.calls, author=message.name)
        elif message.role == "tool":
            self._writer.result(message.call_id, message.parts, name=message.name, error_code=message.error_code)
        elif message.role in ("system", "developer"):
            self._writer.system(message.whole_text)
        else:
            self._writer.say(message.parts, author=message.name, at=at)
        self._added.append(message)

    # Events of agentnb

    def _restore(self, note: SpanNote) -> None:
        """Restore an agentnb event, and add it."""
        name, data = note.name.removeprefix("agentnb."), json_value(note.attributes.get("agentnb.event"))
        if not isinstance(data, dict):
            return
        at = None if note.attributes.get("agentnb.times") == "unknown" else note.at
        if name == "command_received" and data.get("command") == "say":
            self._restore_message(data, at)
        elif name in RESTORED:
            kind = RESTORED[name]
            with suppress(msgspec.ValidationError, TypeError):
                event: Any = msgspec.convert({"kind": name, "seq": 0, "at": None, "run_id": "-", **data}, kind)
                self._writer.event(kind, at=at, **{field: getattr(event, field) for field in data})

    def _restore_message(self, data: dict[str, Any], at: datetime | None) -> None:
        recorded = data.get("message")
        message = msgspec.convert(recorded, Message) if recorded else Message("user", (Text(str_at(data, "text")),))
        self._add_message(SpanMessage("user", message.parts, name=message.author), at)

    # End

    def end(self, models: list[ModelCall], output: SpanMessage | None) -> Run:
        """Return the run."""
        if not models and output is not None and not output.is_blank:
            self._add_message(output)
        at = self._end(self._span) if self._span is not None else None
        if self._own:
            status = self._own.get("agentnb.run.status")
            if status not in ENDS:
                return self._writer.finish(None)
            seconds = self._own.get("agentnb.run.seconds")
            reason = str_at(self._own, "agentnb.run.stop_reason")
            return self._writer.finish(status, reason, at=at, seconds=float(seconds) if seconds is not None else None)
        failed = next(
            (span for span in (self._span, models[-1].span if models else None) if span is not None and span.failed), None
        )
        if failed is not None:
            error = e.RunError(str(failed.get("error.type") or "Error"), failed.message or "It failed")
            self._writer.error(error, "model")
            return self._writer.finish("failed", "error", at=at)
        seconds = self._span.seconds if self._span is not None else None
        return self._writer.finish_without_end(is_over=at is not None, at=at, seconds=seconds)

    # Times

    def _times(self, span: Span) -> str:
        return str_at(span, "agentnb.times")

    def _seconds(self, span: Span) -> float | None:
        seconds = span.get("agentnb.seconds")
        if isinstance(seconds, int | float):
            return float(seconds)
        return span.seconds if self._times(span) == "" and "agentnb.seq" not in span.attributes else None

    def _end(self, span: Span) -> datetime | None:
        return span.ended if self._times(span) in ("", "only the end") else None


def _with_ids(uses: list[ToolUse], calls: tuple[ToolCall, ...]) -> list[ToolUse]:
    """Return the tool uses in order. A tool use without an id gets that of a call with the same name, preferably with the same
    arguments.
    """
    free = [call for call in calls if call.id not in {use.call.id for use in uses}]
    identified = []
    for use in sorted(uses, key=lambda one: _order(one.span)):
        alike = [call for call in free if call.name == use.call.name] if not use.call.id else []
        arguments = json_value(use.call.arguments)
        call = next(
            (candidate for candidate in alike if json_value(candidate.arguments) == arguments), alike[0] if alike else None
        )
        if call is not None:
            free.remove(call)
            use = use._replace(call=msgspec.structs.replace(use.call, id=call.id))  # noqa: PLW2901
        identified.append(use)
    return identified


def _order(span: Span) -> float:
    """Return the sort key of a span; for agentnb's own spans, this is the number of its last event."""
    return _number(span.get("agentnb.seq", span.start))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _is_same(told: SpanMessage, message: SpanMessage) -> bool:
    """True if a message repeats an earlier one, even if its thinking is missing or its text is truncated."""
    if told.role != message.role and {told.role, message.role} != {"system", "developer"}:
        return False
    if told.role == "tool":
        return _is_same_result(told, message)
    return _is_same_reply(told, message) if told.role == "assistant" else _looks_same(told, message)


def _is_same_result(told: SpanMessage, message: SpanMessage) -> bool:
    if told.call_id and message.call_id:
        return told.call_id == message.call_id
    return told.text == message.text or (bool(told.name) and told.name == message.name)


def _is_same_reply(told: SpanMessage, message: SpanMessage) -> bool:
    if told.is_blank or {call.id for call in told.calls} & ({call.id for call in message.calls} - {""}):
        return True
    if [call.name for call in told.calls] != [call.name for call in message.calls]:
        return False
    return _looks_same(told, message) or (
        bool(told.text and message.text) and told.text[:_PREFIX_CHARACTERS] == message.text[:_PREFIX_CHARACTERS]
    )


def _looks_same(told: SpanMessage, message: SpanMessage) -> bool:
    return told.text == message.text and _pictures(told) == _pictures(message)


def _pictures(message: SpanMessage) -> int:
    return sum(isinstance(part, Image) for part in message.parts)


def _messages(told: list[SpanMessage]) -> tuple[Message, ...]:
    """Convert span messages to messages, combining the results of each round."""
    messages: list[Message] = []
    for message in told:
        if message.role != "tool":
            messages.append(
                Message("assistant" if message.role == "assistant" else "user", (*message.parts, *message.calls), message.name)
            )
            continue
        parts = tuple([part for part in message.parts if isinstance(part, Text | Image)])
        result = ToolResult(message.call_id, message.name, parts, bool(message.error_code), message.error_code or None)
        if messages and messages[-1].role == "tool":
            messages[-1] = msgspec.structs.replace(messages[-1], parts=(*messages[-1].parts, result))
        else:
            messages.append(Message("tool", (result,)))
    return tuple(messages)
