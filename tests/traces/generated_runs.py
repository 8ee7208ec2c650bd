"""Runs as hypothesis makes them up: a random script, really run, disturbed at a random event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from agentnb import Agent, Run, Store, ToolCall, tool
from agentnb.agent.start import Task, new_log, run_task
from agentnb.agent.threads import call_in_thread
from agentnb.core.inbox import CommandName, Inbox
from agentnb.core.messages import Message, Text, Thinking, user
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import AgentnbError
from agentnb.models import Reply, ScriptedModel
from agentnb.models.model import StreamItem

words = st.text(st.characters(), max_size=12)  # half characters too
numbers = st.integers(-100, 100)


def add(a: int, b: int = 2) -> int:
    """Adds."""
    return a + b


def echo(text: str) -> str:
    """Says it again."""
    return text + "\ud83d"


def boom(text: str = "") -> str:
    """Fails."""
    raise ValueError(f"no {text}\udc00")


@tool(parallel_safe=True)
async def nap(turns: int = 1) -> str:
    """Lets others run."""
    for _ in range(turns):
        await asyncio.sleep(0)
    return "rested"


@tool(timeout=0.001)
async def hang() -> str:
    """Never ends."""
    await asyncio.Event().wait()
    return "never"


TOOLS = (add, echo, boom, nap, hang)

arguments = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"a": numbers}),
    st.fixed_dictionaries({"text": st.text(max_size=8)}),
    st.fixed_dictionaries({"turns": st.integers(0, 5)}),
    st.fixed_dictionaries({"a": st.text(max_size=3), "wrong": st.none() | st.floats(allow_nan=False, allow_infinity=False)}),
)
ids = st.sampled_from(["", "", "call_1", "call_2", "ü"])
fitting = st.one_of(
    st.builds(ToolCall, st.just("add"), st.fixed_dictionaries({"a": numbers, "b": numbers}), ids),
    st.builds(ToolCall, st.sampled_from(["echo", "boom"]), st.fixed_dictionaries({"text": st.text(max_size=8)}), ids),
    st.builds(ToolCall, st.sampled_from(["nap", "hang"]), st.just({}), ids),
    st.builds(ToolCall, st.just("nap"), st.fixed_dictionaries({"turns": st.integers(0, 5)}), ids),
)
calls = fitting | fitting | st.builds(ToolCall, st.sampled_from(["add", "echo", "boom", "nap", "hang", "gone"]), arguments, ids)
usages = st.builds(Usage, st.none() | st.integers(0, 99), st.none() | st.integers(0, 99), cost=st.none() | st.floats(0, 1))
stop_reasons = st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal", "tool_calls", "never_heard_of"])


def _reply(parts: list[Any], usage: Usage, stop_reason: str) -> Reply:
    return Reply(Message("assistant", tuple(parts)), usage, stop_reason, {"draw": 1})


lines = st.one_of(
    words,
    calls,
    st.lists(words | calls | st.builds(Thinking, words), max_size=4),
    st.builds(_reply, st.lists(st.builds(Text, words) | calls, max_size=3), usages, stop_reasons),
)
failures = st.builds(RuntimeError, words)


class Breaking(ScriptedModel):
    """A scripted model of which one stream breaks off after so many items."""

    def __init__(self, replies: tuple[Any, ...], stream: bool, cut: tuple[int, int] | None) -> None:
        super().__init__(replies, stream=stream)
        self._cut = cut

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        here = self._cut is not None and self._cut[0] == len(self.requests)
        count = 0
        async for item in super().stream(request):
            if here and self._cut is not None and count == self._cut[1]:
                raise ConnectionError("cut off")
            count += 1
            yield item


@dataclass(frozen=True)
class Plan:
    """What is to happen: replies, the limit of rounds, where a stream breaks off, what the person does after which event."""

    replies: tuple[Any, ...]
    later: tuple[Any, ...]
    max_rounds: int
    stream: bool
    cut: tuple[int, int] | None
    disturbances: tuple[tuple[int, tuple[tuple[CommandName, str], ...]], ...]


wishes = st.sampled_from(
    [
        (("stop", "enough"),),
        (("say", "hurry 👀"),),
        (("pause", ""), ("resume", "")),
        (("pause", ""), ("say", "wait"), ("stop", "")),
    ]
)
plans = st.builds(
    Plan,
    replies=st.lists(lines | lines | lines | failures, max_size=5).map(tuple),
    later=st.lists(lines, max_size=2).map(tuple),
    max_rounds=st.integers(1, 5),
    stream=st.booleans(),
    cut=st.none() | st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)),
    disturbances=st.lists(st.tuples(st.integers(0, 25), wishes), max_size=2, unique_by=lambda pair: pair[0]).map(tuple),
)


async def _do(plan: Plan, replies: tuple[Any, ...], store: Store, before: Run | None) -> Run:
    inbox, heard = Inbox(), 0
    due = dict(plan.disturbances) if before is None else {}

    def watch(item: Any) -> None:
        nonlocal heard
        for name, text in due.pop(heard, ()):
            inbox.put(name, text)
        heard += 1

    agent = Agent(Breaking((*replies, "Done, I think."), plan.stream, plan.cut), tools=TOOLS, max_rounds=plan.max_rounds)
    task = Task(user("Go, \ud83d go"), continue_from=before, store=store, watchers=(watch,))
    try:
        return await run_task(agent, task, new_log(task), inbox, call_in_thread)
    except AgentnbError as error:
        assert error.run is not None
        return error.run


def really_run(plan: Plan, store: Store) -> list[Run]:
    """The run of this plan, and one that goes on with its conversation."""
    first = asyncio.run(_do(plan, plan.replies, store, None))
    return [first, asyncio.run(_do(plan, plan.later, store, first))]
