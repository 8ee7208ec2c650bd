"""What holds for every model: one suite over all implementations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from agentnb import Agent, Run, Store, ToolCall
from agentnb.core import events as e
from agentnb.core.messages import Message, Text, Thinking, ToolResult
from agentnb.core.request import Request
from agentnb.models import Model, Reply, ScriptedModel, SimulatedModel

SCRIPT = [
    [
        "Zuerst  addieren:\n\n- 1 und 2 👀 ",
        Thinking("hm"),
        ToolCall("add", {"a": 1, "b": 2}),
        ToolCall("add", {"a": 3, "b": 4}),
    ],
    ToolCall("fail", {"why": "because"}),
    ["", ToolCall("nothing_of_the_kind")],
    "  It is\n3.\t✓ ",
]
PROMPT = "Please:\n\n- add `add(1, 2)` and `add(a=3, b=4)`\n- fail `fail('because')`\n"


def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def fail(why: str) -> str:
    """Fails."""
    raise RuntimeError(why)


class Whole:
    """Another model without its deltas."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self._model = model

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        async for item in self._model.stream(request):
            if isinstance(item, Reply):
                yield item


class Overheard:
    """Another model, of which all is kept that it yields."""

    def __init__(self, model: Model) -> None:
        self.name = model.name
        self.streams: list[list[Any]] = []
        self._model = model

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        items: list[Any] = []
        self.streams.append(items)
        async for item in self._model.stream(request):
            items.append(item)
            yield item


MODELS: dict[str, Callable[[], Model]] = {
    "scripted, streamed": lambda: ScriptedModel(SCRIPT),
    "scripted, whole": lambda: ScriptedModel(SCRIPT, stream=False),
    "simulated": SimulatedModel,
    "simulated, slowly": lambda: SimulatedModel(delay=0.0001),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


def do(model: Model, **where: Any) -> Run:
    return asyncio.run(Agent(model, tools=[add, fail]).run(PROMPT, **where))


def shape(run: Run) -> list[Any]:
    """Rounds and messages without what differs from run to run: times, and the ids that the loop gave."""
    order = {record.call.id: str(number) for number, record in enumerate(r for one in run.rounds for r in one.records)}

    def plain(part: Any) -> Any:
        if isinstance(part, ToolCall):
            return replace(part, id=order[part.id])
        return replace(part, call_id=order[part.call_id]) if isinstance(part, ToolResult) else part

    messages = [Message(message.role, tuple(map(plain, message.parts))) for message in run.messages]
    rounds = [
        [
            *(one.index, one.reason, one.status, one.text, one.stop_reason, one.usage, one.metadata),
            *((plain(record.call), plain(record.result)) for record in one.records),
        ]
        for one in run.rounds
    ]
    return [messages, rounds, run.status, run.stop_reason, run.text, run.usage]


@every_model
def test_a_model_has_a_name_and_a_stream(make: Callable[[], Model]) -> None:
    assert isinstance(make(), Model)
    assert make().name.partition(":")[0] in ("scripted", "simulated") and make().name.partition(":")[2]


@every_model
def test_the_last_that_a_stream_yields_is_its_only_reply(make: Callable[[], Model]) -> None:
    model = Overheard(make())
    do(model)
    assert len(model.streams) >= 3
    for items in model.streams:
        assert [isinstance(item, Reply) for item in items] == [False] * (len(items) - 1) + [True]
        assert {type(item) for item in items[:-1]} <= {e.TextDelta, e.ThinkingDelta}


@every_model
def test_the_deltas_joined_are_the_text_of_the_reply(make: Callable[[], Model]) -> None:
    model = Overheard(make())
    do(model)
    streamed = [items for items in model.streams if len(items) > 1]
    assert bool(streamed) is (make != MODELS["scripted, whole"])
    for items in streamed:
        assert "".join(item.text for item in items[:-1] if isinstance(item, e.TextDelta)) == items[-1].message.text
        assert all(item.text for item in items[:-1])


@every_model
def test_a_reply_is_a_message_of_the_assistant(make: Callable[[], Model]) -> None:
    model = Overheard(make())
    do(model)
    for items in model.streams:
        assert items[-1].message.role == "assistant"
        assert items[-1].stop_reason == ("tool_use" if items[-1].message.calls else "end_turn")


@pytest.mark.req("R0.11")
@every_model
def test_streamed_and_whole_give_the_same_rounds_and_messages(make: Callable[[], Model]) -> None:
    streamed, whole = do(make()), do(Whole(make()))
    assert shape(streamed) == shape(whole)
    assert streamed.status == "completed" and len(streamed.rounds) >= 3


@pytest.mark.req("R0.11")
def test_a_script_gives_the_same_streamed_and_whole() -> None:
    assert shape(do(ScriptedModel(SCRIPT))) == shape(do(ScriptedModel(SCRIPT, stream=False)))


@every_model
def test_a_run_of_any_model_is_the_one_its_log_tells(make: Callable[[], Model], tmp_path: Any) -> None:
    store = Store(tmp_path / "runs")
    run = do(make(), store=store)
    assert store.load(run.id) == run == Run.from_events(run.events)


@every_model
def test_a_model_can_be_asked_by_many_runs_at_once(make: Callable[[], Model]) -> None:
    async def several() -> list[Run]:
        return await asyncio.gather(*(Agent(make(), tools=[add, fail]).run(PROMPT) for _ in range(8)))

    runs = asyncio.run(several())
    assert all(shape(run) == shape(runs[0]) for run in runs) and len({run.id for run in runs}) == 8


@every_model
def test_a_stream_that_is_left_early_leaves_nothing_behind(make: Callable[[], Model]) -> None:
    async def first_item() -> Any:
        request = Request("", [Message("user", (Text(PROMPT),))], ())
        stream = make().stream(request)
        item = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return item

    assert asyncio.run(first_item()) is not None
