"""Steps for a `RunWriter`, shared by all APIs: system prompts, user messages, replies and results."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from agentnb.core.messages import AnyPart, Image, Thinking, ToolCall
from agentnb.core.run.rounds import SERVER_SIDE
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats.message_content import texts_of


class SystemPrompt(NamedTuple):
    """A system prompt."""

    text: str


class UserMessage(NamedTuple):
    """A message from the person or another speaker."""

    parts: list[AnyPart]
    author: str = ""
    at: datetime | None = None


class Reply(NamedTuple):
    """A reply from the model with its calls."""

    parts: list[AnyPart]
    calls: list[ToolCall]
    author: str = ""
    at: datetime | None = None
    usage: Usage = UNKNOWN
    seconds: float | None = None
    stop_reason: str = ""
    metadata: dict[str, Any] | None = None


class Result(NamedTuple):
    """The result of a call. ``inside``: True for a server-side call within the reply."""

    call_id: str
    parts: list[AnyPart]
    name: str = ""
    is_error: bool = False
    at: datetime | None = None
    seconds: float | None = None
    inside: bool = False


class Note(NamedTuple):
    """A warning to the person, such as an error from which the agent recovered."""

    message: str


Step: TypeAlias = SystemPrompt | UserMessage | Reply | Result | Note


def write_steps(writer: RunWriter, steps: Iterable[Step]) -> None:
    """Add steps to the writer of a run."""
    for step in steps:
        if isinstance(step, SystemPrompt):
            writer.system(step.text)
        elif isinstance(step, UserMessage):
            writer.say(step.parts, author=step.author, at=step.at)
        elif isinstance(step, Reply):
            fields = {"author": step.author, "at": step.at, "usage": step.usage, "seconds": step.seconds}
            writer.reply(step.parts, step.calls, stop_reason=step.stop_reason, metadata=step.metadata, **fields)  # type: ignore[arg-type]
        elif isinstance(step, Note):
            writer.warn(step.message)
        else:
            details = {"name": step.name, "is_error": step.is_error, "at": step.at, "seconds": step.seconds}
            writer.result(step.call_id, step.parts, **details)  # type: ignore[arg-type]


class ReplyPieces:
    """Combines pieces from the model into a reply, including the results of server-side calls within it.

    After the result of any other call, the next piece starts a new reply.
    """

    def __init__(self, author: str = "", at: datetime | None = None) -> None:
        self.author, self.at = author, at
        self._done: list[Step] = []
        self._parts: list[AnyPart] = []
        self._calls: list[ToolCall] = []
        self._results: list[Step] = []
        self._is_answered = False
        """True if the client has returned a result for one of the reply's calls."""

    def say(self, parts: Iterable[AnyPart]) -> None:
        """Add text or thinking."""
        for part in parts:
            self._begin()
            self._parts.append(part)

    def call(self, call: ToolCall, result: Result | None = None) -> None:
        """Add a call, including its result if it ran on the server."""
        if len(self._results) >= len(self._calls):  # otherwise parallel to a call without a result
            self._begin()
        self._calls.append(call)
        if result is not None:
            self._results.append(result)

    def result(self, result: Result) -> None:
        """Add the result of a call within the reply."""
        self._results.append(result)
        of_provider = (call.id == result.call_id and SERVER_SIDE in (call.provider_metadata or ()) for call in self._calls)
        self._is_answered |= not any(of_provider)

    def steps(self, **last: Any) -> list[Step]:
        """Return the collected steps, and clear them. ``last``: fields for the last reply, such as its usage."""
        if self._parts or self._calls or self._results or (last and not self._done):
            self._close(**last)
        steps, self._done = self._done, []
        return steps

    def __bool__(self) -> bool:
        return bool(self._done or self._parts or self._calls or self._results)

    def _begin(self) -> None:
        if self._is_answered:
            self._close()

    def _close(self, **fields: Any) -> None:
        self._done += [Reply(self._parts, self._calls, self.author, self.at, **fields), *self._results]
        self._parts, self._calls, self._results, self._is_answered = [], [], [], False


def signature(step: Step) -> tuple[Any, ...]:
    """Return the part of a step that stays the same when the step is repeated; ids, cache marks and thinking may differ."""
    if isinstance(step, UserMessage):
        return ("said", texts_of(step.parts).strip(), sum(isinstance(part, Image) for part in step.parts))
    if isinstance(step, Reply):
        return ("reply", texts_of(step.parts).strip(), tuple([call.name for call in step.calls]))
    return ("result",) if isinstance(step, Result) else ("told", step[0].strip())


def system_steps(text: str) -> list[Step]:
    """Return the system prompt as a step; empty for empty text."""
    return [SystemPrompt(text)] if text else []


def thinking(text: Any, metadata: dict[str, Any] | None = None) -> list[AnyPart]:
    """Return text as a thinking part; empty for other values, or for blank text that has no metadata."""
    content = text if isinstance(text, str) else ""
    return [Thinking(content, metadata)] if content.strip() or metadata else []
