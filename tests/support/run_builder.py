"""Builds runs event by event, without a loop, a model or a tool: single facts, whole rounds, and the run they make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self

from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log.older_logs import STATUS_AT_END, STATUS_BEFORE
from agentnb.core.messages import AnyPart, Message, Text, Thinking, ToolCall, ToolResult, user
from agentnb.core.run.rounds import DUPLICATE, WorkflowRound
from agentnb.core.todos import TODO_TOOL, Todo, TodoStatus
from agentnb.detect import Finding, findings
from agentnb.detect.run import Run

START = datetime(2026, 1, 1, tzinfo=UTC)
Fact = tuple[type[e.Event], dict[str, Any]]
"""A kind of event and its fields, without those that every event has."""


def opening(prompt: str = "go", run_id: str = "r-1", **fields: Any) -> e.RunStarted:
    """The first event of a run."""
    fields = {"schema": e.SCHEMA, "model": "scripted:hand", **fields}
    return e.RunStarted(seq=0, at=START, run_id=run_id, prompt=user(prompt), **fields)


class RunBuilder:
    """Adds events to a run, numbered and one second apart; ``run`` is the run they make so far."""

    def __init__(self, prompt: str = "go", **fields: Any) -> None:
        self.run = Run.from_events([opening(prompt, **fields)])

    @property
    def events(self) -> list[e.AnyEvent]:
        return list(self.run.events)

    @property
    def round_count(self) -> int:
        return len(self.run.rounds)

    def add(self, kind: type[e.Event], **fields: Any) -> Self:
        seq = len(self.run.events)
        self.run.apply(kind(seq=seq, at=START + timedelta(seconds=seq), run_id=self.run.id, **fields))  # type: ignore[arg-type]
        return self

    def extend(self, *facts: Fact) -> Self:
        for kind, fields in facts:
            self.add(kind, **fields)
        return self

    def round(self, *parts: str | AnyPart, **how: Any) -> Self:
        """The next round, finished; ``how`` as in `a_round`."""
        return self.extend(*a_round(self.round_count, *parts, **how))


def run_of(*facts: Fact, **fields: Any) -> Run:
    """The run that these facts make after its opening, which has these fields."""
    return RunBuilder(**fields).extend(*facts).run


# Rounds


def begun(index: int, reason: str = "", *guidance: Guidance) -> list[Fact]:
    """A round that has begun, and the guidance of its request."""
    reason = reason or ("prompt" if index == 0 else "tool_results")
    started = {"index": index, "reason": reason, "before": STATUS_BEFORE.get(reason, "")}
    return [(e.RoundStarted, started), *[(e.GuidanceGiven, {"guidance": one}) for one in guidance]]


def a_round(
    index: int,
    *parts: str | AnyPart,
    reason: str = "",
    guidance: Sequence[Guidance] = (),
    signals: Sequence[str] = (),
    stop_reason: str = "end_turn",
    blocked: Sequence[str] = (),
    after: tuple[Todo, ...] | None = None,
    error_code: str = "",
    text: str = "done",
    facts: Sequence[Fact] = (),
    status: str = "success",
) -> list[Fact]:
    """A finished round with this reply.

    Every call is answered with ``text``, with ``error_code`` if there is one, or blocked if ``blocked`` has its id.
    A call without an id gets one. ``after`` is the todo list as the last call left it; ``facts`` come after all calls.
    """
    message = Message("assistant", tuple(_part(part, f"c{index}-{n}") for n, part in enumerate(parts)))
    made = [*begun(index, reason, *guidance)]
    made.append((e.ModelReplied, {"message": message, "stop_reason": stop_reason, "signals": tuple(signals)}))
    how = {"is_error": True, "error_code": error_code} if error_code else {}
    for call in message.calls:
        todos = after if call is message.calls[-1] else None
        made += blocked_call(call) if call.id in blocked else answered(call, text, todos=todos, **how)
    return [*made, *facts, (e.RoundFinished, {"index": index, "status": status})]


def _part(part: str | AnyPart, call_id: str) -> AnyPart:
    if isinstance(part, ToolCall):
        return part if part.id else ToolCall(part.name, part.arguments, call_id)
    return Text(part) if isinstance(part, str) else part


# Single facts


def called(name: str, call_id: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, call_id)


def answered(call: ToolCall, text: str = "done", *, todos: tuple[Todo, ...] | None = None, **how: Any) -> list[Fact]:
    """A call ran and left this todo list; ``how``: is_error, error_code."""
    changed = [] if todos is None else [todos_are(*todos, by="model", call_id=call.id)]
    result = ToolResult(call.id, call.name, (Text(text),), **how)
    return [(e.ToolStarted, {"call": call}), *changed, (e.ToolFinished, {"result": result})]


def blocked_call(call: ToolCall, rule: str = "consecutive") -> list[Fact]:
    """A gate did not admit the call."""
    result = ToolResult(call.id, call.name, (Text(f"{DUPLICATE}: {call.name}"),), is_error=True, error_code=DUPLICATE)
    return [(e.CallBlocked, {"call": call, "result": result, "rule": rule})]


def todos_are(*todos: Todo, by: Literal["model", "outside"] = "outside", call_id: str = "") -> Fact:
    """The todo list is this one from now on."""
    return e.TodosChanged, {"todos": todos, "by": by, "call_id": call_id}


def said(text: str = "And now?") -> Fact:
    """Add a message of the user during the run."""
    return e.CommandReceived, {"command": "say", "text": text}


# Values


def todo(number: int, status: TodoStatus = "not-started", title: str = "", **fields: Any) -> Todo:
    return Todo(number, title or f"Write story {number}", status, **fields)


def todos_of(*statuses: TodoStatus) -> tuple[Todo, ...]:
    """A list with these statuses, numbered from 1."""
    return tuple(
        todo(number, status, blocked_reason="no key" if status == "blocked" else None)
        for number, status in enumerate(statuses, start=1)
    )


def guidance_of(cell: str = "text", text: str = "Go on.", level: int = 1, **fields: Any) -> Guidance:
    """Guidance of this cell, of the set "matrix"."""
    return Guidance(**{"set": "matrix", "cell": cell, "text": text, "level": level, **fields})


# Runs told


class Story(RunBuilder):
    """A run told step by step, or in whole rounds. A call that `call` makes has an id of its own."""

    def __init__(self, *todos: Todo, **first: Any) -> None:
        super().__init__(**{"prompt": "Go", "todos": todos, **first})
        self._calls = 0

    @property
    def last(self) -> WorkflowRound:
        return self.run.rounds[-1]

    def call(self, name: str, **arguments: Any) -> ToolCall:
        self._calls += 1
        return ToolCall(name, arguments, f"c{self._calls}")

    # Steps

    def begun(self, *guidance: Guidance, reason: str = "") -> Self:
        """A round begins, with this guidance."""
        return self.extend(*begun(self.round_count, reason, *guidance))

    def retried(
        self, *waits: float, reason: str = "The provider is overloaded", status: int | None = 529, heard: str = ""
    ) -> Self:
        """The call of the model failed, once for each of these waits, and is made again after it."""
        for attempt, seconds in enumerate(waits, 1):
            self.add(e.RetryScheduled, attempt=attempt, seconds=seconds, reason=reason, status=status, heard=heard)
        return self

    def replied(self, *parts: Any, **fields: Any) -> Self:
        return self.add(e.ModelReplied, message=Message("assistant", parts), **fields)

    def ran(self, call: ToolCall, text: str = "ok", **how: Any) -> Self:
        """A call was answered."""
        return self.extend(*answered(call, text, **how))

    def blocked(self, call: ToolCall) -> Self:
        """A gate did not let the call run."""
        return self.extend(*blocked_call(call))

    def listed(self, *todos: Todo, by: Literal["model", "outside"] = "model", call_id: str = "") -> Self:
        """The todo list is this now."""
        return self.extend(todos_are(*todos, by=by, call_id=call_id))

    def heard(self, text: str = "And now?") -> Self:
        """The user speaks."""
        return self.extend(said(text))

    def ended(self, status: e.RoundStatus = "success") -> Self:
        """The round ends."""
        return self.add(e.RoundFinished, index=self.last.index, status=status)

    def over(self, status: e.Status = "completed", stop_reason: str = "natural") -> Self:
        """The run ends."""
        return self.add(
            e.RunFinished, status=status, stop_reason=stop_reason, last_round=STATUS_AT_END.get(stop_reason, ""), seconds=1.5
        )

    # Whole rounds

    def said(self, text: str = "Well.", *guidance: Guidance, reason: str = "") -> Self:
        """A round of words alone."""
        return self.begun(*guidance, reason=reason).replied(Text(text)).ended()

    def delayed(self, text: str = "At last.", *waits: float, **fields: Any) -> Self:
        """A round of words alone, which came after the call had failed and been made again after each of these waits."""
        return self.begun().retried(*waits).replied(Text(text), **fields).ended()

    def failed(self, *waits: float, error: str = "The provider is overloaded") -> Self:
        """A round whose call failed in the end, and the run with it."""
        self.begun().retried(*waits)
        self.add(e.ErrorRaised, error=e.RunError("ProviderTrouble", error), where="model")
        return self.ended("error").over("failed", "error")

    def called(self, *names: str, guidance: tuple[Guidance, ...] = (), **how: Any) -> Self:
        """A round in which these tools ran, without arguments."""
        calls = [self.call(name) for name in names]
        self.begun(*guidance).replied(*calls)
        for call in calls:
            self.ran(call, **how)
        return self.ended()

    def refused(self, *names: str) -> Self:
        """A round of which every call was blocked."""
        calls = [self.call(name) for name in names]
        self.begun().replied(*calls)
        for call in calls:
            self.blocked(call)
        return self.ended()

    def planned(self, *todos: Todo) -> Self:
        """A round in which the model made its list this one."""
        call = self.call(TODO_TOOL)
        return self.begun().replied(call).extend(*answered(call, todos=todos)).ended()


class Calls(RunBuilder):
    """A run told call by call, for detectors: rounds of calls with their results, and replies."""

    @classmethod
    def of(cls, names: Iterable[str], **first: Any) -> Self:
        """A call of the tool of each name in turn, a round each, all with the same result."""
        story = cls(**first)
        for name in names:
            story.call(name)
        return story

    def call(self, name: str = "look", text: str = "ok", *, error: str = "", thought: str = "", **arguments: Any) -> Self:
        """A round with one call and its result; ``error`` is its error code."""
        parts = [Thinking(thought)] if thought else []
        return self.round(*parts, ToolCall(name, arguments), text=text, error_code=error)

    def batch(self, *names: str, text: str = "ok") -> Self:
        """A round with a call of each of these tools."""
        return self.round(*[ToolCall(name, {}) for name in names], text=text)

    def reply(self, text: str = "Well.", author: str = "", reason: str = "continued") -> Self:
        """A round without a call."""
        index = self.round_count
        message = Message("assistant", (Text(text),), author)
        self.add(e.RoundStarted, index=index, reason="prompt" if not index else reason)
        return self.add(e.ModelReplied, message=message).add(e.RoundFinished, index=index, status="success")

    def say(self, text: str = "And now?", author: str = "") -> Self:
        """The person speaks, or another agent in the person's place."""
        message = Message("user", (Text(text),), author)
        return self.add(e.CommandReceived, command="say", text=text, message=message)

    def found(self, detectors: Any = "default") -> list[Finding]:
        """Return the findings of detectors."""
        return findings(self.run, detectors)

    def rules(self, detectors: Any = "default") -> list[str]:
        """The rules by which something was found, each once."""
        return list(dict.fromkeys(one.rule for one in self.found(detectors)))
