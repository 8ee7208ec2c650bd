"""Session logs of coding agents: collecting the items of a session and converting them to a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any, Literal, TypeAlias

import msgspec

from agentnb.core.log.events import RunError
from agentnb.core.messages import AnyPart, Text, ToolCall
from agentnb.core.run.rounds import SERVER_SIDE
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.conversion.stop_reasons import NATURAL
from agentnb.interchange.formats.message_content import first_at
from agentnb.interchange.trace_file import TraceFile

COMMAND = "command"
"""Author of a local command that the person ran, and of its output."""
MAX_ID_CHARACTERS = 100


@dataclass(slots=True)
class Reply:
    """A reply from the model. Later lines may extend it."""

    parts: list[AnyPart] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    author: str = ""
    at: datetime | None = None
    usage: Usage = UNKNOWN
    seconds: float | None = None
    stop_reason: str = ""
    model: str = ""
    response_id: str = ""
    """The provider's id for the reply, shared by its copies in other sessions."""
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def is_answer(self) -> bool:
        """True if it has content and no calls except those of server-side tools."""
        return bool(self.parts) and all(SERVER_SIDE in (call.provider_metadata or ()) for call in self.calls)


@dataclass(slots=True)
class _UserMessage:
    parts: Sequence[AnyPart]
    author: str
    at: datetime | None
    kind: Literal["person", "notice", "interruption"]


@dataclass(slots=True)
class _Result:
    call_id: str
    content: Sequence[AnyPart] | str | None
    fields: dict[str, Any]


@dataclass(slots=True)
class _Problem:
    message: str
    at: datetime | None
    ends: bool


@dataclass(slots=True)
class _Summary:
    text: str
    fields: dict[str, Any]


_Item: TypeAlias = Reply | _UserMessage | _Result | _Problem | _Summary


class SessionLog:
    """The items of a session, in order.

    If the product's own notices precede the prompt, they are moved after it. A final interruption or error ends the run.
    """

    def __init__(self) -> None:
        self.items: list[_Item] = []
        self.copied = 0
        """Number of items at the start that were copied from another session."""
        self.open: Reply | None = None
        """The reply being extended, in formats with partial replies; a message or summary closes it."""

    def say(self, content: Sequence[AnyPart] | str, *, author: str = "", at: datetime | None = None) -> None:
        """Add a message to the agent, from the person or, if there is an author, from the product."""
        parts = [Text(content)] if isinstance(content, str) else content
        self.open = None
        self.items.append(_UserMessage(parts, author, at, "notice" if author else "person"))

    def interrupt(self, text: str, at: datetime | None = None) -> None:
        """Add an interruption of the run by the person."""
        self.open = None
        self.items.append(_UserMessage([Text(text)], "", at, "interruption"))

    def reply(self, reply: Reply) -> Reply:
        """Add and return a reply."""
        self.items.append(reply)
        return reply

    def open_reply(self, at: datetime | None, model: str = "") -> Reply:
        """Return the open reply, or open a new one at this time if there is none."""
        if self.open is None:
            self.open = self.reply(Reply(at=at, model=model))
        return self.open

    def result(self, call_id: str, content: Sequence[AnyPart] | str | None, **fields: Any) -> None:
        """Add the result of a call. ``fields``: those of `RunWriter.result`."""
        self.items.append(_Result(call_id, content, fields))

    def compact(self, summary: str, **fields: Any) -> None:
        """Add a summary that replaces earlier messages. ``fields``: those of `RunWriter.compact`."""
        self.open = None
        self.items.append(_Summary(summary, fields))

    def warn(self, message: str, at: datetime | None = None) -> None:
        """Add a warning."""
        self.items.append(_Problem(message, at, ends=False))

    def fail(self, message: str, at: datetime | None = None) -> None:
        """Add an error. If it is final, it ends the run; otherwise it becomes a warning."""
        self.items.append(_Problem(message, at, ends=True))

    @property
    def replies(self) -> list[Reply]:
        """The replies so far."""
        return [item for item in self.items if isinstance(item, Reply)]

    def arguments_of(self, call_id: str) -> Any:
        """Return the arguments of a call, or None if there is no such call."""
        return next((call.arguments for reply in self.replies for call in reply.calls if call.id == call_id), None)

    @property
    def last_reply(self) -> Reply | None:
        """The most recent reply."""
        return next((item for item in reversed(self.items) if isinstance(item, Reply)), None)

    @property
    def copied_replies(self) -> int:
        """The number of replies that were copied."""
        return sum(isinstance(item, Reply) for item in self.items[: self.copied])

    @property
    def ends_with_message(self) -> bool:
        """True if the last item is a message to the agent."""
        return bool(self.items) and isinstance(self.items[-1], _UserMessage)

    @property
    def model(self) -> str:
        """The model of the first reply that names one; replies that were not copied take precedence."""
        return next(
            (reply.model for reply in (*self.items[self.copied :], *self.replies) if isinstance(reply, Reply) and reply.model),
            "",
        )

    def write(
        self, writer: RunWriter, model: str = "", *, ended: bool = False, end: Callable[[], Run | None] | None = None
    ) -> Run:
        """Return the run. ``model``: the model of the run; replies from other models name theirs. ``ended``: True if the log
        records a regular end.

        ``end``: finishes the writer as recorded in the log, or returns None. Raises `TraceError` if the session is empty.
        """
        if not self.items:
            raise TraceError("The session has no messages", "Choose a session with a conversation")
        copied = self.copied
        while copied and isinstance(next(iter(self.items[copied : copied + 1]), None), _Result):
            copied += 1  # result of a copied call
        own = self.items[copied:]
        last = _last(own)
        self._hand_over(writer, self.items[:copied], model, None)
        writer.mark_copied()
        self._hand_over(writer, own, model, last)
        finished = None if end is None else end()
        if finished is not None:
            return finished
        if isinstance(last, _Problem):
            return writer.finish("failed", "error")
        if isinstance(last, _UserMessage) and last.kind == "interruption":
            return writer.finish("cancelled", "cancelled")
        if (ended and own) or (isinstance(last, Reply) and last.is_answer and last.stop_reason in NATURAL):
            return writer.finish("completed", "natural")
        return writer.finish("unknown" if isinstance(last, Reply) and last.is_answer else None, "")

    def _hand_over(self, writer: RunWriter, items: list[_Item], model: str, last: _Item | None) -> None:
        """Add these items to the writer. ``last``: the last item of all."""
        for item in _in_order(items):
            if isinstance(item, _UserMessage):
                by_person = item.kind != "notice" or item.author == COMMAND
                writer.say(item.parts, author=item.author, at=item.at, by_person=by_person)
            elif isinstance(item, _Result):
                writer.result(item.call_id, item.content, **item.fields)
            elif isinstance(item, Reply):
                _write_reply(writer, item, model)
            elif isinstance(item, _Summary):
                writer.compact(item.text, **item.fields)
            elif item is last:
                error = RunError("ModelError", item.message)
                writer.error(error, "model", item.at)
            else:
                writer.warn(item.message, item.at)


def _last(items: list[_Item]) -> _Item | None:
    """Return the last item, ignoring results and notices from the product."""
    for item in reversed(items):
        if isinstance(item, Reply) or (isinstance(item, _UserMessage) and item.kind != "notice"):
            return item
        if isinstance(item, _Problem) and item.ends:
            return item
    return None


def _in_order(items: list[_Item]) -> list[_Item]:
    """Return the items, moving the prompt before the product's notices."""
    replied = next((index for index, item in enumerate(items) if isinstance(item, Reply)), len(items))
    messages = [item for item in items[:replied] if isinstance(item, _UserMessage)]
    prompt = next((item for item in messages if item.kind == "person" and _has_text(item)), None)
    prompt = prompt or next((item for item in messages if item.author == COMMAND), None)
    return items if prompt is None else [prompt, *[item for item in items if item is not prompt]]


def _has_text(item: _UserMessage) -> bool:
    return any(not isinstance(part, Text) or part.text.strip() for part in item.parts)


def _write_reply(writer: RunWriter, reply: Reply, model: str) -> None:
    other_model = {"model": reply.model} if reply.model and reply.model != model else {}
    writer.reply(
        reply.parts,
        reply.calls,
        author=reply.author,
        at=reply.at,
        usage=reply.usage,
        seconds=reply.seconds,
        stop_reason=reply.stop_reason,
        metadata=reply.metadata | other_model | drop_empty(response_id=reply.response_id),
    )


def run_id_of(*parts: str) -> str:
    """Return a run id made of these ids from the file; empty if the first one is empty."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", "-".join(filter(None, parts)))[-MAX_ID_CHARACTERS:] if parts[0] else ""


def text_of(value: Any) -> str:
    """Return the text, or an empty text for any other value."""
    return value if isinstance(value, str) else ""


def text_at(fields: Mapping[str, Any], *names: str) -> str:
    """Return the first value under these names that is true, if it is text; otherwise an empty text."""
    return text_of(first_at(fields, *names))


def count_of(value: Any) -> int | None:
    """Return the token count, or None for any other value."""
    return value if type(value) is int and value >= 0 else None


def add_cache_to_input(usage: Mapping[str, Any], fresh: str, output: str, read: str, written: str) -> Usage:
    """Return the usage for a product that counts cache tokens separately from the input, under these keys."""
    new, generated, cached, kept = (count_of(usage.get(name)) for name in (fresh, output, read, written))
    sent = None if new is None else new + (cached or 0) + (kept or 0)
    return Usage(input=sent, output=generated, cache_read=cached, cache_write=kept)


def seconds_of(milliseconds: Any) -> float | None:
    """Convert milliseconds to seconds; return None for other values."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float) or not 0 <= milliseconds < 1e15:
        return None
    return milliseconds / 1000


def drop_empty(**recorded: Any) -> dict[str, Any]:
    """Return the recorded fields, dropping missing and empty ones."""
    return {name: value for name, value in recorded.items() if value not in (None, "", [], {})}


def sort_by_links(
    lines: Iterable[tuple[int, Any]], links: Callable[[dict[str, Any]], tuple[str, str]]
) -> Iterator[tuple[int, Any]]:
    """Yield numbered lines, each after the line that it follows.

    ``links``: returns the ids of a line and of its predecessor, empty if missing.
    """
    linked = [(line, links(line[1]) if isinstance(line[1], dict) else ("", "")) for line in lines]
    missing = {own for _, (own, _) in linked} - {""}
    waiting: dict[str, list[Any]] = {}
    for entry in linked:
        ready = [entry]
        while ready:
            line, (own, before) = ready.pop()
            if before in missing:
                waiting.setdefault(before, []).append((line, (own, before)))
                continue
            yield line
            missing.discard(own)
            ready += reversed(waiting.pop(own, ()))
    for line, _ in chain.from_iterable(waiting.values()):  # cyclic links
        yield line


def first_records(file: TraceFile, most: int = 50) -> list[dict[str, Any]]:
    """Return the objects among the first records of JSON Lines, or the only document, for use by `sniff`."""
    records: list[Any] = [file.first]
    if file.kind == "lines":
        for line in file.start.splitlines()[1:most]:
            try:
                records.append(msgspec.json.decode(line))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # truncated, or invalid JSON
                continue
    return [record for record in records if isinstance(record, dict)]
