"""Runs made by hand: from single events, or with the loop alone and nothing around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentnb.agent.conversation import Conversation
from agentnb.agent.dispatch import Dispatch
from agentnb.agent.loop import Loop
from agentnb.agent.policies import Policy
from agentnb.agent.threads import call_in_thread
from agentnb.core.events import (
    SCHEMA,
    AnyEvent,
    CommandReceived,
    Event,
    ModelReplied,
    RoundFinished,
    RoundStarted,
    RunStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from agentnb.core.inbox import Inbox
from agentnb.core.log import EventLog, Watcher
from agentnb.core.messages import AnyPart, Message, Text, ToolCall, ToolResult, user
from agentnb.core.request import Request
from agentnb.core.run import Run
from agentnb.models.model import Model, Reply, StreamItem
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


def a_round(index: int, *parts: str | AnyPart, stop_reason: str = "end_turn", status: str = "success") -> list[Fact]:
    """A finished round with this reply; every call of it is answered with "done"."""
    message = Message("assistant", tuple(Text(part) if isinstance(part, str) else part for part in parts))
    facts: list[Fact] = [
        (RoundStarted, {"index": index, "reason": "prompt" if index == 0 else "tool_results"}),
        (ModelReplied, {"message": message, "stop_reason": stop_reason}),
    ]
    for call in message.calls:
        result = ToolResult(call.id, call.name, (Text("done"),))
        facts += [(ToolStarted, {"call": call}), (ToolFinished, {"result": result})]
    return [*facts, (RoundFinished, {"index": index, "status": status})]


def said(text: str) -> Fact:
    return CommandReceived, {"command": "say", "text": text}


def called(name: str, call_id: str, **arguments: Any) -> ToolCall:
    return ToolCall(name, arguments, call_id)


async def loop_alone(
    model: Model,
    *policies: Policy,
    tools: Sequence[Callable[..., Any]] = (),
    watch: Watcher | None = None,
    inbox: Inbox | None = None,
) -> Run:
    """A run of the loop with these policies and no agent around it."""
    log = EventLog("r-1", watchers=(watch,) if watch else ())
    toolbox = Toolbox(tools)
    loop = Loop(
        model=model,
        conversation=Conversation("", toolbox.specs, {}),
        dispatch=Dispatch(toolbox, log, Path.cwd(), call_in_thread),
        policies=policies,
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
    answered = Counter(event.result.call_id for event in run.events if isinstance(event, ToolFinished))
    assert answered == Counter(asked)
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
