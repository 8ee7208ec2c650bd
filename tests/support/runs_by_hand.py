"""Runs made by hand: from single events, or with the loop alone and nothing around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from agentnb.agent.agent import Agent
from agentnb.agent.loop import Loop
from agentnb.context.request_builder import RequestBuilder
from agentnb.core.events import (
    SCHEMA,
    AnyEvent,
    CallBlocked,
    CommandReceived,
    Event,
    GuidanceGiven,
    LimitReached,
    ModelReplied,
    RoundFinished,
    RoundStarted,
    RunStarted,
    TextDelta,
    TodosChanged,
    ToolFinished,
    ToolStarted,
)
from agentnb.core.guidance import Guidance
from agentnb.core.inbox import Inbox
from agentnb.core.log import EventLog, Watcher
from agentnb.core.messages import AnyPart, Message, Text, ToolCall, ToolResult, user
from agentnb.core.request import Request
from agentnb.core.rounds import DUPLICATE
from agentnb.core.run import Run
from agentnb.core.todos import Todo, TodoStatus
from agentnb.guidance import Guide
from agentnb.models.model import Model, Reply, StreamItem
from agentnb.policies import Policy, PolicyBundle
from agentnb.policies.gates import Gate
from agentnb.runtime.dispatch import Dispatch
from agentnb.runtime.threads import call_in_thread
from agentnb.tools.toolbox import Toolbox

START = datetime(2026, 1, 1, tzinfo=UTC)
Fact = tuple[type[Event], dict[str, Any]]


def opening(prompt: str = "go", **fields: Any) -> RunStarted:
    return RunStarted(seq=0, at=START, run_id="r-1", schema=SCHEMA, prompt=user(prompt), model="scripted:hand", **fields)


def run_of(*facts: Fact, **fields: Any) -> Run:
    """The run these facts make after its opening."""
    events: list[AnyEvent] = [opening(**fields)]
    for seq, (kind, values) in enumerate(facts, start=1):
        events.append(kind(seq=seq, at=START, run_id="r-1", **values))  # type: ignore[arg-type]
    return Run.from_events(events)


def a_round(
    index: int,
    *parts: str | AnyPart,
    stop_reason: str = "end_turn",
    status: str = "success",
    reason: str = "",
    guidance: Sequence[Guidance] = (),
    signals: Sequence[str] = (),
    blocked: Sequence[str] = (),
    facts: Sequence[Fact] = (),
) -> list[Fact]:
    """A finished round with this reply; every call of it is answered with "done", or blocked if ``blocked`` has its id.

    ``guidance`` is given before the reply; ``facts`` come before the end, after all calls.
    """
    message = Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))
    return [
        (RoundStarted, {"index": index, "reason": reason or ("prompt" if index == 0 else "tool_results")}),
        *[(GuidanceGiven, {"guidance": one}) for one in guidance],
        (ModelReplied, {"message": message, "stop_reason": stop_reason, "signals": tuple(signals)}),
        *[fact for call in message.calls for fact in (blocked_call(call) if call.id in blocked else answered(call))],
        *facts,
        (RoundFinished, {"index": index, "status": status}),
    ]


def answered(call: ToolCall, text: str = "done", **how: Any) -> list[Fact]:
    """A call ran; ``how``: is_error, error_code."""
    return [(ToolStarted, {"call": call}), (ToolFinished, {"result": ToolResult(call.id, call.name, (Text(text),), **how)})]


def blocked_call(call: ToolCall, rule: str = "consecutive") -> list[Fact]:
    """A gate did not admit the call."""
    result = ToolResult(call.id, call.name, (Text(f"{DUPLICATE}: {call.name}"),), is_error=True, error_code=DUPLICATE)
    return [(CallBlocked, {"call": call, "result": result, "rule": rule})]


def todos_are(*todos: Todo, by: Literal["model", "outside"] = "outside", call_id: str = "") -> Fact:
    """The todo list is this one from now on."""
    return TodosChanged, {"todos": todos, "by": by, "call_id": call_id}


def todo(todo_id: int, status: TodoStatus = "not-started", **fields: Any) -> Todo:
    return Todo(todo_id, f"Thing {todo_id}", status, **fields)


def guidance_of(cell: str, text: str = "Go on.", level: int = 1) -> Guidance:
    """Guidance of this cell."""
    return Guidance("hand", cell, text, level)


def said(text: str) -> Fact:
    return CommandReceived, {"command": "say", "text": text}


def called(name: str, call_id: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, call_id)


def bare(model: Model, tools: Sequence[Any] = (), **settings: Any) -> Agent:
    """An agent of which the model hears nothing but the conversation, and has no tools but these."""
    return Agent(model, tools=tools, **{"guidance": "off", "todos": False, **settings})


async def loop_alone(
    model: Model,
    *policies: Policy,
    guides: Sequence[Guide] = (),
    gates: Sequence[Gate] = (),
    tools: Sequence[Callable[..., Any]] = (),
    watch: Watcher | None = None,
    inbox: Inbox | None = None,
) -> Run:
    """A run of the loop with these rules and no agent around it."""
    log = EventLog("r-1", watchers=(watch,) if watch else ())
    toolbox = Toolbox(tools)
    loop = Loop(
        model=model,
        conversation=RequestBuilder("", toolbox.specs, {}),
        dispatch=Dispatch(toolbox, log, Path.cwd(), call_in_thread, gates),
        rules=PolicyBundle(policies, tuple(guides), tuple(gates)),
        log=log,
        inbox=inbox or Inbox(),
    )
    return await loop.run(opening())


class Breaking:
    """Says these words one by one and then raises, instead of giving a reply; ``before`` are its whole replies until then."""

    name = "scripted:breaking"

    def __init__(self, words: Sequence[str], error: BaseException | None, before: Sequence[Reply] = ()) -> None:
        self._words, self._error, self._before = words, error, list(before)

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        if self._before:
            yield self._before.pop(0)
            return
        for word in self._words:
            yield TextDelta(word)
        if self._error is not None:
            raise self._error


def reply(*parts: AnyPart, stop_reason: str = "end_turn", **fields: Any) -> Reply:
    return Reply(Message("assistant", parts), stop_reason=stop_reason, **fields)


def kinds(run: Run) -> list[str]:
    return [type(event).__name__ for event in run.events]


def results(run: Run) -> list[ToolResult]:
    return [result for a in run.rounds for result in a.results]


def codes(run: Run) -> list[str | None]:
    return [result.error_code for result in results(run)]


def assert_every_call_has_one_result(run: Run) -> None:
    """Once in the log, and in the conversation right after the reply that asked, in its order."""
    asked = [call.id for a_round in run.rounds for call in a_round.calls]
    assert len(set(asked)) == len(asked)
    answers = Counter(event.result.call_id for event in run.events if isinstance(event, ToolFinished | CallBlocked))
    assert answers == Counter(asked)
    blocked = {event.call.id for event in run.events if isinstance(event, CallBlocked)}
    assert not blocked & {event.call.id for event in run.events if isinstance(event, ToolStarted)}
    for message, following in zip(run.messages, [*run.messages[1:], None], strict=True):
        if message.calls:
            assert following is not None and following.role == "tool"
            assert [part.call_id for part in following.parts] == [call.id for call in message.calls]  # type: ignore[union-attr]


def assert_closed(run: Run) -> None:
    """The log has an end, nothing after it, and no round is left open."""
    assert kinds(run)[-1] == "RunFinished"
    assert kinds(run).count("RunFinished") == 1
    assert run.open_round is None
    assert not run.should_continue


def checked(run: Run) -> Run:
    """The run, which is closed, has one result a call, and is what its events make."""
    assert_closed(run)
    assert_every_call_has_one_result(run)
    assert Run.from_events(run.events) == run
    return run


def told_of(run: Run) -> list[tuple[str, float]]:
    """The limits that ended it, by name and value."""
    return [(event.limit, event.value) for event in run.events if isinstance(event, LimitReached)]
