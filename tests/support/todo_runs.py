"""Runs about todos and guidance: by hand from single events, or whole with a script; and what the model was told in passing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from runs_by_hand import Fact, run_of

from agentnb.agent.agent import Agent
from agentnb.core.events import (
    GuidanceGiven,
    ModelReplied,
    RoundFinished,
    RoundStarted,
    TodosChanged,
    ToolFinished,
    ToolStarted,
)
from agentnb.core.guidance import Guidance
from agentnb.core.messages import AnyPart, Message, Text, ToolCall, ToolResult
from agentnb.core.request import Request
from agentnb.core.run import Run
from agentnb.core.todos import TODO_TOOL, Todo, TodoStatus
from agentnb.guidance import GuidanceSet, built_in
from agentnb.models.scripted import Line, ScriptedModel
from agentnb.tools.toolbox import Toolbox

MATRIX = built_in("matrix")
OFF = built_in("off")
LONG_ANSWER = "The table has three columns and twelve rows, and none of its values is missing."
TAG = "<system-reminder>"
_REMINDER = re.compile(rf"{TAG}\n(.*)\n</system-reminder>", re.DOTALL)


def work(item: int = 0) -> str:
    """Does the work of one item."""
    return f"made {item}"


def think(thought: str = "") -> str:
    """Thinks, and does nothing."""
    return "thought"


SPECS = Toolbox([work, think]).specs


def todo(number: int, status: TodoStatus = "not-started", title: str = "", **fields: Any) -> Todo:
    return Todo(number, title or f"Write story {number}", status, **fields)


def todos_of(*statuses: TodoStatus) -> tuple[Todo, ...]:
    """A list with these statuses, numbered from 1."""
    return tuple(
        todo(number, status, blocked_reason="no key" if status == "blocked" else None)
        for number, status in enumerate(statuses, start=1)
    )


# Calls as a model makes them


def write(*titles: str) -> ToolCall:
    items = [{"id": number, "title": title, "status": "not-started"} for number, title in enumerate(titles, start=1)]
    return ToolCall(TODO_TOOL, {"operation": "write", "todoList": items})


def mark(number: int, status: str, **fields: Any) -> ToolCall:
    return ToolCall(TODO_TOOL, {"operation": "update", "todoUpdates": [{"id": number, "status": status, **fields}]})


def start(number: int) -> ToolCall:
    return mark(number, "in-progress")


def complete(number: int) -> ToolCall:
    return mark(number, "completed")


def do(item: int) -> ToolCall:
    return ToolCall("work", {"item": item})


# Runs by hand


def begun(index: int, reason: str = "", *guidance: Guidance) -> list[Fact]:
    """A round that has begun, and what is said to the model in it."""
    reason = reason or ("prompt" if index == 0 else "tool_results")
    return [(RoundStarted, {"index": index, "reason": reason}), *[(GuidanceGiven, {"guidance": one}) for one in guidance]]


def turn(
    index: int,
    *parts: str | AnyPart,
    reason: str = "",
    guidance: Sequence[Guidance] = (),
    signals: tuple[str, ...] = (),
    after: tuple[Todo, ...] | None = None,
    error_code: str = "",
) -> list[Fact]:
    """A finished round. ``after`` is the list as its last call left it; every call is answered, with ``error_code`` if any."""
    parts = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    parts = tuple(
        ToolCall(part.name, part.arguments, f"c{index}-{n}") if isinstance(part, ToolCall) else part
        for n, part in enumerate(parts)
    )
    message = Message("assistant", parts)
    facts = [*begun(index, reason, *guidance), (ModelReplied, {"message": message, "signals": signals})]
    for call in message.calls:
        facts.append((ToolStarted, {"call": call}))
        if after is not None and call == message.calls[-1]:
            facts.append((TodosChanged, {"todos": after, "by": "model", "call_id": call.id}))
        result = ToolResult(call.id, call.name, (Text("done"),), bool(error_code), error_code or None)
        facts.append((ToolFinished, {"result": result}))
    return [*facts, (RoundFinished, {"index": index, "status": "success"})]


def made(*facts: Fact, **fields: Any) -> Run:
    """The run of these facts, with tools and a limit of nine rounds."""
    return run_of(*facts, **{"tools": SPECS, "settings": {"max_rounds": 9}, **fields})


def told(cell: str, level: int = 1) -> Guidance:
    """Some guidance of this cell."""
    return Guidance("matrix", cell, "Words.", level)


# Whole runs


def scripted(*replies: Line, tools: Sequence[Any] = (work, think), **settings: Any) -> tuple[Run, ScriptedModel]:
    """What an agent makes of this script, to its last reply."""
    model = ScriptedModel(replies)
    run = Agent(model, tools=tools, **settings).run_sync("Write three stories.")
    assert len(model.requests) == len(replies), f"{len(model.requests)} of {len(replies)} replies were asked for: {run}"
    return run, model


def own_set(**parts: str) -> GuidanceSet:
    return GuidanceSet("own", parts)


def in_passing(request: Request) -> str:
    """What the request says in passing; there is no second such text, and it stands at the very end."""
    texts = [part.text for message in request.messages for part in message.parts if isinstance(part, Text)]
    if not any(TAG in text for text in texts):
        return ""
    assert sum(text.count(TAG) for text in texts) == 1
    last = request.messages[-1]
    assert last.role != "assistant"
    found = _REMINDER.fullmatch(last.parts[-1].text)  # type: ignore[union-attr]
    assert found
    return found[1]


def cells(run: Run) -> list[list[tuple[str, int]]]:
    """What was said in each round: cell and level, in order."""
    return [[(one.cell, one.level) for one in a_round.guidance] for a_round in run.rounds]


def reasons(run: Run) -> list[str]:
    return [a_round.reason for a_round in run.rounds]


def statuses(run: Run) -> list[str]:
    return [one.status for one in run.todos]


def ended(run: Run) -> tuple[str, str | None]:
    return run.status, run.stop_reason


def stored_text(run: Run) -> str:
    """All words that are kept in the conversation."""
    return "\n".join(message.text for message in run.messages)
