"""Builds well-formed runs from foreign traces, filling gaps and reporting how they were filled."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import takewhile
from math import isclose, isfinite
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb.advice import ReadLoosely
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.older_logs import STATUS_AT_END
from agentnb.core.log.outcome import Assessment, outcome_of
from agentnb.core.log.well_formed import YEARS, check_events
from agentnb.core.log.wire import decode_new, encode
from agentnb.core.messages import AnyPart, Image, Message, Text, ToolCall, ToolResult, encodable, encodable_data
from agentnb.core.request import ToolSpec
from agentnb.core.run.rounds import LOST
from agentnb.core.schema.nesting import bound_message, bound_metadata
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, TraceError
from agentnb.interchange.conversion.gaps import FILLED, NO_PROMPT, NO_RESULT, Gap, describe_gaps
from agentnb.interchange.conversion.open_calls import OpenCalls
from agentnb.interchange.conversion.run_size import RunSize
from agentnb.interchange.conversion.stop_reasons import NATURAL
from agentnb.interchange.conversion.todo_lists import TodoTracker
from agentnb.interchange.conversion.trace_items import Fact, MessageCount, RecordedCall, RecordedRound, Summary, as_message

Content: TypeAlias = str | Sequence[AnyPart] | None
"""The content of a message: text or parts. None and blank text count as empty."""
UNNAMED = "unknown"
_WRITTEN_HERE = (
    e.RunStarted,
    e.RoundStarted,
    e.ModelReplied,
    e.ToolStarted,
    e.ToolFinished,
    e.RoundFinished,
    e.CommandReceived,
    e.RunFinished,
)
_COUNTS = ("input", "output", "cache_read")
"""Token counts for which traces state a total."""
_ROUNDED = 0.005
"""Relative difference between costs that rounding can explain."""
_NOT_JSON = (TypeError, ValueError, OverflowError, RecursionError)
"""Exceptions raised when encoding a value that a log cannot hold."""


class RunWriter:
    """Builds a run from the messages, calls and results in a trace, in the order in which they occur.

    Call ids may be missing or reused; results may be late, duplicated or missing. Unknown times, durations and counts remain
    unknown. Filled gaps are listed in `filled`, and the run has a warning about them. A trace may have any value in any field;
    data that a log cannot hold raises `TraceError`.

        writer = RunWriter(Origin("openai_chat", "runs.json", "3"), model="openai:gpt-4o")
        writer.say("What is the weather?")
        writer.reply("I look.", [ToolCall("look", {"where": "here"}, "call_1")])
        writer.result("call_1", "It rains.")
        run = writer.finish()
    """

    def __init__(
        self,
        origin: e.Origin,
        *,
        run_id: str = "",
        parent_id: str | None = None,
        model: str = "",
        tools: Iterable[ToolSpec] = (),
        **about: Any,
    ) -> None:
        """``run_id``: by default derived from the content, so that it is the same every time the file is read. ``about``: other
        fields of `RunStarted`, such as ``agent``, ``tags`` or ``settings``.
        """
        self._origin, self._run_id, self._parent_id, self._about = origin, run_id, parent_id, about
        self._model, self._system, self._tools = self._text("model", model), "", tuple(tools)
        self._ids: set[str] = set()
        self._last_numbers: Counter[str] = Counter()
        """The last number that was appended to each repeated id to make it unique."""
        self._size = RunSize(self._source)
        self._todos = TodoTracker(about.get("todos", ()))
        self._total, self._has_nested_cost = UNKNOWN, False
        self._assessments: list[Assessment] = []
        self._begin()

    def _begin(self) -> None:
        self._items: list[RecordedRound | Fact | Summary] = []
        self._rounds: list[RecordedRound] = []
        self._open = OpenCalls()
        self._answered: dict[str, RecordedCall] = {}
        self._gaps: Counter[Gap] = Counter()

    @property
    def filled(self) -> list[str]:
        """The gaps that were filled, one sentence each; complete once the run is finished."""
        return describe_gaps(self._gaps)

    def system(self, text: str) -> None:
        """Set the system prompt. Prompts before the conversation are joined; later ones become messages from ``system``."""
        if not self._items:
            self._system = "\n\n".join(filter(None, (self._system, self._text("system", text))))
        else:
            self._gaps["system message"] += 1
            self.say(text, author="system")

    def say(self, content: Content, *, author: str = "", at: datetime | None = None, by_person: bool = True) -> None:
        """Add a message from the person or another speaker. The first message is the prompt.

        ``by_person``: False for a notice from the environment; it becomes the prompt only if there is no user message.
        """
        parts = self._parts(content)
        if not any(isinstance(part, Image) or (isinstance(part, Text) and part.text.strip()) for part in parts):
            self._gaps["blank message"] += 1
            return
        message = bound_message(Message("user", tuple(parts), self._text("author", author)))
        fields = {"command": "say", "text": message.text, "message": message, "by_person": by_person}
        self._size.add_user_message(message.parts)
        self._items.append(Fact(e.CommandReceived, fields, self._time(at)))

    def reply(
        self,
        content: Content = None,
        calls: Iterable[ToolCall] = (),
        *,
        author: str = "",
        at: datetime | None = None,
        usage: Usage = UNKNOWN,
        seconds: float | None = None,
        stop_reason: str = "",
        metadata: dict[str, Any] | None = None,
        signals: Iterable[str] = (),
    ) -> None:
        """Add a reply from the model with its calls. The arguments may be JSON text."""
        fields = {
            "usage": usage,
            "seconds": seconds,
            "stop_reason": self._text("stop_reason", stop_reason),
            "metadata": bound_metadata(encodable_data(metadata or {})),
            "signals": tuple([self._text("signal", signal) for signal in signals]),
        }
        recorded = RecordedRound(self._parts(content), self._text("author", author), self._time(at), fields)
        self._size.add_reply(recorded.parts)
        self._items.append(recorded)
        self._rounds.append(recorded)
        for call in calls:
            self._add_call(recorded, call)

    def result(
        self,
        call_id: str,
        content: Content = None,
        *,
        name: str = "",
        is_error: bool = False,
        error_code: str | None = None,
        at: datetime | None = None,
        seconds: float | None = None,
    ) -> None:
        """Add the result of the oldest open call with this id; without an id, of this tool or, failing that, of any tool.

        A result without a matching call gets its own call in the last round. ``error_code``: set if the call failed.
        """
        parts = tuple([part for part in self._parts(content) if isinstance(part, Text | Image)])
        call_id, name = self._text("call_id", call_id), self._text("name", name)
        call = self._open.first(call_id, name)
        if call is None:
            before = self._answered.get(call_id)
            if before is not None and before.result is not None and before.result.parts == parts:
                self._gaps["second result"] += 1
                return
            call = self._call_for(call_id, name)
        self._size.add_texts(parts)
        call.result = ToolResult(call.call.id, call.call.name, parts, is_error or bool(error_code), error_code or None)
        call.at, call.seconds = self._time(at), seconds
        self._answered[call.recorded_id] = call

    def event(self, kind: type[e.Event], *, at: datetime | None = None, **fields: Any) -> None:
        """Add an event of another kind, such as a step or a finding, after everything added so far.

        Guidance and retries become part of the next round. A todo change made by a call is attached to that call.
        """
        if kind in _WRITTEN_HERE:
            raise SettingsError(f"{kind.__name__} is written by the RunWriter itself", "Call its say, reply, result or finish")
        self._todos.is_recorded |= kind is e.TodosChanged
        self._size.add_events(1)
        fact = Fact(kind, fields, self._time(at))
        call = self._call_named(fields.get("call_id")) if kind is e.TodosChanged else None
        (self._items if call is None else call.todos).append(fact)

    def error(self, error: e.RunError, where: str, at: datetime | None = None) -> None:
        """Add the error that ended the run. ``where``: trace, model or reply."""
        self.event(e.ErrorRaised, error=error, where=where, at=at)

    def warn(self, message: str, at: datetime | None = None) -> None:
        """Add a warning to the person."""
        self.event(e.Warned, message=message, at=at)

    def mark_copied(self) -> None:
        """Mark everything added so far as the run's history: it was copied from another run, which paid for its tokens."""
        if self._items:
            earlier = self.finish(None, "")
            self._about |= {"history": tuple(earlier.messages), "compacted": earlier.compacted, "todos": earlier.todos}
            self._begin()

    def total(self, usage: Usage, *, has_nested_cost: bool = False) -> None:
        """Set the total usage stated in the trace, for use if the replies do not report their own.

        If they do, but their sum differs, the run gets a warning.

        ``has_nested_cost``: True if the cost includes nested runs; it then applies even if the replies report their own.
        """
        self._total, self._has_nested_cost = usage, has_nested_cost and usage.cost is not None

    def assess(self, name: str, value: Any) -> None:
        """Add an outcome recorded in the trace: a score, or whether the run succeeded.

        ``name``: the source field, such as ``reward``. Full marks pass, 0 fails, and scores in between do neither. Other values
        are ignored.
        """
        if isinstance(value, int | float) and isfinite(value):
            score = None if isinstance(value, bool) else float(value)
            self._assessments.append(Assessment(outcome_of(value), "trace", self._text("name", name), score))

    def compact(self, summary: str, *, first: int = 0, rounds: int = 0, at: datetime | None = None) -> None:
        """Add a summary that replaces everything added so far, from the next reply on.

        ``first``, ``rounds``: number of messages at the start, and number of most recent rounds, that are still sent.
        """
        text = self._text("summary", summary)
        if text.strip():
            self._items.append(Summary(text, first, rounds, self._time(at)))
        else:
            self._gaps["blank message"] += 1

    def finish(
        self,
        status: e.Status | None = "completed",
        stop_reason: str = "natural",
        *,
        at: datetime | None = None,
        seconds: float | None = None,
    ) -> Run:
        """Return the run. ``status``: the final status; None if the trace breaks off, so that the run counts as interrupted.

        Raises `TraceError` if the events do not form a run.
        """
        prompt = self._take_prompt()
        facts = list(self._facts())
        self._size.add_events(len(self._assessments))
        facts += [Fact(w.OutcomeGiven, {"assessment": assessment}, self._time(at)) for assessment in self._assessments]
        started = self._start_event(prompt)
        if status is not None:
            last = STATUS_AT_END.get(stop_reason, "")  # as its policy would have set it
            ended = {"status": status, "stop_reason": stop_reason, "last_round": last, "seconds": seconds}
            facts.append(Fact(e.RunFinished, ended, self._time(at)))
        if self._total != UNKNOWN and (differences := self._differences()):
            message = f"The usage total in its trace differs from the sum over its replies: {', '.join(differences)}."
            facts.insert(0, Fact(e.Warned, {"message": message}, prompt.at))
        if self._gaps:
            facts.insert(0, Fact(e.Warned, {"message": f"{FILLED} {' '.join(self.filled)}", "topic": "filled"}, prompt.at))
        with self._encoding():
            lines = [encode(started)]
            for seq, fact in enumerate(facts, 1):
                envelope: dict[str, Any] = {"seq": seq, "at": fact.at, "run_id": started.run_id, "parent_id": self._parent_id}
                lines.append(encode(fact.kind(**envelope, **fact.fields)))  # type: ignore[arg-type]  # of any kind
        events = self._as_read(lines)
        check_events(events, self._source)
        run = Run.from_events(events)
        run.mark_interrupted()  # unless it has an end
        return run

    def finish_without_end(self, *, is_over: bool = False, at: datetime | None = None, seconds: float | None = None) -> Run:
        """Return the run of a trace that records no end other than the stop reason of its last reply.

        The run is completed if that reply calls no tool and has a natural stop reason; ``unknown`` if it has no such reason;
        interrupted if a message or call is left unanswered. ``is_over``: True if the trace records a regular end, in which case
        the run is completed unless something is left unanswered.
        """
        turns = [item for item in self._items if isinstance(item, RecordedRound) or item.kind is e.CommandReceived]
        last = turns[-1] if turns else None
        if not isinstance(last, RecordedRound) or (last.has_own_calls and (self._open or not is_over)):
            return self.finish(None, "")
        if not last.has_own_calls and last.fields["stop_reason"] in NATURAL:
            return self.finish("completed", "natural", at=at, seconds=seconds)
        if is_over:
            return self.finish("completed", "", at=at, seconds=seconds)
        return self.finish("unknown" if last.parts else None, "", at=at, seconds=seconds)

    # Calls

    def _add_call(self, now: RecordedRound, call: ToolCall) -> RecordedCall:
        recorded = self._text("id of a call", call.id)
        if not recorded or recorded in self._ids:
            self._gaps["repeated id" if recorded else "missing id"] += 1
        name = self._text("name of a tool", call.name) or UNNAMED
        self._gaps["name"] += not call.name
        new_call = replace(call, name=name, id=self._fresh(recorded), arguments=self._arguments(call.arguments))
        added = RecordedCall(recorded, new_call)
        self._append_call(now, added)
        self._open.add(added)
        return added

    def _fresh(self, recorded: str) -> str:
        """Return an unused call id."""
        fresh_id, base = recorded or "call-1", recorded or "call"
        number = max(self._last_numbers[base], 1)
        while fresh_id in self._ids:
            number += 1
            fresh_id = f"{base}-{number}"
        self._last_numbers[base] = number
        self._ids.add(fresh_id)
        return fresh_id

    def _arguments(self, arguments: Any) -> Any:
        if isinstance(arguments, str):
            with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
                arguments = msgspec.json.decode(arguments) if arguments.strip() else {}
        if not isinstance(arguments, dict):
            self._gaps["arguments"] += arguments is not None
            return {} if arguments is None else encodable_data(arguments)
        return encodable_data(arguments)

    def _call_named(self, call_id: Any) -> RecordedCall | None:
        """Return the call with this id in the last round."""
        last = self._rounds[-1].calls if call_id and self._rounds else []
        return next((call for call in last if call.recorded_id == call_id), None)

    def _call_for(self, call_id: str, name: str) -> RecordedCall:
        """Add a call to the last round for a result that has none."""
        if not self._rounds:
            self.reply()
        self._gaps["no call"] += 1
        added = RecordedCall(call_id, ToolCall(name or UNNAMED, {}, self._fresh(call_id)))
        self._append_call(self._rounds[-1], added)
        return added

    def _append_call(self, now: RecordedRound, added: RecordedCall) -> None:
        now.calls.append(added)
        self._size.add_call(len(now.calls))

    # Events

    def _take_prompt(self) -> Fact:
        """Remove and return the first user message, or make a placeholder if the model spoke first."""
        before = takewhile(lambda item: not isinstance(item, RecordedRound), self._items)
        messages = [
            (position, item)
            for position, item in enumerate(before)
            if isinstance(item, Fact) and item.kind is e.CommandReceived
        ]
        if messages:
            position, prompt = next((entry for entry in messages if entry[1].fields["by_person"]), messages[0])
            del self._items[position]
            return prompt
        self._gaps["prompt"] += 1
        return Fact(e.CommandReceived, {"message": Message("user", (Text(NO_PROMPT),), is_placeholder=True)})

    def _start_event(self, prompt: Fact) -> e.RunStarted:
        defined_names = {tool.name for tool in self._tools}
        called = dict.fromkeys(item.call.name for recorded in self._rounds for item in recorded.calls)
        missing = [ToolSpec(name) for name in called if name not in defined_names]
        self._gaps["tools"] += bool(missing)
        self._gaps["model"] += not self._model
        self._gaps["reply"] += not self._rounds
        self._gaps += Counter()  # drop zero counts
        message = prompt.fields["message"]
        origin = self._origin
        identity = (origin.format, origin.file_name, origin.position, message.text)
        with self._encoding():
            content = msgspec.json.encode([*[self._text("origin", item) for item in identity], *self._contents()])
        return e.RunStarted(
            seq=0,
            at=prompt.at,
            run_id=self._run_id or f"trace-{hashlib.sha256(content).hexdigest()[:16]}",
            parent_id=self._parent_id,
            schema=e.SCHEMA,
            prompt=message,
            model=self._model or UNNAMED,
            system=self._system,
            tools=(*self._tools, *missing),
            origin=self._origin if self._total == UNKNOWN else self._origin_with_total(),
            **self._about,
        )

    def _sum_of_replies(self) -> Usage:
        of_replies = [recorded.fields["usage"] for recorded in self._rounds]
        return sum(of_replies[1:], of_replies[0]) if of_replies else UNKNOWN

    def _differences(self) -> list[str]:
        """Return the usage fields for which the trace's total differs from the sum over its replies."""
        stated, summed = self._total, self._sum_of_replies()
        pairs = ((name, getattr(stated, name), getattr(summed, name)) for name in _COUNTS)
        differences = [
            f"{total:,} {name} tokens instead of {own:,}"
            for name, total, own in pairs
            if None not in (total, own) and total != own
        ]
        if stated.cost is None or summed.cost is None or self._has_nested_cost:
            return differences
        is_same = isclose(stated.cost, summed.cost, rel_tol=_ROUNDED)
        return differences if is_same else [*differences, f"${stated.cost:.6g} instead of ${summed.cost:.6g}"]

    def _origin_with_total(self) -> e.Origin:
        """Return the origin, including the total usage unless the replies already report all of it."""
        summed = self._sum_of_replies()
        missing = {name for name in UNKNOWN.__struct_fields__ if getattr(summed, name) is None}
        missing |= {"cost"} if self._has_nested_cost else set()
        additions = {name: value for name in missing if (value := getattr(self._total, name)) is not None}
        usage = replace(summed, **additions) if additions else None
        return replace(self._origin, usage=usage, has_nested_cost=self._has_nested_cost, stated=self._total)

    def _contents(self) -> Iterator[Any]:
        """Yield the content that distinguishes this run from others with the same prompt and file name."""
        for recorded in self._rounds:
            yield [part.text for part in recorded.parts if isinstance(part, Text)]
            yield [(entry.call.name, entry.call.arguments, entry.result and entry.result.text) for entry in recorded.calls]

    def _facts(self) -> Iterator[Fact]:
        index, reason, author = 0, "prompt", ""
        before: list[Fact] = []
        for item in self._with_compactions():
            if isinstance(item, Fact) and item.kind in e.BeforeReply.__args__:
                before.append(item)
                continue
            if isinstance(item, Fact):
                yield item
                reason = "said" if item.kind is e.CommandReceived and item.fields["by_person"] and index else reason
                continue
            changes = reason == "continued" and item.author != author  # another agent speaks
            yield from self._round(item, index, "said" if changes else reason, before)
            before = []
            index, author = index + 1, item.author
            reason = "tool_results" if item.has_own_calls else "continued"
        yield from before  # without a round: `check_events` refuses it

    def _with_compactions(self) -> Iterator[RecordedRound | Fact]:
        """Yield the items, with summaries as compactions. A summary that is not between two replies becomes a message."""
        replies = [position for position, item in enumerate(self._items) if isinstance(item, RecordedRound)]
        count = MessageCount(len(self._about.get("history", ())) + 1)
        for position, item in enumerate(self._items):
            if isinstance(item, RecordedRound):
                count.add_round(with_calls=bool(item.calls))
                yield item
                continue
            is_between = bool(replies) and replies[0] < position < replies[-1]
            fact = item if isinstance(item, Fact) else count.compaction(item) if is_between else as_message(item)
            if fact.kind is e.CommandReceived:
                count.add_message()
            yield fact

    def _round(self, one: RecordedRound, index: int, reason: str, before: Iterable[Fact]) -> Iterator[Fact]:
        message = bound_message(Message("assistant", (*one.parts, *[recorded.call for recorded in one.calls]), one.author))
        yield Fact(e.RoundStarted, {"index": index, "reason": reason})
        yield from before
        yield Fact(e.ModelReplied, {"message": message, **one.fields}, one.at)
        for call, recorded in zip(message.calls, one.calls, strict=True):
            result = recorded.result
            if result is None:
                self._gaps["no result"] += 1
                result = ToolResult(call.id, call.name, (Text(NO_RESULT),), is_error=True, error_code=LOST)
            yield Fact(e.ToolStarted, {"call": call})
            yield from recorded.todos
            yield Fact(e.ToolFinished, {"result": result, "seconds": recorded.seconds}, recorded.at)
            todos = self._todos.after(call, result, recorded.at)
            if todos is not None:
                self._size.add_events(1 + len(todos))  # each event holds the whole list
                yield Fact(e.TodosChanged, {"todos": todos, "by": "model", "call_id": call.id}, recorded.at)
        ended = next((recorded.at for recorded in reversed(one.calls) if recorded.at is not None), one.at)
        yield Fact(e.RoundFinished, {"index": index, "status": "success", "seconds": None}, ended)

    # Values of a trace

    @property
    def _source(self) -> str:
        return f"{self._origin.file or self._origin.format} {self._origin.position}".rstrip()

    def _wrong(self, what: str) -> TraceError:
        return TraceError(f"{self._source}: {what}", ReadLoosely(lead="Read the intact parts"))

    @contextmanager
    def _encoding(self) -> Iterator[None]:
        """Raise `TraceError` for data in a trace that a log cannot hold."""
        try:
            yield
        except _NOT_JSON as error:
            raise self._wrong(f"{type(error).__name__}: {encodable(str(error))}") from error

    def _as_read(self, lines: list[bytes]) -> list[e.AnyEvent]:
        """Return the events as they are read back from a log, with keys redacted."""
        try:
            return decode_new(lines)
        except TraceError as error:
            raise self._wrong(error.what) from error

    def _text(self, name: str, value: Any) -> str:
        if not isinstance(value, str | None):
            raise self._wrong(f"the {name} must be text, got {type(value).__name__}")
        return encodable(value or "")

    def _parts(self, content: Any) -> list[AnyPart]:
        """Return the parts of a message; empty for blank text. Calls and results are left out, as they are added separately."""
        if content is None or isinstance(content, str):
            return [Text(encodable(content))] if content and content.strip() else []
        if not isinstance(content, list | tuple) or not all(isinstance(part, AnyPart) for part in content):
            raise self._wrong("the content of a message must be text or parts")
        kept = [part for part in content if not isinstance(part, ToolCall | ToolResult)]
        return [part if isinstance(part, Image) else replace(part, text=self._text("text", part.text)) for part in kept]

    def _time(self, at: datetime | None) -> datetime | None:
        if at is None:
            return None
        if not isinstance(at, datetime):
            raise self._wrong(f"a time must be a datetime, got {type(at).__name__}")
        if at.year not in YEARS:
            self._gaps["time"] += 1
            return None
        if at.tzinfo is None:
            self._gaps["zone"] += 1
            return at.replace(tzinfo=UTC)
        return at.astimezone(UTC)
