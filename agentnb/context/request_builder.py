"""Request builder: turns the run so far into the next request; the only place where messages are prepared.

Steps, in this order: leave out rounds and text that are not sent, truncate long results, replace the middle with its
summary, pair calls and results, merge consecutive messages of one role, leave out the oldest if there are still too
many, and append the ephemeral text.

The work per round depends on the new messages, not on the length of the history: the prepared list grows with the
run, and only its last message can still change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from agentnb.context.history_settings import FULL, History, as_sent_then
from agentnb.context.result_truncation import truncate_results
from agentnb.context.tool_pairing import answers, are_whole
from agentnb.context.truncation import truncate_messages
from agentnb.core.compaction_records import Compacted
from agentnb.core.log.events import RoundStarted, RunStarted, ToolsOffered
from agentnb.core.messages import AnyPart, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import Request, Sent, ToolSpec
from agentnb.core.run.rounds import CONTEXT_TOKENS
from agentnb.core.run.run_output import logged_schema
from agentnb.core.todos import format_with_heading, has_open
from agentnb.detect.run import Run
from agentnb.detect.walk import walk_rounds
from agentnb.guidance.reminder import system_reminder
from agentnb.models.estimate import RunningEstimate, tokens_of_message, tokens_of_request
from agentnb.tools.read_result import SPEC as READ_SPEC

WhyLeftOut: TypeAlias = Literal["workflow_mode", "failed_round"]


class RequestBuilder:
    """Prepares the messages of one run: roles alternate, no message is empty, and every call is answered."""

    def __init__(
        self,
        system: str,
        tools: tuple[ToolSpec, ...],
        settings: dict[str, Any],
        *,
        history: History = FULL,
        drops_text: bool = False,
    ) -> None:
        self._system = system
        self._tools = tools
        # The tool that reads on is not advertised until a result has been truncated.
        self._first_tools = tools[:-1] if tools and tools[-1] is READ_SPEC else tools
        self._settings = settings
        self._history = history
        self._drops_text = drops_text
        self._messages: list[Message] = []
        self._origins: list[int] = []
        """For each prepared message, the index of the first stored message that it contains."""
        self._kept: dict[Any, Any] = {}
        self._taken = 0
        self._sent = 0
        self._open: tuple[ToolCall, ...] = ()
        """Calls of the last prepared message."""
        self._compacted: Compacted | None = None
        self._left_out: dict[int, WhyLeftOut] = {}
        self._empty: dict[int, Message] = {}
        """Empty parts, which are not sent, by index of the stored message; a message may consist of nothing else."""
        self._failed: tuple[int, ...] = ()
        """Indexes of the results of failed rounds, which may be left out once newer ones follow."""
        self._shortens = False
        self.ephemeral = ""
        """Ephemeral text at the end of the last request."""
        self.truncated_by = 0
        """Number of messages left out of the last request because there were too many."""
        self._tools_of_run: tuple[ToolSpec, ...] | None = None
        """The run's tools at the last check, or None before the first check."""

    @cached_property
    def _estimate(self) -> RunningEstimate:
        """Estimates the size of requests; most runs do not need it."""
        return RunningEstimate(self._system, self._first_tools)

    @classmethod
    def of_run(cls, started: RunStarted, history: History | None = None) -> RequestBuilder:
        """Return a builder for a run that is starting. ``history``: its settings, by default read from the log."""
        drops_text = bool(started.settings.get("policy", {}).get("workflow_drops_text"))
        history = as_sent_then(started.settings.get("history")) if history is None else history
        schema = logged_schema(started.settings)
        settings = {} if schema is None else {"output_schema": schema}
        builder = cls(started.system, _and_read(started.tools, history), settings, history=history, drops_text=drops_text)
        builder._tools_of_run = started.tools
        return builder

    @classmethod
    def rebuild(cls, run: Run) -> RequestBuilder:
        """Return a builder for a run that has already started, and prepare each of its rounds again."""
        builder, folded = cls.of_run(run.opening), Run()
        for round_ in walk_rounds(run):
            folded.extend((*round_.before, round_.start))
            builder.take_in(folded)
            folded.extend((*round_.prepared, *round_.answered))
        return builder

    @property
    def messages(self) -> list[Message]:
        """Messages prepared so far; read-only."""
        return self._messages

    @property
    def left_out(self) -> dict[int, WhyLeftOut]:
        """Reasons why stored messages are not sent, by index; those that a summary replaces are not listed."""
        return self._left_out

    @property
    def empty(self) -> dict[int, Message]:
        """Parts without content, by index of the stored message."""
        return self._empty

    def take_in(self, run: Run) -> None:
        """Prepare new messages; if the conversation was compacted since the last call, prepare all of it again
        afterwards.

        The order is the same even if both happen at once, since notes about messages must not depend on how often
        this is called.
        """
        if run.tools is not self._tools_of_run:
            self._follow_tools(run)
        for index, message in enumerate(run.messages[self._taken :], start=self._taken):
            if self._drops_text and self._leaves_out(message, run):
                self._left_out[index] = "workflow_mode"
            else:
                self._take(index, message)
            self._taken = index + 1
        if self._failed:
            self._leave_out_failed(run)
        if run.compacted is not None and run.compacted is not self._compacted:
            self._begin_anew(run, run.compacted)

    def _follow_tools(self, run: Run) -> None:
        """Send, from the open round on, the tools that the run had when that round began."""
        before = self._tools_of_run
        tools = run.tools if before is None else _tools_at_round(run)
        if before is not None and tools != before:
            self._first_tools, self._tools = tools, _and_read(tools, self._history)
            self._estimate = RunningEstimate(self._system, tools)
        self._tools_of_run = tools

    def request(self, run: Run, ephemeral_text: str = "", *, may_call: bool = True) -> Request:
        """Return the request for the open round, with the ephemeral text only at its end.

        Without ``may_call``, the model must not call tools; they are still described, because providers require that
        in a conversation with calls.
        """
        self.take_in(run)
        tools, settings = self._tools if self._shortens else self._first_tools, self._settings
        if not may_call and tools:
            settings = {**settings, "tool_choice": "none"}
        items, kept = self._as_sent()
        if self.truncated_by and has_open(run.conversation_todos):  # the calls that wrote the todos may be left out
            ephemeral_text = "\n\n".join(
                [format_with_heading(run.conversation_todos), *([ephemeral_text] if ephemeral_text else [])]
            )
        self.ephemeral = ephemeral_text
        last = None
        if ephemeral_text:  # a separate part of the last message, which is never the assistant's
            parts = (*items[-1].parts, Text(system_reminder(ephemeral_text)))
            last = replace(items[-1], parts=parts)
        return Request(self._system, Sent(items, len(items), last, kept), tools, settings)

    def tokens(self, run: Run) -> int:
        """Estimate the tokens of the next request: the provider's count for the last one, plus the new messages."""
        before = run.last_finished_round
        usage = None if before is None else before.usage
        if before is None or usage is None or usage.estimated or not usage.input or run.last_round.compactions:
            return self._estimate.of(self._messages)
        with_reply = before.metadata.get(CONTEXT_TOKENS)
        if not isinstance(with_reply, int):  # usually a single call made the reply
            with_reply = usage.input + (usage.output or 0)
        return with_reply + sum(map(tokens_of_message, self._messages[-1:]))

    def estimated_tokens(self, request: Request) -> int:
        """Estimate the tokens of this request, the last one built, for use if no provider has counted them."""
        return tokens_of_request(request) if self.truncated_by else self._estimate.of(request.messages)

    def prepared_of(self, index: int) -> int:
        """Return the number of prepared messages whose content was stored entirely before this index."""
        return bisect_left(self._origins, index)

    def count_inherited(self, history: int) -> int:
        """Return the number of prepared messages whose content comes entirely from the previous run, that is, from the first
        ``history`` stored messages.
        """
        position = self.prepared_of(history)
        begins = self._origins[position : position + 1] == [history]  # else the prompt was merged into the message before
        return position if begins else max(0, position - 1)

    def place_of(self, prepared: int) -> int:
        """Return the index, in the stored conversation, of a prepared message."""
        return self._origins[prepared] if prepared < len(self._origins) else self._taken

    def _as_sent(self) -> tuple[list[Message], dict[Any, Any]]:
        """Return the messages of the next request without its ephemeral text, and the cache of their wire forms."""
        items, kept = self._messages, self._kept
        if self._open:  # a history from elsewhere may end with calls without results
            items, kept = [*items, answers(self._open, None)], {}
        most = self._history.max_messages
        self.truncated_by = 0
        if most is not None and len(items) > most and (fewer := self._fewer(items, most)) is not None:
            items, kept = fewer, {}
        self._sent = max(self._sent, len(self._messages))
        return items, kept

    def _fewer(self, items: list[Message], most: int) -> list[Message] | None:
        """Return the first message, the summary, if any, and the newest messages, or None if that would separate a call from
        its result.
        """
        summary = items[1] if self.is_summary(items[1]) else None
        plain = items if summary is None else [items[0], *items[2:]]
        cut = truncate_messages(plain, most if summary is None else max(2, most - 1))
        if cut is plain or not are_whole(cut):
            return None
        self.truncated_by = len(plain) - len(cut)
        return _alternating(cut, summary)

    def is_summary(self, message: Message) -> bool:
        """True if the message is exactly the summary of the conversation."""
        compacted = self._compacted
        return compacted is not None and message.role == "assistant" and message.parts == (Text(compacted.text),)

    def _leaves_out(self, message: Message, run: Run) -> bool:
        """True for text after which workflow mode continued the run: it is not sent again."""
        if message.role != "assistant" or message.calls:
            return False
        return run.open_round is not None and run.open_round.reason == "workflow_mode"

    def _take(self, index: int, message: Message) -> None:
        """Prepare a stored message: drop its empty parts, and answer each call before it.

        The calls of consecutive replies are answered together, after the last reply.
        """
        if message.role == "tool":
            if self._history.result_characters is not None:
                whole = message
                message = truncate_results(whole, self._history.result_characters, can_read_on=bool(self._tools))
                self._shortens = self._shortens or message is not whole
            if self._history.failed_rounds_above is not None and _all_failed(message):
                self._failed = (*self._failed, index)
        sendable = _without_empty(message)
        if sendable is not message or not sendable.parts:
            self._empty[index] = replace(message, parts=tuple(filter(is_empty, message.parts))) if sendable.parts else message
            if not sendable.parts:
                return
            message = sendable
        if message.role == "tool" or (self._open and message.role != "assistant"):
            message = answers(self._open, message)
        if message.parts:
            self._put(index, message)

    def _put(self, index: int, message: Message) -> None:
        by_model, messages = message.role == "assistant", self._messages
        if not messages or (messages[-1].role == "assistant") is not by_model:
            messages.append(message)
            self._origins.append(index)
        else:
            if self._sent == len(messages):
                # Requests already sent are views of this list: what they show must not change.
                self._messages = messages = messages.copy()
            message = messages[-1] = merge_messages(messages[-1], message)
        self._open = message.calls if by_model else ()

    def _begin_anew(self, run: Run, compacted: Compacted) -> None:
        """Prepare all messages again, because a summary now replaces those in the middle."""
        self._compacted = compacted
        self._messages, self._origins, self._kept, self._sent, self._open = [], [], {}, 0, ()
        self._estimate.keep(0)
        count = self._taken
        self._failed = tuple([index for index in self._failed if index >= compacted.kept])
        self._take_again(run, 0, compacted.first)
        if compacted.text:
            after = run.messages[compacted.kept].role if compacted.kept < len(run.messages) else "assistant"
            by_model = bool(self._messages) and after != "assistant"  # a conversation begins and ends with the user
            self._put(compacted.first, Message("assistant" if by_model else "user", (Text(compacted.text),)))
        self._take_again(run, compacted.kept, count)

    def _take_again(self, run: Run, start: int, stop: int) -> None:
        failed = self._failed
        for index in range(start, stop):
            if index not in self._left_out:
                self._take(index, run.messages[index])
        self._failed = failed

    def _leave_out_failed(self, run: Run) -> None:
        """Leave out rounds whose calls all failed, both calls and results, once the model has seen them."""
        above = self._history.failed_rounds_above
        seen = [index for index in self._failed if index < len(run.messages) - 1]
        if above is None or not seen or len(run.messages) <= above:
            return
        for index in seen:
            self._left_out[index - 1] = self._left_out[index] = "failed_round"
        self._failed = self._failed[len(seen) :]
        self._rewind(run, seen[0] - 1)

    def _rewind(self, run: Run, index: int) -> None:
        """Prepare again from this stored message onwards; everything sent before it stays unchanged."""
        position = max(0, self.prepared_of(index) - 1)  # it may have been merged into the message before
        if self._compacted is not None and position <= 1:
            self._begin_anew(run, self._compacted)
            return
        start = self._origins[position] if self._origins else 0
        self._messages, self._origins = self._messages[:position], self._origins[:position]
        self._kept = {form: cached[:position] if isinstance(cached, list) else cached for form, cached in self._kept.items()}
        self._sent = min(self._sent, position)
        self._estimate.keep(position)
        self._open = self._messages[-1].calls if self._messages and self._messages[-1].role == "assistant" else ()
        self._take_again(run, start, self._taken)


def _without_empty(message: Message) -> Message:
    """Return the message without its empty parts; if none is empty, return the same object."""
    for part in message.parts:  # a plain loop: this runs in every round
        kind = type(part)
        if kind is Thinking or (kind is Text and is_empty(part)):
            break
    else:
        return message
    parts = tuple([part for part in message.parts if not is_empty(part)])
    if all(type(part) is Thinking for part in parts):  # thinking alone is not a message
        parts = ()
    return message if len(parts) == len(message.parts) else replace(message, parts=parts)


def _and_read(tools: tuple[ToolSpec, ...], history: History) -> tuple[ToolSpec, ...]:
    """Add the tool that reads truncated results, if there may be any."""
    return (*tools, READ_SPEC) if history.result_characters is not None and tools else tools


def _tools_at_round(run: Run) -> tuple[ToolSpec, ...]:
    """Return the tools that the run had when its newest round began: a change made during a round applies to the next one."""
    events = reversed(run.events)
    in_round = takewhile(lambda event: not isinstance(event, RoundStarted), events)
    changes = [event for event in in_round if isinstance(event, ToolsOffered)]
    if not changes:
        return run.tools
    return next((event.tools for event in events if isinstance(event, ToolsOffered)), run.tools)


def _all_failed(message: Message) -> bool:
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    return bool(results) and all(result.is_error for result in results)


def _alternating(messages: Sequence[Message], summary: Message | None) -> list[Message]:
    """Restore alternation after truncation and insert the summary, if there is one."""
    first, second, *newest = messages
    if summary is not None and second.role != "assistant":
        return [first, summary, second, *newest]
    if summary is not None:
        first = merge_messages(first, Message("user", summary.parts))
    return [first, second, *newest] if second.role == "assistant" else [merge_messages(first, second), *newest]


def is_empty(part: AnyPart) -> bool:
    """True if the part has no content to send; metadata that the provider wants returned counts as content."""
    return type(part) is Text and not part.text.strip() and part.provider_metadata is None


def merge_messages(first: Message, second: Message) -> Message:
    """Merge two messages of one role: parts in order, adjacent text joined by a blank line, and both authors named."""
    first_parts, second_parts = first.parts, second.parts
    end, start = first_parts[-1], second_parts[0]
    if type(end) is Text and type(start) is Text and not (end.provider_metadata or start.provider_metadata):
        joint: tuple[AnyPart, ...] = (Text(f"{end.text}\n\n{start.text}"),)
        first_parts, second_parts = first_parts[:-1], joint + second_parts[1:]
    role = "tool" if "tool" in (first.role, second.role) else first.role
    return Message(role, first_parts + second_parts, _authors(first.author, second.author))


def _authors(first: str, second: str) -> str:
    if not (first and second) or second in first.split(", "):
        return first or second
    return f"{first}, {second}"


def ephemeral_text(run: Run) -> str:
    """Return the ephemeral text of the open round: guidance in the order in which it was logged, then the status line."""
    current = run.open_round
    if current is None:
        return ""
    text = current.note
    for guidance in reversed(current.guidance):  # a plain loop: this runs in every round
        text = f"{guidance.text}\n\n{text}" if text else guidance.text
    return text
