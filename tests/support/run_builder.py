"""Builds runs event by event, without a loop, a model or a tool: single facts, whole rounds, and the run they make."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self

from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log.older_logs import STATUS_BEFORE
from agentnb.core.messages import AnyPart, Message, Text, ToolCall, ToolResult, user
from agentnb.core.run.rounds import DUPLICATE
from agentnb.core.todos import Todo, TodoStatus
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
    """The user says this while the run goes on."""
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
