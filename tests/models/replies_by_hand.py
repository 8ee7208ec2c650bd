"""Replies of the simulated model to requests made by hand, without an agent around it."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import pytest

from agentnb import Agent, Run
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request, ToolSpec
from agentnb.core.todos import TODO_TOOL
from agentnb.models import Reply, SimulatedModel

PROMPT = "1. One `add(1)`\n2. Two `add(2)`\n3. Three `add(3)`"


def add(a: int) -> int:
    """Adds."""
    return a + 2


def do(model: str | SimulatedModel, prompt: str = PROMPT, **settings: Any) -> Run:
    settings = {"tools": [add], "guidance": "off", "max_rounds": 12} | settings
    return asyncio.run(Agent(model, **settings).run(prompt))


@cache
def conversation(rounds: int, *, todos: bool = True) -> tuple[tuple[Message, ...], tuple[ToolSpec, ...]]:
    """Return the conversation of a model without faults after so many rounds, and the tools."""
    run = do("simulated:disciplined", todos=todos)
    tools = Agent("simulated:disciplined", tools=[add], todos=todos).first_request(PROMPT).tools
    return tuple(run.messages[: 1 + 2 * rounds]), tools


def reply(model: SimulatedModel, rounds: int = 2, reminder: str = "", *, todos: bool = True, tools: Any = ()) -> Reply:
    """Return the reply after so many rounds without faults: the list, step 1, step 2, step 3, the last mark, the answer."""
    messages, given = conversation(rounds, todos=todos)
    if reminder:
        told = Text(f"<system-reminder>\n{reminder}\n</system-reminder>")
        messages = (*messages[:-1], Message(messages[-1].role, (*messages[-1].parts, told)))
    return ask(model, *messages, tools=(*given, *tools))


def ask(model: SimulatedModel, *messages: Message, tools: tuple[ToolSpec, ...] = ()) -> Reply:
    async def answer() -> Any:
        return [item async for item in model.stream(Request("", messages, tools))][-1]

    # The model never waits and needs no event loop; there are thousands of replies here.
    with pytest.raises(StopIteration) as ended:
        answer().send(None)
    return ended.value.value


def updates(one: Reply) -> list[tuple[int, str]]:
    """Return the todo updates of a reply, in order."""
    calls = [call.arguments for call in one.message.calls if call.name == TODO_TOOL]
    return [(entry["id"], entry.get("status", "")) for arguments in calls for entry in arguments.get("todoUpdates", [])]


def work(one: Reply) -> list[Any]:
    return [call.arguments["a"] for call in one.message.calls if call.name == "add"]


@cache
def right(rounds: int = 2, **settings: Any) -> Message:
    return reply(SimulatedModel(), rounds, **settings).message
