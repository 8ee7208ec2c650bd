"""The contract of every model, scripted, simulated or remote."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from every_model import KINDS, PROMPT, End, Kind, Overheard, Whole, kind_of
from msgspec.structs import replace
from property_settings import size
from scripted_runs import add

from agentnb import Agent, Run, Store, ToolCall
from agentnb.core.log import events as e
from agentnb.core.messages import Image, Message, Text, Thinking, ToolResult, user
from agentnb.core.request import Request
from agentnb.models import Model, Reply
from agentnb.models.model import Unshown

SCRIPT = [
    [
        Thinking("hm, hm"),
        "Zuerst  addieren:\n\n- 1 und 2 👀 ",
        ToolCall("add", {"a": 1, "b": 2}),
        ToolCall("add", {"a": 3, "b": 4}),
    ],
    ToolCall("fail", {"why": "because"}),
    ["Hm. ", ToolCall("nothing_of_the_kind")],
    "  It is\n3.\t✓ \u202e\u0007 עִבְרִית 漢字 ",
]
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001"
    "e221bc330000000049454e44ae426082"
)
SCRIPTABLE = [name for name in KINDS if "simulated" not in name]
CALL_REASONS = {"tool_use", "tool_calls", "completed"}
END_REASONS = {"end_turn", "stop", "completed"}


def fail(why: str) -> str:
    """Fails."""
    raise RuntimeError(why)


def look(what: str) -> Image:
    """Looks at something."""
    return Image("image/png", PNG)


@pytest.fixture(params=KINDS)
def first(request: pytest.FixtureRequest) -> First:
    """The first run of each kind."""
    return first_run(request.param)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Iterator[Kind]:
    with kind_of(request.param) as made:
        yield made


@pytest.fixture(params=SCRIPTABLE)
def scriptable(request: pytest.FixtureRequest) -> Iterator[Kind]:
    """The kinds that follow a script; the simulated model does not."""
    with kind_of(request.param) as made:
        yield made


def do(model: Model, prompt: str | Message = PROMPT, **where: Any) -> Run:
    return asyncio.run(Agent(model, tools=[add, fail, look]).run(prompt, **where))


def shape(run: Run) -> list[Any]:
    """Return rounds and messages without times and ids."""
    order = {record.call.id: str(number) for number, record in enumerate(r for round_ in run.rounds for r in round_.records)}

    def plain(part: Any) -> Any:
        if isinstance(part, ToolCall):
            return replace(part, id=order[part.id])
        if isinstance(part, Thinking):
            return Thinking(part.text)
        return replace(part, call_id=order[part.call_id]) if isinstance(part, ToolResult) else part

    messages = [Message(message.role, tuple(map(plain, message.parts))) for message in run.messages]
    rounds = [
        [
            *(round_.index, round_.reason, round_.status, round_.text, round_.stop_reason, round_.usage),
            {key: value for key, value in round_.metadata.items() if key != "id"},
            *((plain(record.call), plain(record.result)) for record in round_.records),
        ]
        for round_ in run.rounds
    ]
    return [messages, rounds, run.status, run.stop_reason, run.text, run.usage]


def refusals(kind: Kind) -> list[str]:
    """Return the problems that the strict server found in our requests."""
    return [problem for server in kind.servers for received in server.requests for problem in received.problems]


def test_model_satisfies_the_protocol_and_has_a_qualified_name(kind: Kind) -> None:
    model = kind.model(SCRIPT)
    assert isinstance(model, Model)
    assert model.name.partition(":")[0] and model.name.partition(":")[2]


class First(NamedTuple):
    """A run that tests look at and continue, unchanged."""

    run: Run
    streams: list[list[Any]]
    refusals: list[str]
    follows_scripts: bool


@cache
def first_run(name: str) -> First:
    """Return the run of this kind of model with `SCRIPT`."""
    with kind_of(name) as kind:
        model = Overheard(kind.model(SCRIPT))
        return First(do(model), model.streams, refusals(kind), kind.follows_scripts)


def test_stream_ends_with_its_only_reply(first: First) -> None:
    assert len(first.streams) >= 3
    for items in first.streams:
        assert [isinstance(item, Reply) for item in items] == [False] * (len(items) - 1) + [True]
        assert {type(item) for item in items[:-1]} <= {e.TextDelta, e.ThinkingDelta, Unshown}


def test_joined_deltas_equal_the_reply_text(first: First) -> None:
    for items in (items for items in first.streams if len(items) > 1):
        reply = items[-1].message
        assert "".join(item.text for item in items[:-1] if isinstance(item, e.TextDelta)) == reply.text
        assert all(item.text for item in items[:-1] if not isinstance(item, Unshown))
        thought = "".join(part.text for part in reply.parts if isinstance(part, Thinking))
        if any(isinstance(item, e.ThinkingDelta) for item in items):
            assert "".join(item.text for item in items if isinstance(item, e.ThinkingDelta)) == thought


def test_reply_is_an_assistant_message_with_a_stop_reason(first: First) -> None:
    for items in first.streams:
        assert items[-1].message.role == "assistant"
        assert items[-1].stop_reason in (CALL_REASONS if items[-1].message.calls else END_REASONS)


@pytest.mark.req("R0.10")
@pytest.mark.parametrize("name", SCRIPTABLE)
def test_text_thinking_and_calls_arrive_unchanged(name: str) -> None:
    run, _, refused, _ = first_run(name)
    assert refused == []
    assert [round_.text for round_ in run.rounds] == [SCRIPT[0][1], "", "Hm. ", SCRIPT[3]]
    assert [(call.name, call.arguments) for call in run.rounds[0].calls] == [
        ("add", {"a": 1, "b": 2}),
        ("add", {"a": 3, "b": 4}),
    ]
    assert [result.text for result in run.rounds[0].results] == ["3", "7"]
    assert [part.text for part in run.rounds[0].reply.parts if isinstance(part, Thinking)] == ["hm, hm"]
    assert [round_.records[0].result.error_code for round_ in run.rounds[1:3]] == ["tool_error", "unknown_tool"]
    assert run.status == "completed" and run.text == SCRIPT[3]


@pytest.mark.req("R0.11")
@pytest.mark.parametrize("name", KINDS)
def test_streamed_and_unstreamed_runs_have_equal_rounds_and_messages(name: str) -> None:
    streamed = first_run(name).run
    with kind_of(name) as kind:
        whole = do(Whole(kind.model(SCRIPT)))
    assert shape(streamed) == shape(whole)
    # The script has a failing call: a model with a todo list marks this step as blocked.
    assert streamed.status == ("completed" if kind.follows_scripts else "stopped") and len(streamed.rounds) >= 3


@pytest.mark.req("R0.11", "R0.10")
def test_unstreamed_and_streamed_replies_are_equal(subtests: pytest.Subtests) -> None:
    for name in [name for name in KINDS if f"{name}, whole" in KINDS]:
        with subtests.test(name):
            assert shape(first_run(name).run) == shape(first_run(f"{name}, whole").run)


@pytest.mark.req("R0.10")
def test_every_scriptable_model_produces_the_same_run() -> None:
    shapes = {}
    for name in KINDS:
        run, *_, follows_scripts = first_run(name)
        if follows_scripts:
            calls = [(r.call.name, r.call.arguments, r.result.text) for round_ in run.rounds for r in round_.records]
            shapes[name] = [run.text, run.status, run.stop_reason, calls, [round_.text for round_ in run.rounds]]
    assert len(shapes) == 12
    assert all(shape == shapes["scripted"] for shape in shapes.values())


def test_log_of_any_model_recreates_its_run(kind: Kind, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    run = do(kind.model(SCRIPT), store=store)
    assert store.load(run.id) == run == Run.from_events(run.events)


def test_model_serves_many_runs_at_once(kind: Kind) -> None:
    many = size(4, nightly=8)

    async def several() -> list[Run]:
        return await asyncio.gather(*(Agent(kind.model(SCRIPT), tools=[add, fail]).run(PROMPT) for _ in range(many)))

    runs = asyncio.run(several())
    assert all(shape(run) == shape(runs[0]) for run in runs) and len({run.id for run in runs}) == many


def test_abandoned_stream_leaves_nothing_behind(kind: Kind) -> None:
    async def first_item() -> Any:
        request = Request("", [user(PROMPT)], ())
        stream = kind.model(SCRIPT).stream(request)
        item = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return item

    assert asyncio.run(first_item()) is not None


def test_pictures_reach_the_model_in_the_prompt_and_in_results(scriptable: Kind) -> None:
    prompt = Message("user", (Text("What is this?"), Image("image/png", PNG)))
    model = Overheard(scriptable.model([ToolCall("look", {"what": "it"}), "A dot."]))
    run = do(model, prompt)
    assert refusals(scriptable) == [] and run.text == "A dot."
    assert Image("image/png", PNG) in model.requests[0].messages[0].parts
    assert Image("image/png", PNG) in run.rounds[0].results[0].parts
    for server in scriptable.servers:
        sent = [received.raw.decode().count("iVBORw0KGgo") for received in server.requests]
        assert sent == [1, 2], "the picture of the prompt, then that and the one of the result"


def test_an_empty_answer_has_no_parts(scriptable: Kind) -> None:
    model = Overheard(scriptable.model([[], "Now I say something."]))
    run = do(model)
    assert refusals(scriptable) == []
    assert model.streams[0][-1].message.text == "" and not model.streams[0][-1].message.calls
    assert run.text == "Now I say something." and run.status == "completed"


@pytest.mark.req("K2.1")
def test_answer_cut_off_by_length_is_continued_once(scriptable: Kind) -> None:
    run = do(scriptable.model([End(["It is half a sen"], "cut"), "tence."]))
    assert refusals(scriptable) == []
    assert run.rounds[0].stop_reason in ("max_tokens", "length", "max_output_tokens")
    assert run.text == "It is half a sentence." and run.status == "completed"


@pytest.mark.req("K2.1")
def test_refused_answer_stops_the_run_with_a_message(scriptable: Kind) -> None:
    run = do(scriptable.model([End(["I would rather not."], "refused")]))
    assert (run.status, run.stop_reason, len(run.rounds)) == ("stopped", "refusal", 1)


@pytest.mark.parametrize("name", SCRIPTABLE)
def test_conversation_continues_with_any_other_model(name: str, subtests: pytest.Subtests) -> None:
    every = size(3, nightly=1)  # by day each model continues other conversations than the next one
    for other in [*KINDS][SCRIPTABLE.index(name) % every :: every]:
        with subtests.test(other), kind_of(name) as kind:
            again = Agent(kind.model(["And that was all."]), tools=[add, fail, look])
            second = asyncio.run(again.run("What was it?", continue_from=first_run(other).run))
            assert refusals(kind) == [] and second.text == "And that was all."
